"""A measurement: one workload on one number of devices, from our logs, a published round or an article.

Speedups, advice, comparisons, tables 1-7 and figures are computed from this form alone, whatever the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from suite.results.names import workload_name
from suite.results.score.groups import Group, Row
from suite.results.score.scores import Score, TimedRun
from workloads.api import GradientTraffic

UNCOUNTED = "the number of devices of a CPU system is not known"
"""What a `devices` of 0 means."""


@dataclass(frozen=True)
class Measurement:
    """One score with its runs and everything that decides what it may be compared with."""

    origin: str
    """`ours`, a round (`v0.5`), or the name of a table (`dgx1-article`)."""
    series: str
    """Name shared by the measurements on other numbers of devices: `pytorch on dgx1`."""
    family: tuple[object, ...]
    """Equal in two measurements that differ only in the number of devices and what follows from it."""
    workload: str
    """The suite's name (suite.results.names)."""
    framework: str
    """`pytorch`, `tensorflow`, `mxnet`, or the submitter's own description."""
    submitter: str
    system: str
    hardware: str
    """Name of the device or accelerator."""
    devices: int
    """Over all nodes; 0: UNCOUNTED."""
    batch_size_global: int | None
    batch_unit: str
    batch_rule: str
    """Ours: `set`, `global:N`, `per_device:N`; published: empty."""
    precision: str
    rules: str
    """Rules of the round: `v0.5`, `v0.7`."""
    clock: str
    """Which clock the seconds were taken with: `v0.5`, or `v0.7` (v0.6 and later: set-up is outside)."""
    targets: Mapping[str, float]
    profile: str
    """`reference`, `demo`, `synthetic`; `published` for figures that are not ours."""
    labels: tuple[str, ...]
    """Labels to show beside every number: `demo`, `cpu`, `oversubscribed`; `article`."""
    score: Score
    runs: tuple[TimedRun, ...] = ()
    """The successful runs; empty where only a mean is known."""
    note: str = ""
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    """Ours: logged `opt_*` and `model_*` keys with their values as JSON; they distinguish settings on one device count."""
    division: str = ""
    """`closed` or `open`, or both; empty where it is not known."""
    nodes: int = 1
    """1 also where it is not known."""
    sample_unit: str = ""
    """What `score.samples_per_second` counts; empty: what the batch does."""
    samples_per_batch_unit: float | None = None
    """Samples in one unit of the batch: 1, or sentence pairs per token; None where that is not known."""
    gradients: GradientTraffic | None = None
    """Ours: what the all-reduce of a step moves."""

    @property
    def in_open_division(self) -> bool:
        """Whether a submitter chose the hyperparameters, or the model, that the closed division prescribes."""
        return "open" in self.division

    @property
    def rate_unit(self) -> str:
        """What `score.samples_per_second` counts."""
        return self.sample_unit or self.batch_unit or "samples"

    @property
    def to_target(self) -> bool:
        """True if the score is a time to target; False for throughput of a fixed length."""
        return self.score.seconds is not None


def measurements(table: Iterable[Row]) -> list[Measurement]:
    """Rows of a report as measurements; those without any successful run, of an unknown number of devices, or of all-reduces,
    which train nothing, are left out."""
    known = (row for row in table if row.group.devices is not None and row.score.runs_successful)
    return [_measurement(row) for row in known if not row.all_reduces]


def _measurement(row: Row) -> Measurement:
    group = row.group
    assert group.devices is not None
    return Measurement(
        origin="ours" if group.profile else group.rules,
        series=" on ".join(text for text in (group.framework, group.system or group.device_name) if text),
        family=(group.family,),
        workload=workload_name(group.workload),
        framework=group.framework,
        submitter="",
        system=group.system,
        hardware=group.device_name or group.device,
        devices=group.devices,
        nodes=group.nodes or 1,
        batch_size_global=group.batch_size_global,
        batch_unit=(group.sample_unit if _counts_samples(group) else group.batch_unit) or "samples",
        sample_unit=group.sample_unit,
        samples_per_batch_unit=samples_per_batch_unit(row),
        batch_rule=group.batch_rule,
        precision=group.precision,
        rules=group.rules,
        clock=group.clock,
        targets=dict(group.targets),
        profile=group.profile or "published",
        labels=row.labels,
        score=row.score if group.to_target else replace(row.score, seconds=None, epochs=None),
        runs=row.runs,
        hyperparameters=dict(group.hyperparameters),
        division=_division(row),
        gradients=row.gradients,
    )


def _division(row: Row) -> str:
    named = {run.reading.record.division for run in row.attempts if run.reading is not None}
    return " and ".join(sorted(named - {""}))


def samples_per_batch_unit(row: Row) -> float | None:
    """Samples in one unit of the batch, as the row's runs had them: 1, or sentence pairs per token; None where no log tells."""
    if _counts_samples(row.group):
        return 1.0
    counted = [run for run in row.runs if run.samples and run.steps]
    units = sum(run.steps or 0 for run in counted) * (row.group.batch_size_global or 0)
    return sum(run.samples or 0.0 for run in counted) / units if units else None


def _counts_samples(group: Group) -> bool:
    return group.batch_unit in ("", "samples")


def by_family(items: Sequence[Measurement]) -> list[list[Measurement]]:
    """The measurements grouped into scaling curves, each group in order of devices."""
    families: dict[tuple[object, ...], list[Measurement]] = {}
    for item in items:
        families.setdefault((item.origin, item.workload, *item.family), []).append(item)
    return [sorted(members, key=lambda item: item.devices) for members in families.values()]
