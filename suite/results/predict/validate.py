"""How far the law predicts published rows that it has not seen: `suite scaling --validate`.

No row's own time is used in its prediction. Linear scaling (perfect: time falls as devices are added) and a power law are held
against the same rows in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, eq
from typing import TYPE_CHECKING, Any

import numpy as np

from suite.results.data_table import DataTable
from suite.results.predict import law

if TYPE_CHECKING:
    import pandas as pd

LAWS: Mapping[str, law.Grid] = {"the law": law.LAW, "power of devices": law.POWER, "perfect scaling": law.LINEAR}
"""Rules that are held against the same rows, the law first."""
OTHERS, SMALLEST, NEW = "others", "smallest", "new machine"
"""What a row is predicted from: the other rows of its family; its smallest row, with constants that never saw the family; the
same, with constants that saw no family of this accelerator and none of this submitter."""
PROTOCOLS: Mapping[str, tuple[str, float, float]] = {
    "one row left out": (OTHERS, 0, np.inf),
    "smallest row": (SMALLEST, 0, np.inf),
    "smallest row, below 4 ×": (SMALLEST, 0, 4),
    "smallest row, 8 × or more": (SMALLEST, 8, np.inf),
    "new machine": (NEW, 0, np.inf),
    "new machine, 8 × or more": (NEW, 8, np.inf),
}
"""Name to (what a row is predicted from, least and most times the devices of its family's smallest row)."""
_MOST = {"one row left out": (0.045, 0.18), "smallest row": (0.06, 0.22), "smallest row, 8 × or more": (0.09, np.nan)}
"""Limits of the law's median error and 90th percentile."""


@dataclass(frozen=True)
class Validation:
    """All figures of the validation; tables of `held_out`."""

    families: Sequence[law.Family]
    left_out: Mapping[str, int]
    held: pd.DataFrame
    later: pd.DataFrame  # rows of rounds after CONSTANTS_UP_TO; b_half and p fitted to rounds up to it

    @property
    def bars(self) -> pd.DataFrame:
        """The limits, of errors, of intervals, and that no simpler rule is better in any workload, and whether they are met."""
        import pandas as pd

        bars, everywhere = dict[str, tuple[float, float, float]](), list(PROTOCOLS)[:2]
        for name, (median, p90) in _MOST.items():
            error_figures = errors(under(self.held, name))
            bars[f"{name}: median error"] = error_figures["median_error"], 0.0, median
            bars[f"{name}: 90th percentile"] = error_figures["p90_error"], 0.0, p90
        for name in everywhere:
            bars[f"{name}: share inside the interval"] = self.coverage(name), 0.88, 0.92
        for rule in list(LAWS)[1:]:
            worst = max((_medians(self.held, name) / _medians(self.held, name, rule)).max() for name in everywhere)
            bars[f"median error over that of {rule}, worst workload"] = worst, 0.0, 1.0
        table = pd.DataFrame(bars, index=["reached", "at_least", "at_most"]).T.dropna().rename_axis("bar").reset_index()
        return table.assign(met=table["reached"].between(table["at_least"], table["at_most"]))

    @property
    def factor(self) -> float:
        """Width of the interval, in spreads, that holds LEVEL of the rows predicted from others or the smallest."""
        return float(_calibrating(self.held)["width"].quantile(law.LEVEL))

    def coverage(self, protocol: str) -> float:
        """Share of rows inside an interval whose width is what held LEVEL of the rows of all other families."""
        rows, known = under(self.held, protocol), _calibrating(self.held)
        inside = [
            own["width"] <= known.loc[known["family"] != family, "width"].quantile(law.LEVEL)
            for family, own in rows.groupby("family")
        ]
        return float(np.concatenate(inside).mean())


def _calibrating(held: pd.DataFrame) -> pd.DataFrame:
    return held[(held["rule"] == "the law") & (held["predicted_from"] != NEW)]


def under(held: pd.DataFrame, protocol: str, rule: str = "the law") -> pd.DataFrame:
    """The rows of a rule that count under one of PROTOCOLS."""
    source, least, most = PROTOCOLS[protocol]
    near = held["times_devices"].between(least, most, inclusive="left")
    return held[(held["rule"] == rule) & (held["predicted_from"] == source) & near]


def _medians(held: pd.DataFrame, protocol: str, rule: str = "the law") -> pd.Series[float]:
    """The median error in each workload."""
    rows = under(held, protocol, rule)
    return rows["error"].abs().groupby(rows["workload"]).median()


def errors(rows: pd.DataFrame) -> dict[str, Any]:
    """Absolute errors of rows held out, as fractions, and their signed mean."""
    absolute = rows["error"].abs()
    return {
        "rows": len(rows),
        "median_error": float(absolute.median()),
        "p90_error": float(absolute.quantile(0.9)),
        "mean_signed_error": float(rows["error"].mean()),
    }


def validate() -> Validation:
    """Predict each published row without its time and compare. Takes about a second of one core."""
    families, left_out = law.published_families()
    later = [family for family in families if family[0].round not in law.CONSTANTS_UP_TO]
    earlier = [family for family in families if family not in later]
    return Validation(families, left_out, held_out(families, families), held_out(later, earlier))


def held_out(families: Iterable[law.Family], fitted: Iterable[law.Family]) -> pd.DataFrame:
    """A row for each rule, row of `families` and what it is predicted from; the shared constants come from `fitted`."""
    table = DataTable.from_rows(
        {"rule": rule, **values}
        for rule, grid in LAWS.items()
        for workload in law.WORKLOADS
        for values in _held_out(law.of_workload(families, workload), law.Fit(law.of_workload(fitted, workload), grid))
    )
    return table.to_frame()


def _held_out(families: Iterable[law.Family], fit: law.Fit) -> Iterator[dict[str, Any]]:
    for family in families:
        first, whose = family[0], attrgetter("accelerator", "submitter")
        akin = [one for one in fit.families if one == family or any(map(eq, whose(one[0]), whose(first)))]
        for row in family:
            others = [other for other in family if other is not row]
            ways = [(OTHERS, others, [family]), (SMALLEST, [first], [family]), (NEW, [first], akin)]
            for source, known, without in ways if row is not first else ways[:1]:
                one = fit.predict(known, row, without)
                distance = one.centre - np.log(row.device_seconds)
                about: dict[str, Any] = {"predicted_from": source, "run": row.name, "family": first.name + row.workload}
                about |= {name: getattr(row, name) for name in ("workload", "round", "devices", "batch_per_device")}
                about |= {"times_devices": row.devices / first.devices, "error": float(np.expm1(distance))}
                yield about | {"width": float(abs(distance) / one.spread)}
