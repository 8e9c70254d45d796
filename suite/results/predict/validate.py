"""How far the law predicts published rows that it has not seen: `suite scaling --validate`.

Each row is predicted twice without its time: from the other rows of its family (leave one row out), and from the family's
smallest row alone with constants that never saw the family. Linear scaling and a power law are held against the same rows in
the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from suite.results.predict.law import LAW, LEVEL, LINEAR, POWER, Fit, Grid
from suite.results.predict.observations import (
    CONSTANTS_UP_TO,
    WORKLOADS,
    Family,
    Observation,
    PublishedFamilies,
    of_rounds,
    published_families,
)

FAR = 8
"""From so many times the devices of the smallest row on, a prediction is counted as far."""
LAWS: Mapping[str, Grid] = {"law": LAW, "linear": LINEAR, "power": POWER}


class Protocol(str, Enum):
    """What a held-out row is predicted from."""

    ROW = "leave one row out"
    SMALLEST = "from the smallest row of an unseen family"
    FAR = f"the same, at {FAR} times the devices or more"


@dataclass(frozen=True)
class HeldOut:
    """A row and its prediction, made without its time."""

    row: Observation
    smallest: Observation
    """The row of its family with the fewest devices."""
    from_smallest: bool
    centre: float
    """Predicted log of device-seconds per epoch."""
    spread: float

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return math.exp(self.centre) / self.row.device_seconds - 1.0

    @property
    def width(self) -> float:
        """Distance in log time, in units of the predicted spread."""
        return abs(self.centre - math.log(self.row.device_seconds)) / self.spread

    def under(self, protocol: Protocol) -> bool:
        """True if it counts under this protocol."""
        if protocol is Protocol.FAR:
            return self.from_smallest and self.row.devices >= FAR * self.smallest.devices
        return self.from_smallest == (protocol is Protocol.SMALLEST)


@dataclass(frozen=True)
class Errors:
    """Absolute errors of several held-out rows, as fractions."""

    rows: int
    median: float
    mean: float
    p90: float
    within_10: float
    within_25: float

    @classmethod
    def of(cls, held: Sequence[HeldOut]) -> Errors:
        """Of at least one row."""
        errors = np.abs([item.error for item in held])
        figures = (
            np.median(errors),
            np.mean(errors),
            np.quantile(errors, 0.9),
            np.mean(errors <= 0.1),
            np.mean(errors <= 0.25),
        )
        return cls(len(held), *(float(figure) for figure in figures))


@dataclass(frozen=True)
class Bar:
    """A limit that a figure of the validation must keep."""

    name: str
    reached: float
    low: float
    high: float

    @property
    def met(self) -> bool:
        """True if the figure, as computed and not as printed, is within."""
        return self.low <= self.reached <= self.high


@dataclass(frozen=True)
class Validation:
    """All figures of the validation."""

    published: PublishedFamilies
    held: Mapping[str, Sequence[HeldOut]]
    """Law to all rows held out, under each protocol that they count for."""
    later: Sequence[HeldOut]
    """Rows of rounds after CONSTANTS_UP_TO; b_half and p fitted to rounds up to it."""
    training_only: Sequence[HeldOut]
    """The law on logged training rates, without evaluation."""
    constants: Mapping[str, tuple[float, float]]
    """Workload to its most likely (b_half, p)."""
    coverage: Mapping[Protocol, float]
    """Share of held-out rows inside the interval; its width calibrated on other families."""
    factor: float
    """Width of the interval in spreads that holds LEVEL of all held-out rows."""

    def errors(self, law: str, protocol: Protocol, workload: str = "") -> Errors:
        """Errors of a law under a protocol, of one workload or of all."""
        return Errors.of(select(self.held[law], protocol, workload))

    @property
    def bars(self) -> list[Bar]:
        """The limits: those of errors, of intervals, and that no simpler law is better in any workload."""
        row, small, far = (self.errors("law", protocol) for protocol in Protocol)
        bars = [
            Bar("leave one row out: median error", row.median, 0.0, 0.045),
            Bar("leave one row out: 90th percentile", row.p90, 0.0, 0.18),
            Bar("from the smallest row: median error", small.median, 0.0, 0.06),
            Bar("from the smallest row: 90th percentile", small.p90, 0.0, 0.22),
            Bar(f"from the smallest row, {FAR} times the devices or more: median error", far.median, 0.0, 0.09),
        ]
        bars += [
            Bar(f"interval holds, {protocol.value}", self.coverage[protocol], 0.88, 0.92) for protocol in _INTERVALS
        ]
        return bars + [
            Bar(f"median error over that of the {law} rule, worst workload", self._worst_ratio(law), 0.0, 1.0)
            for law in ("linear", "power")
        ]

    def _worst_ratio(self, law: str) -> float:
        return max(
            self.errors("law", protocol, workload).median / self.errors(law, protocol, workload).median
            for workload in self.constants
            for protocol in _INTERVALS
        )


_INTERVALS = (Protocol.ROW, Protocol.SMALLEST)


def select(held: Sequence[HeldOut], protocol: Protocol, workload: str = "") -> list[HeldOut]:
    """The rows that count under a protocol, of one workload or of all."""
    return [item for item in held if item.under(protocol) and workload in ("", item.row.workload)]


def validate(published: PublishedFamilies | None = None) -> Validation:
    """Predict each published row without its time and compare. Takes about two seconds of one core."""
    rows = published_families() if published is None else published
    held = {name: held_out(rows.families, grid) for name, grid in LAWS.items()}
    later = [family for family in rows.families if family[0].round not in CONSTANTS_UP_TO]
    fits = {name: Fit(of_workload(rows.families, name)) for name in WORKLOADS if of_workload(rows.families, name)}
    widths = [item.width for item in held["law"]]
    return Validation(
        published=rows,
        held=held,
        later=held_out(later, LAW, of_rounds(rows.families, CONSTANTS_UP_TO)),
        training_only=held_out(_training_only(rows.families), LAW),
        constants={name: fit.constants for name, fit in fits.items()},
        coverage={protocol: _coverage(held["law"], protocol) for protocol in _INTERVALS},
        factor=float(np.quantile(widths, LEVEL)),
    )


def held_out(families: Sequence[Family], grid: Grid, fitted: Sequence[Family] | None = None) -> list[HeldOut]:
    """Each row predicted from the others of its family, and, but for the smallest, from the smallest alone.

    The shared constants come from `fitted` (None: from `families`), always without the row's own family.
    """
    held = []
    for workload in dict.fromkeys(family[0].workload for family in families):
        fit = Fit(of_workload(families if fitted is None else fitted, workload), grid)
        for family in of_workload(families, workload):
            for row in family:
                others = tuple(other for other in family if other is not row)
                known = [(others, False)] if row is family[0] else [(others, False), (family[:1], True)]
                for rows, from_smallest in known:
                    one = fit.predict(rows, row, without=family)
                    held.append(HeldOut(row, family[0], from_smallest, one.centre, one.spread))
    return held


def of_workload(families: Sequence[Family], workload: str) -> list[Family]:
    """The families of a workload."""
    return [family for family in families if family[0].workload == workload]


def _training_only(families: Sequence[Family]) -> list[Family]:
    """The families with logged rates alone: device-seconds a sample in place of time per epoch."""
    logged = [[row for row in family if row.samples_per_second] for family in families]
    timed = [
        tuple(replace(row, seconds_per_epoch=1.0 / row.samples_per_second) for row in rows if row.samples_per_second)
        for rows in logged
    ]
    return [family for family in timed if len(family) > 1]


def _coverage(held: Sequence[HeldOut], protocol: Protocol) -> float:
    """Share of rows inside an interval whose width is what held LEVEL of the rows of all other families."""
    inside = []
    for family in {(item.row.workload, item.smallest) for item in held}:
        own = _of_family(family)
        factor = float(np.quantile([item.width for item in held if not own(item)], LEVEL))
        inside += [item.width <= factor for item in select(held, protocol) if own(item)]
    return sum(inside) / len(inside)


def _of_family(family: tuple[str, Observation]) -> Callable[[HeldOut], bool]:
    return lambda item: (item.row.workload, item.smallest) == family
