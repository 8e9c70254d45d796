"""Groups runs with equal settings into rows, scores them, and computes speedups between rows on other device counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from suite.results.logs.all_reduce import AllReduce
from suite.results.logs.collect import Run
from suite.results.logs.record import RunRecord, RunSettings
from suite.results.logs.recorded_telemetry import telemetry
from suite.results.score.condition import busy_labels, machine_condition
from suite.results.score.scores import FIRST_CONVERGED, Score, TimedRun, score
from suite.results.targets import RUNS_REQUIRED
from workloads.api import GradientTraffic, field_names, setting


class Targets(dict[str, float]):
    """Metric name to target; never changed after creation, so that it can be hashed."""

    def __hash__(self) -> int:  # type: ignore[override]
        """Hash of the pairs, in any order."""
        return hash(frozenset(self.items()))


@dataclass(frozen=True, kw_only=True)
class Group(RunSettings):
    """The settings shared by the runs of a row; fields that do not distinguish rows keep their defaults."""

    hyperparameters: tuple[tuple[str, str], ...] = setting((), family=False)
    """Logged `opt_*` and `model_*` keys with their values as JSON."""

    @property
    def family(self) -> Group:
        """The settings that must be equal for a speedup: all but the devices and what follows from their number.

        The batch rule stays, so that strong and weak scaling never meet.
        """
        labels = tuple(label for label in self.labels if label != "oversubscribed")
        untold = {name: getattr(Group(), name) for name in field_names(Group, family=False)}
        return replace(self, **untold, labels=labels, deviations=())


@dataclass(frozen=True)
class Speedup:
    """Speedup of a row over the fewest devices of its family, on the fewest nodes: total = throughput x efficiency."""

    baseline_devices: int
    baseline_nodes: int
    total: float | None
    """Ratio of times to train; None for runs of fixed length."""
    throughput: float | None
    """Ratio of times per epoch; for runs of fixed length of samples per second."""
    efficiency: float | None
    """Statistical efficiency: ratio of epochs to target."""


@dataclass(frozen=True)
class Row:
    """One line of a results table."""

    group: Group
    score: Score
    speedup: Speedup | None
    """None: there is nothing to compare with."""
    runs: tuple[TimedRun, ...] = ()
    """The successful runs of the score, in order of start."""
    attempts: tuple[Run, ...] = ()
    """All runs that count here, also those that failed."""

    @property
    def place(self) -> tuple[int, int]:
        """(devices, nodes); a log that does not name nodes had one."""
        return self.group.devices or 0, self.group.nodes or 1

    @property
    def compared(self) -> Speedup | None:
        """The speedup of a row that is not its own baseline."""
        one = self.speedup
        return None if one is None or (one.baseline_devices, one.baseline_nodes) == self.place else one

    @property
    def labels(self) -> tuple[str, ...]:
        """What must stand beside the numbers: the settings' labels, and that the machine was busy."""
        return (*self.group.labels, *busy_labels(self.condition))

    @property
    def all_reduces(self) -> tuple[AllReduce, ...]:
        """What its successful runs measured of all-reduces; empty for runs that train."""
        return tuple(one for record in self._succeeded for one in [record.all_reduce] if one is not None)

    @property
    def gradients(self) -> GradientTraffic | None:
        """What the all-reduce of a step moves, as the first log that tells has it."""
        return next((record.gradients for record in self._succeeded if record.gradients is not None), None)

    @property
    def _succeeded(self) -> list[RunRecord]:
        return [run.reading.record for run in self.attempts if run.succeeded and run.reading is not None]

    @property
    def condition(self) -> str:
        """`machine_condition` of its runs."""
        return machine_condition(self.attempts)


def rows(runs: Iterable[Run]) -> list[Row]:
    """The rows of `runs`, scored and with speedups. Runs that go on or were interrupted, or whose settings are not known, are
    left out: somebody's Ctrl-C is no failure of what is measured."""
    gathered: dict[Group, list[Run]] = {}
    for run in _ordered(runs):
        gathered.setdefault(_group(run, gathered), []).append(run)
    scored = [_row(group, members) for group, members in gathered.items()]
    return sorted((replace(row, speedup=_speedup(row, scored)) for row in scored), key=_order)


def _ordered(runs: Iterable[Run]) -> list[Run]:
    """Successful runs first, so that a run which failed early finds the group that it belongs to."""
    usable = [run for run in runs if run.settings is not None and not run.running and run.status != "interrupted"]
    return sorted(usable, key=lambda run: not run.succeeded)


