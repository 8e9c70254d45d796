"""Print the progress of a run as a table with a row per evaluation.

Between two rows of the table, the current phase of the run is printed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.status import Status as Spinner

from suite.common.runspec import RunSpec
from suite.results.directions import improves_as_it_falls
from suite.results.targets import bleu_scale, metric_abbreviation
from suite.results.text import clean
from suite.worker.heartbeat import WorkerStatus

QUIET_SECONDS = 60.0
"""Maximum time in seconds without a printed line if the output is not a terminal."""
UNKNOWN = "–"
"""Content of a table cell without a value."""
FIRST_COLUMN_WIDTH, MIN_COLUMN_WIDTH = 7, 9


class Progress:
    """Prints the progress of a run.

    Heartbeats contain the current phase of the run. `metrics.jsonl` contains the rows of the table.

    The printed times are measured from `run_start`. Lines before `run_start` state that their times
    are measured from the launch.
    """

    def __init__(self, run: RunSpec, title: str, console: Console) -> None:
        self.run_spec = run
        self.title = title
        self.console = console
        self._metrics = Path(run.folder) / "metrics.jsonl"
        self._offset = 0
        self._widths: dict[str, int] = {}
        """Maps the name of each column in the current table to its width."""
        self._launch = self._last_line = time.monotonic()
        self._run_start: float | None = None
        self._samples = self._last_samples = 0
        self._spinner: Spinner | None = None

    def __enter__(self) -> Progress:
        self._print(f"{self.title}{self._target_text()}")
        if self.console.is_terminal:
            self._spinner = self.console.status("start", refresh_per_second=4)
            self._spinner.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._print_new_blocks()
        if self._spinner is not None:
            self._spinner.__exit__(kind, error, at)
            self._spinner = None

    def update(self, heartbeats: Sequence[WorkerStatus | None]) -> None:
        """Print the blocks that ended since the previous call, and the run's current phase."""
        heartbeat = heartbeats[0]
        if heartbeat is not None:
            self._samples = heartbeat.samples
            if heartbeat.elapsed_seconds is not None and self._run_start is None:
                self._run_start = time.monotonic() - heartbeat.elapsed_seconds
        self._print_new_blocks()
        if heartbeat is None:
            return
        if self._spinner is not None:
            self._spinner.update(escape(f"{self._phase_text(heartbeat)}, {self._time_text()}"))
        elif time.monotonic() - self._last_line >= QUIET_SECONDS:
            self._print_phase(heartbeat)

    def _print_phase(self, heartbeat: WorkerStatus) -> None:
        """Print a line with the current phase during a long epoch, evaluation, or setup."""
        parts = [self._phase_text(heartbeat)]
        if heartbeat.step:
            rate = (heartbeat.samples - self._last_samples) / (time.monotonic() - self._last_line)
            parts.append(f"{rate:,.0f} {self._sample_unit}/s since the last line")
        self._print(", ".join([*parts, self._time_text()]))

    def _phase_text(self, heartbeat: WorkerStatus) -> str:
        return f"{heartbeat.phase}, step {heartbeat.step:,}" if heartbeat.step else heartbeat.phase

    def _time_text(self) -> str:
        if self._run_start is None:
            return (
                f"{time.monotonic() - self._launch:.0f} s since launch (the run's clock has not"
                " started)"
            )
        return f"elapsed {time.monotonic() - self._run_start:.0f} s"

    @property
    def _sample_unit(self) -> str:
        return clean(self.run_spec.identity["sample_unit"], 30)

    def _target_text(self) -> str:
        settings = self.run_spec.settings
        texts = []
        for metric, target in settings.targets.items() if self._is_evaluated else ():
            falls = improves_as_it_falls(metric, settings.workload, settings.falling_metrics)
            sign = "≤" if falls else "≥"
            name, scale = metric_abbreviation(metric), bleu_scale(metric, target)
            texts.append(f"{name} {sign} {target * scale:.7g}")
        return f", target {' and '.join(texts)}" if texts else ""

    def _print(self, line: str) -> None:
        self.console.print(escape(line), highlight=False, soft_wrap=True)
        self._last_line, self._last_samples = time.monotonic(), self._samples

    def _print_new_blocks(self) -> None:
        for block in self._read_blocks():
            cells = self._cells(block)
            if cells.keys() != self._widths.keys():
                self._widths = {name: max(len(name), MIN_COLUMN_WIDTH) for name in cells}
                self._widths[next(iter(cells))] = FIRST_COLUMN_WIDTH
                self._print_row({name: name for name in cells})
            self._print_row(cells)

    def _print_row(self, cells: Mapping[str, str]) -> None:
        self._print("  ".join(text.rjust(self._widths[name]) for name, text in cells.items()))

    def _cells(self, block: Mapping[str, Any]) -> dict[str, str]:
        """Return the table cells of a block by column name."""
        settings = self.run_spec.settings
        if settings.stop.partition(":")[0] in ("steps", "samples"):
            cells = {"step": f"{block['step']:,}"}
        else:
            cells = {"epoch": f"{block['first_epoch'] + block['epochs'] - 1:,}"}
        quality = dict.fromkeys(settings.targets) if self._is_evaluated else {}
        for metric, value in {**quality, **block["quality"]}.items():
            cells[metric_abbreviation(clean(metric, 30))] = _quality_text(
                metric, value, settings.targets.get(metric)
            )
        for unit, rate in {
            self._sample_unit: block["samples_per_second"],
            **block.get("rates", {}),
        }.items():
            cells[f"{clean(unit, 30)}/s"] = f"{rate:,.0f}"
        train_seconds, elapsed_seconds = block["train_seconds"], block.get("elapsed_seconds")
        wait_share = block["data_wait_seconds"] / train_seconds if train_seconds > 0 else 0.0
        cells["data wait"] = f"{100 * wait_share:.0f} %"
        cells["elapsed"] = UNKNOWN if elapsed_seconds is None else _seconds_text(elapsed_seconds)
        return cells

    @property
    def _is_evaluated(self) -> bool:
        settings = self.run_spec.settings
        return settings.mode == "train" and settings.profile != "synthetic"

    def _read_blocks(self) -> list[dict[str, Any]]:
        """Return the complete lines that were added to metrics.jsonl since the last call."""
        try:
            with open(self._metrics, "rb") as stream:
                stream.seek(self._offset)
                text = stream.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


def _seconds_text(seconds: float) -> str:
    return f"{seconds:,.1f} s" if seconds >= 1 else f"{seconds:.2f} s"


def _quality_text(metric: str, value: float | None, target: float | None) -> str:
    if value is None:
        return UNKNOWN
    shown = value * bleu_scale(metric, target, (value,))
    return f"{shown:.4f}" if abs(shown) < 10 else f"{shown:,.2f}"
