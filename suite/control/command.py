"""A composed command with its output folder, console, and job names."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from suite.common.job_name import named
from suite.common.output_lock import refuse_link_to_nothing
from suite.common.paths import expand_user, in_utf8, log_root
from suite.common.run_config import RunConfig
from suite.config.compose import Composed, Request
from suite.launch.scratch import scratch_above


@dataclass(frozen=True)
class Command:
    """A composed command line, the output folder of its runs, and the console."""

    request: Request
    output: Path
    """Output folder of the runs. The folder may not exist yet."""
    console: Console

    @property
    def config(self) -> RunConfig:
        """Return the first job's configuration, for keys that apply to the whole command."""
        return self.request.jobs[0].config

    @property
    def configs(self) -> list[RunConfig]:
        """Return the configuration of each job."""
        return [composed.config for composed in self.request.jobs]

    def show(self, lines: Iterable[str]) -> None:
        """Print lines of text. Markup in the text is printed unchanged."""
        for line in lines:
            self.console.print(escape(line), soft_wrap=True)

    def warn(self, line: str) -> None:
        """Print a warning."""
        self.console.print(f"[yellow]warning[/]: {escape(line)}", soft_wrap=True)


def output_folder(composed: Composed) -> Path:
    """Return the output folder of a command: `output=FOLDER`, or a new folder for logs.

    Raises:
        ValueError: `output` is empty, is a broken link, or is inside a run's folder for temporary
            files.
    """
    folder = composed.config.output
    if folder is None:
        stamp, suffix = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S"), 1
        output = log_root() / stamp
        while output.exists():
            suffix += 1
            output = log_root() / f"{stamp}-{suffix}"
    elif not str(folder).strip():
        raise ValueError(
            "output=: expected a folder, got an empty value. Set output=FOLDER, or omit it to"
            " create a new folder in logs/"
        )
    else:
        output = in_utf8(expand_user(str(folder)).absolute(), "output=")
    refuse_link_to_nothing(output)
    if (above := scratch_above(output)) is not None:
        raise ValueError(
            f"{output}: {above} holds the temporary files of a run and is deleted with it. Set a"
            " different output=FOLDER"
        )
    return output


def job_name(composed: Composed) -> str:
    """Return the folder name of a job.

    The folder name contains the workload, framework, profile, and number of devices, followed by
    the remaining overrides or the cell of a study.
    """
    config = composed.config
    overrides = composed.overrides if composed.cell is None else composed.cell.texts
    kinds = (config.workload_name, config.framework.name, config.profile.name)
    return named(*kinds, config.gpus, config.device, overrides)