def _group(run: Run, known: Iterable[Group]) -> Group:
    settings = run.settings
    assert settings is not None
    values = {name: getattr(settings, name) for name in field_names(RunSettings, row=True)}
    record = run.reading.record if run.reading is not None else None
    targets = record.targets if record is not None else settings.targets
    group = Group(
        **{
            **values,
            "labels": tuple(sorted(settings.labels)),
            "deviations": tuple(sorted(settings.deviations)),
            "targets": Targets(sorted(targets.items())),
            "hyperparameters": _hyperparameters(record),
        }
    )
    if run.succeeded:
        return group
    bare = replace(group, hyperparameters=(), targets={})  # a failed run may not have logged these
    alike = [other for other in known if replace(other, hyperparameters=(), targets={}) == bare]
    return group if group in alike or len(alike) != 1 else alike[0]


def _hyperparameters(record: RunRecord | None) -> tuple[tuple[str, str], ...]:
    items = record.hyperparameters.items() if record is not None else ()
    return tuple(sorted((key, json.dumps(value)) for key, value in items if key.startswith(("opt_", "model_"))))


def _row(group: Group, members: Sequence[Run]) -> Row:
    succeeded = [run.reading.record for run in members if run.succeeded and run.reading is not None]
    timed = sorted((_timed(record) for record in succeeded), key=lambda run: run.start_ms)
    return Row(group, _score(group, members, timed), None, tuple(timed), tuple(members))


def _score(group: Group, members: Sequence[Run], timed: Sequence[TimedRun]) -> Score:
    """Its score; no rule asks for a number of demo or synthetic runs, or of runs of fixed length."""
    readings = [run.reading.record for run in members if run.reading is not None]
    benchmark = readings[0].benchmark if readings else ""
    settings = members[0].settings
    required = settings.runs_required if settings is not None else None
    if not group.to_target or group.profile in ("demo", "synthetic"):
        return score(timed, len(members) - len(timed))
    first = FIRST_CONVERGED if benchmark == "ncf" else None
    return score(timed, len(members) - len(timed), required or RUNS_REQUIRED.get(benchmark), first)


def _timed(record: RunRecord) -> TimedRun:
    blocks = [block for block in record.throughput if block.samples and block.train_seconds]
    recorded = telemetry(record.path.parent)
    assert record.seconds is not None
    return TimedRun(
        seconds=record.seconds,
        epochs=record.epochs_to_target,
        start_ms=record.start_ms or 0.0,
        samples=sum(block.samples or 0.0 for block in blocks) or None,
        train_seconds=sum(block.train_seconds or 0.0 for block in blocks) or None,
        steps=record.timed_steps or None,
        energy_joules=recorded.energy_joules if recorded is not None else None,
        seed=record.seed,
    )


def baseline(row: Row, table: Iterable[Row]) -> Row | None:
    """The row that a speedup refers to: the fewest devices of the family, and of these the fewest nodes; None if that is not
    exactly one row."""
    measured = [other for other in table if other.group.family == row.group.family and _measured(other)]
    places = [other.place for other in measured if other.group.devices is not None]
    if not places or not _measured(row) or row.group.devices is None:
        return None
    base = [other for other in measured if other.place == min(places)]
    if len(base) > 1:  # several settings on as many devices: only the same settings compare
        base = [other for other in base if other.group.hyperparameters == row.group.hyperparameters]
    return base[0] if len(base) == 1 else None


def _speedup(row: Row, table: Sequence[Row]) -> Speedup | None:
    """The speedup of `row` over its baseline; None without a baseline."""
    base = baseline(row, table)
    if base is None or base.group.devices is None:
        return None
    one, this = base.score, row.score
    if not row.group.to_target:
        return Speedup(*base.place, None, _ratio(this.samples_per_second, one.samples_per_second), None)
    return Speedup(
        *base.place,
        total=_ratio(one.seconds, this.seconds),
        throughput=_ratio(one.seconds_per_epoch, this.seconds_per_epoch),
        efficiency=_ratio(one.epochs, this.epochs),
    )


def _measured(row: Row) -> bool:
    return (row.score.seconds if row.group.to_target else row.score.samples_per_second) is not None


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


_PROFILES: Mapping[str, int] = {"reference": 0, "demo": 1, "synthetic": 2}


def _order(row: Row) -> tuple[object, ...]:
    group = row.group
    place = _PROFILES.get(group.profile, 3)
    kind = (group.batch_rule, not group.to_target, group.stop, group.mode, group.asynchronous)
    settings = (*kind, group.framework, *row.place)
    return (place, group.profile, group.workload, group.system, group.device_name, *settings, repr(group))
