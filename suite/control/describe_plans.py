"""Output of `dry_run=true`.

The output lists the runs that a command would start, and the problems that prevent them.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from suite.common.paths import log_root
from suite.common.run_folder import STATUS_FILE
from suite.common.runspec import read_run
from suite.common.status_file import StatusFile
from suite.launch.hosts import AvailableHost
from suite.machine.cgroups import limits
from suite.plan.capacity import available_bytes
from suite.plan.job import Job, PartialJob, Plan
from suite.plan.resume import FINISHED, finished_status, identity

MAX_RUNS = 1000
"""Maximum number of earlier runs whose run times are read. The newest runs are read first."""
FULL = "full"
"""Value of `dry_run` that prints the details of each job."""


UNKNOWN = "unknown"
"""Displayed division or run time of a job if it cannot be determined."""


class Earlier(NamedTuple):
    """A finished run of an earlier command."""

    computes: str
    """Identity of the run's computation, as returned by `suite.plan.resume.identity`."""
    device_name: str
    seconds: float


def lines(
    plans: Sequence[tuple[str, Plan]], output: Path, submits: bool, full: bool = False
) -> Iterator[str]:
    """Yield the description of a command's jobs.

    For a single job, the lines contain the details of the job and the folders of its runs. For
    several jobs, the lines are a table.

    Args:
        plans: Name and plan of each job.
        output: Folder of the runs.
        submits: True if the command would be submitted to SLURM.
        full: True to add the details of each job to the table.
    """
    count = sum(plan.draft.run_count if plan.draft is not None else 1 for _, plan in plans)
    yield f"dry run, no process is started: {count} run(s) would be written to {output}"
    earlier = list(_earlier()) if any(plan.job is not None for _, plan in plans) else []
    if len(plans) > 1:
        yield from _table(plans, earlier, submits)
        if not full:
            yield f"for the details of each job, set dry_run={FULL}"
            return
    for name, plan in plans:
        yield name
        if plan.draft is not None:
            division, reason = _division(plan.draft, plan.job, submits)
            facts = [
                *_facts(plan.draft, submits),
                ("division", f"{division}{reason}"),
                ("time", _time(plan.draft, plan.job, earlier, submits)),
            ]
            yield from (f"  {topic:<12} {text}" for topic, text in facts if text)
        indices = range(plan.draft.run_count if plan.draft is not None else 1)
        runs = (
            _runs(plan.job)
            if plan.job is not None
            else [f"{output / name / f'run_{index}'}" for index in indices]
        )
        yield from (f"  {'run':<12} {line}" for line in runs)
        yield from (f"  {'problem':<12} {error}" for error in plan.findings)


def _table(
    plans: Sequence[tuple[str, Plan]], earlier: Sequence[Earlier], submits: bool
) -> Iterator[str]:
    """Yield the lines of the table, with one row per job.

    The problems of a job are in the last column, because their text is long.
    """
    rows = [["job", "runs", "devices", "batch", "stop", "division", "time per run", "problems"]]
    for name, plan in plans:
        cells = (
            _cells(plan.draft, plan.job, earlier, submits) if plan.draft is not None else ["–"] * 6
        )
        rows.append([name, *cells, "; ".join(map(str, plan.findings))])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(
    draft: PartialJob, job: Job | None, earlier: Sequence[Earlier], submits: bool
) -> list[str]:
    """Return a job's table cells: runs, devices, batch, stop, division, and run time."""
    settings, seconds = draft.settings, _seconds(job, earlier) if job is not None else []
    devices = f"{draft.devices} {'GPU' if settings.device == 'cuda' else 'CPU'}"
    time = f"{statistics.median(seconds):.0f} s" if seconds else UNKNOWN
    from_settings = [devices, str(settings.global_batch_size), settings.stop]
    return [str(draft.run_count), *from_settings, _division(draft, job, submits)[0], time]


def _runs(job: Job) -> Iterator[str]:
    """Yield the folder of each run, and the status if the run is already finished."""
    for index in range(job.run_count):
        folder = job.folder / f"run_{index}"
        status = folder.exists() and finished_status(folder, job.run(index, cache_cleared=False))
        yield f"{folder}{f' (finished earlier: {status})' if status else ''}"


