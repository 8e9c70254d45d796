"""`dry_run=true`: what a command would do, up to its first process, in lines; and what would be in its way."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from suite.common.paths import log_root
from suite.common.runspec import read_run
from suite.launch.hosts import AvailableHost
from suite.machine.cgroups import limits
from suite.plan.capacity import available_bytes
from suite.plan.jobs import Draft, Job, Plan
from suite.plan.resume import FINISHED, finished_status, identity

MOST_RUNS = 1000
"""Earlier runs that are looked at for a time, the newest first."""


def lines(plans: Sequence[tuple[str, Plan]], output: Path, submits: bool) -> Iterator[str]:
    """The runs with their folders, and of each job what is known. `plans`: name of each job to its plan."""
    count = sum(one.job.run_count for _, one in plans if one.job is not None)
    yield f"dry run, nothing is started: {count or len(plans)} run(s) would go into {output}"
    for name, one in plans:
        yield name
        if one.draft is not None:
            facts = [*_facts(one.draft, submits), ("division", _division(one)), ("time", _time(one.job))]
            yield from (f"  {topic:<12} {text}" for topic, text in facts if text)
        yield from (f"  {'run':<12} {line}" for line in (_runs(one.job) if one.job else [f"{output / name / 'run_0'}"]))
        yield from (f"  {'in the way':<12} {error}" for error in one.findings)


def _runs(job: Job) -> Iterator[str]:
    for index in range(job.run_count):
        folder = job.folder / f"run_{index}"
        there = folder.exists() and finished_status(folder, job.run(index, cache_cleared=False))
        yield f"{folder}{f' ({there} earlier)' if there else ''}"


def _facts(draft: Draft, submits: bool) -> Iterator[tuple[str, str]]:
    settings = draft.settings
    kind = "GPU(s)" if settings.device == "cuda" else f"CPU device(s) of {settings.cores_per_device} core(s)"
    of = ", ".join(host.name for host in draft.hosts) or "this machine"
    yield "devices", f"{settings.devices} {kind} on {_machines(draft.hosts, submits, settings.nodes) or of}"
    yield "environment", f"{draft.environment.name}: {draft.environment.python}" if draft.environment else "not there"
    made = f"{draft.generates} is generated when the command starts"
    yield (
        "data",
        made if draft.generates else f"{settings.dataset} in {settings.data_dir}" if settings.data_dir else "none",
    )
    needed = draft.workload.activation_bytes(settings) * -(-settings.batch_size_global // settings.devices)
    least = f"at least {needed / 2**30:.1f} GiB of activations on a device" if needed else ""
    there = f"{available_bytes(limits()) / 2**30:.1f} GiB available on this machine" if settings.device == "cpu" else ""
    yield "memory", "" if submits else "; ".join(filter(None, (least, there)))
    yield "batch", f"{settings.batch_size_global} {draft.workload.batch_unit} in all, precision {settings.precision}"
    targets = " and ".join(f"{name} {value:g}" for name, value in settings.targets.items())
    yield "stop", f"{settings.stop}{f': {targets}' if settings.stop == 'target' else ''}"
    yield "set", settings.hyperparameter_set
    for name, value in settings.hyperparameters.items():
        yield "", f"{name} {value} ({settings.hyperparameter_sources[name]})"


def _machines(hosts: Sequence[AvailableHost], submits: bool, count: int) -> str:
    """Where the machines are not known yet."""
    return f"{count} machine(s) that SLURM gives, looked at when the job starts" if submits and not hosts else ""


def _division(one: Plan) -> str:
    assert one.draft is not None
    reasons = one.job.template.deviations if one.job else one.draft.workload.deviations(one.draft.settings)
    if reasons:
        return f"open: {'; '.join(reasons)}"
    return (
        "closed, if the caches are cleared before each run; random numbers are the suite's own, as `suite check` states"
    )


def _time(job: Job | None) -> str:
    """Of earlier runs with the same settings on the same devices."""
    if job is None:
        return "not known before its data are there"
    wanted, device, durations = identity(job.template), job.template.identity["device_name"], []
    for path in sorted(log_root().glob("*/*/run_*/run.json"), reverse=True)[:MOST_RUNS]:
        try:
            earlier, status = read_run(path), json.loads(path.with_name("status.json").read_text(encoding="utf-8"))
            if (
                status["status"] in FINISHED
                and earlier.identity["device_name"] == device
                and identity(earlier) == wanted
            ):
                began, ended = (datetime.fromisoformat(status[name]) for name in ("started", "ended"))
                durations.append((ended - began).total_seconds())
        except (OSError, ValueError, KeyError, TypeError):  # another version's, or cut off
            continue
    if not durations:
        return f"not known: no finished run with these settings below {log_root()}"
    return f"about {statistics.median(durations):.0f} s a run, as {len(durations)} earlier one(s) with these settings here took"
