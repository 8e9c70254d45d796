"""Validates the scaling model on held-out published results.

Command: `suite scaling --validate`.

The prediction of a result never uses the time of this result. Perfect scaling and a power law
predict the same results for comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from suite.results.data_table import DataTable
from suite.results.predict import scaling_model
from suite.results.predict.scaling_model import Family, Grid, Observation, ScalingModel

if TYPE_CHECKING:
    import pandas as pd

MODEL = "scaling model"
RULES: Mapping[str, Grid] = {
    MODEL: scaling_model.MODEL_GRID,
    "power of devices": scaling_model.POWER_GRID,
    "perfect scaling": scaling_model.LINEAR_GRID,
}
"""Rules that predict the same results, for comparison. The first rule is the scaling model."""
FAMILY, SMALLEST, NEW_MACHINE = "others", "smallest", "new machine"
"""Values of the column `predicted_from`, which names the observations behind a prediction.

- FAMILY: all other results of the family.
- SMALLEST: the result of the family on the fewest devices. The constants were fitted without the
  family.
- NEW_MACHINE: the result of the family on the fewest devices. The constants were fitted without all
  families of the same accelerator or the same submitter.
"""


class Protocol(NamedTuple):
    """Selection of held-out results over which an error is computed."""

    predicted_from: str
    least_times_devices: float
    """Minimum ratio of devices to the family's smallest device count."""
    below_times_devices: float


PROTOCOLS: Mapping[str, Protocol] = {
    "one row left out": Protocol(FAMILY, 0, np.inf),
    "smallest row": Protocol(SMALLEST, 0, np.inf),
    "smallest row, below 4 ×": Protocol(SMALLEST, 0, 4),
    "smallest row, 8 × or more": Protocol(SMALLEST, 8, np.inf),
    "new machine": Protocol(NEW_MACHINE, 0, np.inf),
    "new machine, 8 × or more": Protocol(NEW_MACHINE, 8, np.inf),
}
MAIN_PROTOCOLS = ("one row left out", "smallest row")
_LIMITS = {
    "one row left out": (0.045, 0.18),
    "smallest row": (0.06, 0.22),
    "smallest row, 8 × or more": (0.09, np.nan),
}
"""Limits for the median error and the 90th percentile error of the scaling model."""


@dataclass(frozen=True)
class Validation:
    """Results of the validation."""

    families: Sequence[Family]
    left_out: Mapping[str, int]
    """Number of omitted published results by reason."""
    held: pd.DataFrame
    """Table of `held_out` over all rounds."""
    later: pd.DataFrame
    """Table of `held_out` over rounds after CONSTANTS_UP_TO. Only the rounds up to CONSTANTS_UP_TO
    were used to fit b_half and p.
    """
    later_families: Sequence[Family]
    """Families of LATER_WORKLOADS. The limits do not cover them."""
    later_workloads: pd.DataFrame
    """Table of `held_out` over `later_families`."""

    @property
    def bars(self) -> pd.DataFrame:
        """Return the limits of errors and intervals, and whether the results are within them.

        The last rows compare the scaling model with the simpler rules.
        """
        import pandas as pd

        bars: dict[str, tuple[float, float, float]] = {}
        for name, (median, p90) in _LIMITS.items():
            error_figures = errors(select(self.held, name))
            bars[f"{name}: median error"] = error_figures["median_error"], 0.0, median
            bars[f"{name}: 90th percentile"] = error_figures["p90_error"], 0.0, p90
        for name in MAIN_PROTOCOLS:
            bars[f"{name}: share inside the interval"] = self.coverage(name), 0.88, 0.92
        for rule in RULES:
            if rule != MODEL:
                bars[f"median error over that of {rule}, worst workload"] = (
                    self._worst_ratio(rule),
                    0.0,
                    1.0,
                )
        table = (
            pd.DataFrame(bars, index=["reached", "at_least", "at_most"])
            .T.dropna()
            .rename_axis("bar")
            .reset_index()
        )
        return table.assign(met=table["reached"].between(table["at_least"], table["at_most"]))

    def _worst_ratio(self, rule: str) -> float:
        """Return the largest ratio of the model's median error to the error of a rule.

        The maximum is taken over workloads and main protocols.
        """
        ratios = [
            (_median_errors(self.held, name) / _median_errors(self.held, name, rule)).max()
            for name in MAIN_PROTOCOLS
        ]
        return float(max(ratios))

    def later_coverage(self, workload: str, protocol: str) -> float:
        """Return the share of results of a later workload inside the intervals of predictions.

        The width of the intervals is the width that predictions have.
        """
        rows = select(self.later_workloads, protocol)
        widths = rows.loc[rows["workload"] == workload, "width"]
        factor = scaling_model.LATER_INTERVAL_FACTORS.get(workload, scaling_model.INTERVAL_FACTOR)
        return float((widths <= factor).mean())

    @property
    def factor(self) -> float:
        """Return the half width of an interval in units of `ModelPrediction.spread`.

        The interval contains the fraction LEVEL of the results of the main protocols.
        """
        return float(_calibration_rows(self.held)["width"].quantile(scaling_model.LEVEL))

    def coverage(self, protocol: str) -> float:
        """Return the fraction of results inside an interval.

        For each family, the width of the interval was calibrated on all other families.
        """
        rows, calibration = select(self.held, protocol), _calibration_rows(self.held)
        inside = [
            of_family["width"]
            <= calibration.loc[calibration["family"] != family, "width"].quantile(
                scaling_model.LEVEL
            )
            for family, of_family in rows.groupby("family")
        ]
        return float(np.concatenate(inside).mean())


