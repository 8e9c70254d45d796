"""`dry_run=true`: what a command would do, up to its first process, in lines; and what would be in its way."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from suite.common.paths import log_root
from suite.common.runspec import read_run
from suite.launch.hosts import AvailableHost
from suite.machine.cgroups import limits
from suite.plan.capacity import available_bytes
from suite.plan.job import Job, PartialJob, Plan
from suite.plan.resume import FINISHED, finished_status, identity
from workloads import files

MAX_RUNS = 1000
"""Earlier runs that are looked at for a time, the newest first."""
FULL = "full"
"""`dry_run=full`: all that is known of every job."""


class Earlier(NamedTuple):
    """A finished run."""

    computes: str
    """`suite.plan.resume.identity`."""
    device_name: str
    seconds: float


def lines(plans: Sequence[tuple[str, Plan]], output: Path, submits: bool, full: bool = False) -> Iterator[str]:
    """Of one job all that is known, with the folders of its runs; of several a table, and the same of each if `full`.

    `plans`: name of each job to its plan.
    """
    count = sum(one.draft.run_count if one.draft is not None else 1 for _, one in plans)
    yield f"dry run, nothing is started: {count} run(s) would go into {output}"
    earlier = list(_earlier()) if any(one.job is not None for _, one in plans) else []
    if len(plans) > 1:
        yield from _table(plans, earlier, submits)
        if not full:
            yield f"for all that is known of each job type dry_run={FULL}"
            return
    for name, one in plans:
        yield name
        if one.draft is not None:
            division, why = _division(one.draft, one.job, submits)
            facts = [
                *_facts(one.draft, submits),
                ("division", f"{division}{why}"),
                ("time", _time(one.draft, one.job, earlier, submits)),
            ]
            yield from (f"  {topic:<12} {text}" for topic, text in facts if text)
        drafted = range(one.draft.run_count if one.draft is not None else 1)
        runs = _runs(one.job) if one.job is not None else [f"{output / name / f'run_{index}'}" for index in drafted]
        yield from (f"  {'run':<12} {line}" for line in runs)
        yield from (f"  {'in the way':<12} {error}" for error in one.findings)


def _table(plans: Sequence[tuple[str, Plan]], earlier: Sequence[Earlier], submits: bool) -> Iterator[str]:
    """A row for each job; what is in the way of one stands last, since it is long."""
    rows = [["job", "runs", "devices", "batch", "stop", "division", "time a run", "in the way"]]
    for name, one in plans:
        known = _cells(one.draft, one.job, earlier, submits) if one.draft is not None else ["–"] * 6
        rows.append([name, *known, "; ".join(map(str, one.findings))])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cells(draft: PartialJob, job: Job | None, earlier: Sequence[Earlier], submits: bool) -> list[str]:
    """Runs, devices, batch, stop, division and time of a row."""
    settings, seconds = draft.settings, _seconds(job, earlier) if job is not None else []
    devices = f"{draft.devices} {'GPU' if settings.device == 'cuda' else 'CPU'}"
    time = f"{statistics.median(seconds):.0f} s" if seconds else "not known"
    of_settings = [devices, str(settings.batch_size_global), settings.stop]
    return [str(draft.run_count), *of_settings, _division(draft, job, submits)[0], time]


def _runs(job: Job) -> Iterator[str]:
    for index in range(job.run_count):
        folder = job.folder / f"run_{index}"
        there = folder.exists() and finished_status(folder, job.run(index, cache_cleared=False))
        yield f"{folder}{f' ({there} earlier)' if there else ''}"


def _facts(draft: PartialJob, submits: bool) -> Iterator[tuple[str, str]]:
    settings = draft.settings
    kind = "GPU(s)" if settings.device == "cuda" else f"CPU device(s) of {settings.cores_per_device} core(s)"
    of = ", ".join(host.name for host in draft.hosts) or "this machine"
    there = f", which has {settings.devices}: what follows is of those" if settings.devices < draft.devices else ""
    yield "devices", f"{draft.devices} {kind} on {_machines(draft.hosts, submits, settings.nodes) or of}{there}"
    yield "environment", f"{draft.environment.name}: {draft.environment.python}" if draft.environment else "not there"
    generated = f"{draft.generates} is generated when the command starts"
    yield (
        "data",
        generated if draft.generates else f"{settings.dataset} in {settings.data_dir}" if settings.data_dir else "none",
    )
    needed = draft.workload.activation_bytes(settings) * -(-settings.batch_size_global // settings.devices)
    least = f"at least {_size(needed)} of activations on a device" if needed else ""
    there = f"{available_bytes(limits()) / 2**30:.1f} GiB available on this machine" if settings.device == "cpu" else ""
    yield "memory", "" if submits else "; ".join(filter(None, (least, there)))
    yield "batch", f"{settings.batch_size_global} {draft.workload.batch_unit} in all, precision {settings.precision}"
    targets = " and ".join(f"{name} {value:g}" for name, value in settings.targets.items())
    yield "stop", f"{settings.stop}{f': {targets}' if settings.stop == 'target' else ''}"
    yield "set", settings.hyperparameter_set
    for name, value in settings.hyperparameters.items():
        yield "", f"{name} {value} ({settings.hyperparameter_sources[name]})"


def _size(size_bytes: float) -> str:
    """In the unit in which it is no zero."""
    return f"{size_bytes / 2**30:.1f} GiB" if size_bytes >= 2**30 / 10 else f"{max(size_bytes / 2**20, 0.1):.1f} MiB"


def _machines(hosts: Sequence[AvailableHost], submits: bool, count: int) -> str:
    """Where the machines are not known yet."""
    return f"{count} machine(s) that SLURM gives, looked at when the job starts" if submits and not hosts else ""


def _division(draft: PartialJob, job: Job | None, submits: bool) -> tuple[str, str]:
    """(`open`, `closed` or `not known`, why). Closed is a job alone, of which all is known; a draft may be open for what is."""
    fewer = draft.settings.batch_rule.startswith("per_device") and draft.settings.devices < draft.devices
    of_draft = () if fewer else draft.deviations()  # a batch of fewer devices would be judged
    reasons = job.template.deviations if job is not None else of_draft
    if reasons:
        return "open", f": {'; '.join(reason.text for reason in reasons)}"
    if job is None:
        return "not known", _before(draft, submits)
    of_suite = "random numbers are the suite's own, as `suite check` states"
    return "closed", f", if the caches are cleared before each run; {of_suite}"


def _before(draft: PartialJob, submits: bool) -> str:
    """When what a job alone tells is known. On a login node there is no job: the devices of its own do not count."""
    if draft.generates:
        return " before its data are generated"
    if submits and draft.facts is not None:
        return " before the job of SLURM starts"
    return " before what is in the way is gone"


def _time(draft: PartialJob, job: Job | None, earlier: Sequence[Earlier], submits: bool) -> str:
    """Of earlier runs with the same settings on the same devices."""
    if job is None:
        return f"not known{_before(draft, submits)}"
    if not (seconds := _seconds(job, earlier)):
        return f"not known: no finished run with these settings below {log_root()}"
    return f"about {statistics.median(seconds):.0f} s a run, as {len(seconds)} earlier one(s) with these settings here took"


def _seconds(job: Job, earlier: Sequence[Earlier]) -> list[float]:
    """How long finished runs with a job's settings took on its devices."""
    wanted = (identity(job.template), job.template.identity["device_name"])
    return [one.seconds for one in earlier if (one.computes, one.device_name) == wanted]


def _earlier() -> Iterator[Earlier]:
    """The finished runs below the log folder."""
    for path in sorted(log_root().glob("*/*/run_*/run.json"), reverse=True)[:MAX_RUNS]:
        try:
            run, status = read_run(path), files.read_json(path.with_name("status.json"))
            if status["status"] in FINISHED:
                began, ended = (datetime.fromisoformat(status[name]) for name in ("started", "ended"))
                yield Earlier(identity(run), run.identity["device_name"], (ended - began).total_seconds())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # another version's, or cut off
            continue
