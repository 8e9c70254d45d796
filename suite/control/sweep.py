"""Run the jobs of a command in order, and print the result of each run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape

from suite.common.checkpoint_files import WEIGHTS
from suite.common.command_text import localize_commands
from suite.common.relative_path import relative_path
from suite.control.clearing import clear_caches, open_reasons
from suite.control.command import Command
from suite.control.hosts.agents import Agents
from suite.control.progress import Progress
from suite.control.run_status import RunStatus
from suite.control.supervise import Supervisor
from suite.plan.job import Job
from suite.plan.resume import (
    FINISHED,
    find_resume,
    finished_status,
    move_to_superseded,
    restore_status,
)
from suite.preflight import check_machine


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended."""

    job: Job
    index: int
    status: RunStatus

    @property
    def log(self) -> Path:
        """Return the path of the run's log.

        The log does not exist if the run ended before it wrote its first line.
        """
        return self.job.folder / f"run_{self.index}" / f"result_{self.index}.txt"

    @property
    def is_lost(self) -> bool:
        """Return True if the run finished but its log was deleted."""
        return self.status.status in FINISHED and not self.log.is_file()

    @property
    def is_expected(self) -> bool:
        """Return True if the run succeeded, or is a study's cell that ran out of memory.

        The study's table shows a cell that ran out of memory as such.
        """
        status = self.status.status
        return (status == "success" and not self.is_lost) or (
            status == "oom" and bool(self.job.template.study)
        )

    def text(self) -> str:
        """Return the result of the run with rich markup.

        If the run failed, the text includes the reason and the file to read.
        """
        status, reason = self.status.status, self.status.reason
        if status == "success" and not self.is_lost:
            is_reached = self.job.template.settings.stop == "target"
            return f"[green]{reason or ('target reached' if is_reached else 'finished')}[/]"
        text = f"{status}: {reason}" if reason else status
        if self.is_lost:
            text = f"{text}, but its log was deleted"
        return f"[red]{escape(text)}[/]  {escape(relative_path(self._file_to_read()))}"

    def _file_to_read(self) -> Path:
        """Return the file in which the user can read how the run ended.

        The file is the run's log, or the file with the traceback of the failed process.
        """
        folder = self.log.parent
        if self.status.status in ("failed", "oom") and self.status.process is not None:
            worker_log = folder / f"worker-{self.status.process}.log"
            if worker_log.is_file() and worker_log.stat().st_size:
                return worker_log
        return self.log if self.log.exists() else folder


def run_jobs(
    jobs: Sequence[Job],
    command: Command,
    ended: list[EndedRun],
    check_output: Callable[[], None],
    agents: Agents | None = None,
) -> bool:
    """Run all jobs in order.

    Args:
        jobs: The jobs, each with at least one run.
        command: The command that contains the jobs.
        ended: List to which each run is appended when it ends.
        check_output: Function that raises OSError if the output folder no longer exists. The
            function is called before and after each run.
        agents: The agents, if the jobs run on several machines.

    Returns:
        True if every run ended as expected.

    Raises:
        KeyboardInterrupt: A scheduler interrupted a run. The scheduler would also interrupt the
            next runs.
    """
    count = sum(job.run_count for job in jobs)
    labels = sorted({label.text for job in jobs for label in job.template.labels})
    labels_text = f" ({', '.join(labels)})" if labels else ""
    runs_text = f"{count:,} run{'' if count == 1 else 's'}{labels_text}"
    command.show([f"{runs_text}, logs in {relative_path(jobs[0].folder.parent)}"])
    warned: set[str] = set()
    for job in jobs:
        for line in check_machine.warnings_before(job, on_agents=agents is not None):
            if line not in warned:
                command.warn(localize_commands(line))
            warned.add(line)
        for index in range(job.run_count):
            check_output()
            run, warnings = _run(job, index, command, agents)
            ended.append(run)
            check_output()
            command.console.print(run.text(), soft_wrap=True)
            for line in warnings:
                command.warn(line)
            if run.status.status == "interrupted":
                raise KeyboardInterrupt
    return all(run.is_expected for run in ended)


def _run(
    job: Job, index: int, command: Command, agents: Agents | None
) -> tuple[EndedRun, list[str]]:
    """Execute a run, unless an earlier command already finished the run.

    Returns the ended run, and warnings about the run's result.
    """
    folder = job.folder / f"run_{index}"
    if folder.exists():
        earlier = finished_status(folder, job.run(index, cache_cleared=False))
        if earlier:
            restore_status(folder, job.run(index, cache_cleared=False), earlier)
            without_weights = job.template.checkpoint_final and not (folder / WEIGHTS).is_file()
            lost = ", but it was ended before weights.npz was written" if without_weights else ""
            command.show([f"{job.name}/run_{index}"])
            return EndedRun(job, index, RunStatus(earlier, f"finished earlier{lost}")), []
        command.show([f"unfinished attempt kept in {relative_path(move_to_superseded(folder))}"])
    if agents is not None:
        agents.ready()
    resume = find_resume(job.run(index, cache_cleared=False), folder, command.warn)
    if resume is not None:
        (run, checkpoint), states = resume, None
    else:
        is_cleared, states = clear_caches(job, command, agents)
        run, checkpoint = job.run(index, is_cleared), None
    if checkpoint is not None:
        command.show([f"resumed from {relative_path(checkpoint)}"])
    with Progress(run, f"{job.name}/run_{index}", command.console) as progress:
        connections = agents.connections if agents is not None else {}
        reasons = functools.partial(open_reasons, states)
        supervisor = Supervisor(
            run, job.framework, job.environment, progress, connections, checkpoint, reasons
        )
        status = supervisor.run()
    warnings = [f"division open: {reason}" for reason in supervisor.open_reasons]
    if supervisor.busy:
        warnings.append(f"busy machine: {', '.join(supervisor.busy)}")
    return EndedRun(job, index, status), warnings
