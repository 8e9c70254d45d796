"""How far the law predicts published rows that it has not seen: `suite scaling --validate`.

No row's own time is used in its prediction. Linear scaling (perfect: time falls as devices are added) and a power law are held
against the same rows in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from suite.results.predict.law import LAW, LEVEL, LINEAR, POWER, Fit, Grid
from suite.results.predict.observations import (
    CONSTANTS_UP_TO,
    WORKLOADS,
    Family,
    Observation,
    of_rounds,
    of_workload,
    published_families,
)
from suite.results.views.section import frame_of

if TYPE_CHECKING:
    import pandas as pd

NEAR, FAR = 4, 8
"""Below NEAR times the devices of the smallest row a prediction is counted as near, from FAR times on as far."""
LAWS: Mapping[str, Grid] = {"law": LAW, "power": POWER, "linear": LINEAR}
OTHERS, SMALLEST, NEW = "others", "smallest", "new machine"
"""What a row is predicted from: the other rows of its family; its smallest row, with constants that never saw the family; the
same, with constants that saw no family of this accelerator and none of this submitter."""
PROTOCOLS: Mapping[str, tuple[str, float, float]] = {
    "one row left out": (OTHERS, 0, np.inf),
    "smallest row": (SMALLEST, 0, np.inf),
    f"smallest row, below {NEAR} ×": (SMALLEST, 0, NEAR),
    f"smallest row, {FAR} × or more": (SMALLEST, FAR, np.inf),
    "new machine": (NEW, 0, np.inf),
    f"new machine, {FAR} × or more": (NEW, FAR, np.inf),
}
"""Name to (what a row is predicted from, least and most times the devices of its family's smallest row)."""
_RATIO = "median error over that of the {} rule, worst workload"


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
    """All figures of the validation; tables of `held_out`."""

    families: Sequence[Family]
    left_out: Mapping[str, int]
    held: pd.DataFrame
    later: pd.DataFrame  # rows of rounds after CONSTANTS_UP_TO; b_half and p fitted to rounds up to it
    constants: Mapping[str, tuple[float, float]]  # workload to its most likely (b_half, p)

    @property
    def bars(self) -> list[Bar]:
        """The limits: those of errors, of intervals, and that no simpler rule is better in any workload."""
        row, small, _near, far, *_rest = PROTOCOLS
        medians, p90s = ((row, 0.045), (small, 0.06), (far, 0.09)), ((row, 0.18), (small, 0.22))
        bars = [
            Bar(f"{name}: median error", errors(under(self.held, name))["median_error"], 0.0, most)
            for name, most in medians
        ]
        bars += [
            Bar(f"{name}: 90th percentile", errors(under(self.held, name))["p90_error"], 0.0, most)
            for name, most in p90s
        ]
        bars += [Bar(f"{name}: share inside the interval", self.coverage(name), 0.88, 0.92) for name in (row, small)]
        return bars + [Bar(_RATIO.format(law), self._worst(law), 0.0, 1.0) for law in ("power", "linear")]

    def _worst(self, law: str) -> float:
        """The largest ratio of the law's median error to that of a simpler rule."""
        return max(
            float(errors(under(rows, name))["median_error"] / errors(under(rows, name, law))["median_error"])
            for _, rows in self.held.groupby("workload")
            for name in list(PROTOCOLS)[:2]
        )

    @property
    def factor(self) -> float:
        """Width of the interval, in spreads, that holds LEVEL of the rows predicted from others or the smallest."""
        return float(_calibrating(self.held)["width"].quantile(LEVEL))

    def coverage(self, protocol: str) -> float:
        """Share of rows inside an interval whose width is what held LEVEL of the rows of all other families."""
        rows, known = under(self.held, protocol), _calibrating(self.held)
        inside = [
            own["width"] <= known.loc[known["family"] != family, "width"].quantile(LEVEL)
            for family, own in rows.groupby("family")
        ]
        return float(np.concatenate(inside).mean())


def _calibrating(held: pd.DataFrame) -> pd.DataFrame:
    return held[(held["law"] == "law") & (held["predicted_from"] != NEW)]


def under(held: pd.DataFrame, protocol: str, law: str = "law") -> pd.DataFrame:
    """The rows of a law that count under one of PROTOCOLS."""
    source, least, most = PROTOCOLS[protocol]
    times = held["times_devices"]
    return held[(held["law"] == law) & (held["predicted_from"] == source) & (times >= least) & (times < most)]


def errors(rows: pd.DataFrame) -> dict[str, Any]:
    """Absolute errors of rows held out, as fractions, and their signed mean."""
    found = rows["error"].abs()
    return {
        "rows": len(rows),
        "median_error": float(found.median()),
        "p90_error": float(found.quantile(0.9)),
        "mean_signed_error": float(rows["error"].mean()),
    }


def validate(found: tuple[Sequence[Family], Mapping[str, int]] | None = None) -> Validation:
    """Predict each published row without its time and compare. Takes about two seconds of one core."""
    families, left_out = found or published_families()
    later = [family for family in families if family[0].round not in CONSTANTS_UP_TO]
    fits = {name: Fit(of_workload(families, name)) for name in WORKLOADS if of_workload(families, name)}
    held, unseen = held_out(families, families, LAWS), held_out(later, of_rounds(families, CONSTANTS_UP_TO), LAWS)
    return Validation(families, left_out, held, unseen, {name: fit.constants for name, fit in fits.items()})


def held_out(families: Sequence[Family], fitted: Sequence[Family], laws: Mapping[str, Grid]) -> pd.DataFrame:
    """A row for each law, row of `families` and what it is predicted from; the shared constants come from `fitted`."""
    return frame_of(
        {"law": law, **values}
        for law, grid in laws.items()
        for workload in WORKLOADS
        for values in _held_out(of_workload(families, workload), of_workload(fitted, workload), grid)
    )


def _held_out(families: Sequence[Family], fitted: Sequence[Family], grid: Grid) -> Iterator[dict[str, Any]]:
    fit = Fit(fitted, grid)
    for family in families:
        akin = [one for one in fitted if one == family or _akin(one[0], family[0])]
        for row in family:
            others = tuple(other for other in family if other is not row)
            ways = [(OTHERS, others, [family]), (SMALLEST, family[:1], [family]), (NEW, family[:1], akin)]
            for source, known, without in ways if row is not family[0] else ways[:1]:
                one = fit.predict(known, row, without)
                distance = one.centre - np.log(row.device_seconds)
                yield {
                    "predicted_from": source,
                    "workload": row.workload,
                    "round": row.round,
                    "run": row.name,
                    "family": family[0].name + row.workload,
                    "devices": row.devices,
                    "times_devices": row.devices / family[0].devices,
                    "batch_per_device": row.batch_per_device,
                    "error": float(np.expm1(distance)),
                    "width": float(abs(distance) / one.spread),
                }


def _akin(one: Observation, other: Observation) -> bool:
    return one.accelerator == other.accelerator or one.submitter == other.submitter
