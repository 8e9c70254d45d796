"""Plan all jobs of a command before the first run starts.

The module rejects commands that cannot run, and generates missing demo data sets.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from suite.common.demo_data import generate_demo_data
from suite.common.terminal import clean_lines
from suite.config.compose import Request
from suite.control.cells import PlannedCell, impossible
from suite.control.command import Command, job_name
from suite.control.folders import refuse_equal
from suite.environments.environment import Descriptions
from suite.launch.hosts import AvailableHost
from suite.plan.job import Job, Plan
from suite.plan.jobs import check_trainers, plan
from suite.preflight.combine_errors import combine_errors


class CheckedJobs(NamedTuple):
    """The jobs of a command that can start, and the cells if the command runs a study."""

    jobs: list[Job]
    cells: list[PlannedCell]


def plan_all(
    request: Request,
    output: Path,
    hosts: Sequence[AvailableHost] = (),
    earlier: Sequence[Plan] = (),
) -> list[Plan]:
    """Return a plan for each job of a command, and print the notes of the plans.

    Args:
        request: The composed command.
        output: Folder of the runs.
        hosts: The machines, if the command runs on several machines. If empty, the command runs on
            this machine.
        earlier: Earlier plans of the same jobs. Only jobs whose data were missing are planned
            again.

    Raises:
        ValueError: `resume=true` is set without `output=FOLDER`.
    """
    first = request.jobs[0].config
    if first.resume and first.output is None:
        raise ValueError("resume=true needs the folder of the sweep to finish. Set output=FOLDER")
    versions = Descriptions()
    plans = [
        earlier_plan
        if earlier_plan is not None and (earlier_plan.job is not None or earlier_plan.findings)
        else plan(
            composed.config,
            job_name(composed),
            output,
            request.plugins,
            hosts,
            composed.cell,
            versions,
            composed.all_overrides,
        )
        for composed, earlier_plan in itertools.zip_longest(request.jobs, earlier)
    ]
    printed = {note for earlier_plan in earlier for note in earlier_plan.notes}
    for note in dict.fromkeys(
        note for new_plan in plans for note in new_plan.notes if note not in printed
    ):
        print(clean_lines(note), file=sys.stderr)
    return plans


def refusal(request: Request, plans: Sequence[Plan], here: bool) -> ValueError | None:
    """Return an error that lists all problems of a command, or None if it can run.

    A study can run if at least one of its cells can run.

    Args:
        request: The composed command.
        plans: A plan for each job.
        here: True if the command runs on this machine. The error then suggests a demo that can run
            on this machine.
    """
    pairs = list(zip(request.jobs, plans, strict=True))
    refused = [
        pair for pair in pairs if pair[1].findings and impossible(pair[1], pair[0].cell) is None
    ]
    if not refused and all(job_plan.findings for job_plan in plans):
        return plans[0].findings[0]
    if not refused:
        return None
    return combine_errors(
        [composed for composed, _ in refused], [job_plan for _, job_plan in refused], here
    )


def check_jobs(
    command: Command, plans: Sequence[Plan], hosts: Sequence[AvailableHost] = (), here: bool = True
) -> CheckedJobs:
    """Return the jobs of a command that can run.

    Missing demo data sets are generated first.

    Raises:
        ValueError: The command cannot run. The message lists all problems, each on a separate line.
        OSError: A data set cannot be written.
    """
    request = command.request
    drafts = [
        job_plan.draft for job_plan in plans if job_plan.draft is not None and not job_plan.findings
    ]
    check_trainers(drafts, request.plugins)
    # Plan again even if this command generates no data set, because another command may have
    # generated the missing data set.
    waiting = any(job_plan.job is None and not job_plan.findings for job_plan in plans)
    for dataset in sorted({draft.generates for draft in drafts} - {""}):
        command.show(generate_demo_data(dataset))
    if waiting:
        plans = plan_all(request, command.output, hosts, plans)
        refuse(request, plans, here)
    cells = [
        PlannedCell(job_name(composed), composed.cell, impossible(job_plan, composed.cell))
        for composed, job_plan in zip(request.jobs, plans, strict=True)
        if composed.cell is not None
    ]
    command.show(
        f"{cell.job}: {cell.reason.shown}: {cell.reason}"
        for cell in cells
        if cell.reason is not None
    )
    jobs = [job_plan.job for job_plan in plans if job_plan.job is not None]
    refuse_equal(jobs, command.output)
    return CheckedJobs(jobs, cells)


def refuse(request: Request, plans: Sequence[Plan], here: bool) -> None:
    """Raise the error that `refusal` returns, unless it is None."""
    if (error := refusal(request, plans, here)) is not None:
        raise error