def _facts(draft: PartialJob, submits: bool) -> Iterator[tuple[str, str]]:
    """Yield the heading and text of each detail of a job.

    A heading with an empty text is not printed.
    """
    settings = draft.settings
    kind = (
        "GPU(s)"
        if settings.device == "cuda"
        else f"CPU device(s) with {settings.cores_per_device} core(s) each"
    )
    machines = _unallocated(draft.hosts, submits, settings.nodes)
    machines = machines or ", ".join(host.name for host in draft.hosts) or "this machine"
    count = settings.devices
    available = (
        f", which has {count}. The lines below apply to {count} device(s)"
        if count < draft.devices
        else ""
    )
    yield "devices", f"{draft.devices} {kind} on {machines}{available}"
    yield (
        "environment",
        f"{draft.environment.name}: {draft.environment.python}" if draft.environment else "missing",
    )
    generated = f"{draft.generates} is generated when the command starts"
    yield (
        "data",
        (
            generated
            if draft.generates
            else f"{settings.dataset} in {settings.data_dir}"
            if settings.data_dir
            else "none"
        ),
    )
    needed = draft.workload.activation_bytes(settings) * -(
        -settings.global_batch_size // settings.devices
    )
    activations = f"at least {_size(needed)} for activations per device" if needed else ""
    memory = (
        f"{available_bytes(limits()) / 2**30:.1f} GiB available on this machine"
        if settings.device == "cpu"
        else ""
    )
    yield "memory", "" if submits else ", ".join(filter(None, (activations, memory)))
    yield (
        "batch",
        (
            f"{settings.global_batch_size} {draft.workload.batch_unit} in total, precision"
            f" {settings.precision}"
        ),
    )
    targets = " and ".join(f"{name} {value:g}" for name, value in settings.targets.items())
    yield "stop", f"{settings.stop}{f': {targets}' if settings.stop == 'target' else ''}"
    yield "set", settings.hyperparameter_set
    for name, value in settings.hyperparameters.items():
        yield "", f"{name} {value} ({settings.hyperparameter_sources[name]})"


def _size(size_bytes: float) -> str:
    """Format a size in GiB, or in MiB if the size in GiB would be shown as zero."""
    return (
        f"{size_bytes / 2**30:.1f} GiB"
        if size_bytes >= 2**30 / 10
        else f"{max(size_bytes / 2**20, 0.1):.1f} MiB"
    )


def _unallocated(hosts: Sequence[AvailableHost], submits: bool, count: int) -> str:
    """Describe the machines that SLURM has not allocated yet.

    The string is empty if the machines of the job are already determined.
    """
    return (
        f"{count} machine(s), which SLURM allocates and the job checks"
        if submits and not hosts
        else ""
    )


def _division(draft: PartialJob, job: Job | None, submits: bool) -> tuple[str, str]:
    """Return the division (`open`, `closed`, or `unknown`) and the reason for the division.

    Only a complete job can be in the closed division. A draft of a job is in the open division if
    any of its available settings is a deviation.
    """
    fewer = (
        draft.settings.batch_rule.startswith("per_device")
        and draft.settings.devices < draft.devices
    )
    # With fewer devices than requested, the batch size of the draft is too small. The deviations of
    # the draft then do not apply to the requested run.
    draft_deviations = () if fewer else draft.deviations()
    reasons = job.template.deviations if job is not None else draft_deviations
    if reasons:
        return "open", f": {'; '.join(reason.text for reason in reasons)}"
    if job is None:
        return UNKNOWN, _until(draft, submits)
    generator = "Random numbers come from the suite's generator (see `suite check`)"
    return "closed", f" if the caches are cleared before each run. {generator}"


def _until(draft: PartialJob, submits: bool) -> str:
    """Describe the event after which all details of a job are available.

    An example is the start of the SLURM job, because only a draft of the job exists on the login
    node.
    """
    if draft.generates:
        return " until the data set is generated"
    if submits and draft.dataset_info is not None:
        return " until the SLURM job starts"
    return " until the problems are solved"


def _time(draft: PartialJob, job: Job | None, earlier: Sequence[Earlier], submits: bool) -> str:
    """Return the median run time of earlier runs with the same settings and devices."""
    if job is None:
        return f"{UNKNOWN}{_until(draft, submits)}"
    if not (seconds := _seconds(job, earlier)):
        return f"{UNKNOWN}: no finished run with these settings in {log_root()}"
    return (
        f"about {statistics.median(seconds):.0f} s per run, the median of {len(seconds)} earlier"
        " run(s) with these settings"
    )


def _seconds(job: Job, earlier: Sequence[Earlier]) -> list[float]:
    """Return the run times in seconds of earlier runs with the same settings and devices."""
    key = (identity(job.template), job.template.identity["device_name"])
    return [run.seconds for run in earlier if (run.computes, run.device_name) == key]


def _earlier() -> Iterator[Earlier]:
    """Yield the finished runs in the log folder."""
    for path in sorted(log_root().glob("*/*/run_*/run.json"), reverse=True)[:MAX_RUNS]:
        try:
            run, filed = read_run(path), StatusFile.read(path.with_name(STATUS_FILE))
            if filed.status in FINISHED:
                yield Earlier(identity(run), run.identity["device_name"], filed.seconds)
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
        ):
            # The file is incomplete, or a different version of the suite wrote it.
            continue