def _calibration_rows(held: pd.DataFrame) -> pd.DataFrame:
    return held[(held["rule"] == MODEL) & (held["predicted_from"] != NEW_MACHINE)]


def select(held: pd.DataFrame, protocol: str, rule: str = MODEL) -> pd.DataFrame:
    """Return the rows of a rule that a protocol selects."""
    source, least, below = PROTOCOLS[protocol]
    in_range = held["times_devices"].between(least, below, inclusive="left")
    return held[(held["rule"] == rule) & (held["predicted_from"] == source) & in_range]


def _median_errors(held: pd.DataFrame, protocol: str, rule: str = MODEL) -> pd.Series[float]:
    """Return the median error of each workload."""
    rows = select(held, protocol, rule)
    return rows["error"].abs().groupby(rows["workload"]).median()


def errors(rows: pd.DataFrame) -> dict[str, Any]:
    """Return statistics of the errors of held-out results, as fractions.

    The statistics are the median and the 90th percentile of the absolute errors, and the mean
    signed error.
    """
    absolute = rows["error"].abs()
    return {
        "rows": len(rows),
        "median_error": float(absolute.median()),
        "p90_error": float(absolute.quantile(0.9)),
        "mean_signed_error": float(rows["error"].mean()),
    }


def validate() -> Validation:
    """Predict each published result without its time. Takes about two seconds of a core."""
    families, left_out = scaling_model.published_families()
    later_families, _ = scaling_model.published_families(scaling_model.LATER_WORKLOADS)
    later = [family for family in families if family[0].round not in scaling_model.CONSTANTS_UP_TO]
    earlier = [family for family in families if family not in later]
    return Validation(
        families,
        left_out,
        held_out(families, families),
        held_out(later, earlier),
        later_families,
        held_out(later_families, later_families, scaling_model.LATER_WORKLOADS),
    )


def held_out(
    families: Iterable[Family],
    fitted: Iterable[Family],
    workloads: Sequence[str] = scaling_model.WORKLOADS,
) -> pd.DataFrame:
    """Return a row for each rule, each result of `families`, and each `predicted_from`.

    Args:
        families: Families to predict.
        fitted: Families that the constants are fitted to.
        workloads: Workloads of the families.
    """
    rows: list[dict[str, Any]] = []
    for rule, grid_of_rule in RULES.items():
        for workload in workloads:
            grid = scaling_model.grid_of(workload) if rule == MODEL else grid_of_rule
            model = ScalingModel(scaling_model.families_of_workload(fitted, workload), grid)
            for family in scaling_model.families_of_workload(families, workload):
                rows += [{"rule": rule, **values} for values in _held_out(family, model)]
    return DataTable.from_rows(rows).to_frame()


def _held_out(family: Family, model: ScalingModel) -> Iterator[dict[str, Any]]:
    smallest = family[0]
    related = [
        candidate
        for candidate in model.families
        if candidate == family or _is_same_machine(candidate[0], smallest)
    ]
    for observed in family:
        rest = [candidate for candidate in family if candidate is not observed]
        sources: list[tuple[str, list[Observation], list[Family]]] = [(FAMILY, rest, [family])]
        if observed is not smallest:
            sources += [(SMALLEST, [smallest], [family]), (NEW_MACHINE, [smallest], related)]
        for source, observations, without in sources:
            prediction = model.predict(observations, observed, without)
            distance = prediction.center - np.log(observed.device_seconds)
            yield {
                "predicted_from": source,
                "run": observed.name,
                "family": smallest.name + observed.workload,
                "workload": observed.workload,
                "round": observed.round,
                "devices": observed.devices,
                "batch_per_device": observed.batch_per_device,
                "times_devices": observed.devices / smallest.devices,
                "error": float(np.expm1(distance)),
                "width": float(abs(distance) / prediction.spread),
            }


def _is_same_machine(first: Observation, second: Observation) -> bool:
    return first.accelerator == second.accelerator or first.submitter == second.submitter
