"""Series: results of an experiment on several device counts.

This module defines the baseline and the speedup that all views use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from suite.results.columns import AnyResult, Result
from suite.results.combine import grouped
from suite.results.experiment_key import HYPERPARAMETERS, OF_SIZE_LOGGED, key
from suite.results.ratios import Ratio, place, ratio
from suite.results.scores import figure


def choose_baseline(results: Sequence[AnyResult]) -> AnyResult:
    """Return the baseline of a series, which is the result on the fewest devices.

    Speedups are relative to the baseline.

    Only `Series.baseline` calls this function, so that all views have the same baseline.

    Args:
        results: At least one result of a series, sorted by devices.
    """
    return results[0]


@dataclass(frozen=True)
class Series(Generic[AnyResult]):
    """Results of an experiment that differ in the number of devices, sorted by devices.

    A series has at least one result.
    """

    results: tuple[AnyResult, ...]

    def __iter__(self) -> Iterator[AnyResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def baseline(self) -> AnyResult:
        """Return the result to which speedups are relative."""
        return choose_baseline(self.results)

    @property
    def further_results(self) -> tuple[AnyResult, ...]:
        """Return all results except the baseline."""
        return tuple(result for result in self.results if result.key != self.baseline.key)

    @property
    def fewest(self) -> AnyResult:
        """Return the result on the fewest devices."""
        return self.results[0]

    @property
    def most(self) -> AnyResult:
        """Return the result on the most devices."""
        return self.results[-1]

    def speedup(self, result: Result, intervals: bool = False) -> Ratio | None:
        """Return the speedup of a result over the baseline of the series.

        Returns None for the baseline itself.

        Args:
            result: A result of this series.
            intervals: True to compute confidence intervals, which takes a few milliseconds.
        """
        return None if result.key == self.baseline.key else ratio(self.baseline, result, intervals)


def all_series(results: Iterable[AnyResult]) -> list[Series[AnyResult]]:
    """Group the measured results into series.

    Each measured result belongs to exactly one series.
    """
    return [series for family in families(results) for series in series_of_family(family)]


def speedups(results: Iterable[Result], intervals: bool = False) -> dict[str, Ratio]:
    """Map the key of each result to its speedup over the baseline of its series."""
    found = {}
    for series in all_series(results):
        for result in series:
            speedup = series.speedup(result, intervals)
            if speedup is not None:
                found[result.key] = speedup
    return found


def families(results: Iterable[AnyResult], *ignored: str) -> list[list[AnyResult]]:
    """Return the measured results grouped by experiment, ignoring the number of devices.

    Each group is sorted by devices.

    A group may contain several results with different batch sizes on the same number of devices.
    `series_of_family` separates these results.

    Args:
        results: Results. Results with neither a time to target nor a throughput are omitted.
        ignored: Further command-line settings, such as `batch`, that may differ within a group.
    """
    measured = (
        result for result in results if figure(result) is not None and not result.all_reduces
    )
    kinds = grouped(measured, lambda result: key(result, "gpus", *ignored))
    return [
        sorted(members, key=lambda result: (*place(result), figure(result) or 0.0))
        for members in kinds.values()
    ]


def series_of_family(family: Sequence[AnyResult]) -> list[Series[AnyResult]]:
    """Split a family into series with a single result per device count.

    Results with the same global batch size in a series have equal hyperparameters. If several
    results were measured on a device count, the function first combines results with the same batch
    size into series. Then it adds results with other batch sizes to these series.
    """
    chosen = {result.key: _chosen_hyperparameters(result) for result in family}
    order = {result.key: position for position, result in enumerate(family)}

    def may_join(member: Result, result: Result) -> bool:
        if place(member) == place(result):
            return False
        if member.global_batch_size != result.global_batch_size:
            return True
        values = chosen[result.key]
        return all(values.get(name, value) == value for name, value in chosen[member.key].items())

    def join(pieces: Iterable[list[AnyResult]]) -> list[list[AnyResult]]:
        joined: list[list[AnyResult]] = []
        for piece in pieces:
            like_first = sorted(
                joined, key=lambda group: chosen[group[0].key] != chosen[piece[0].key]
            )
            fitting = (
                group
                for group in like_first
                if all(may_join(member, result) for member in group for result in piece)
            )
            group = next(fitting, None) if piece[0].devices else None
            if group is None:
                joined.append(group := [])
            group += piece
        return joined

    same_batch = grouped(family, lambda result: result.global_batch_size).values()
    groups = join(
        [piece for members in same_batch for piece in join([result] for result in members)]
    )
    return [Series(tuple(sorted(group, key=lambda result: order[result.key]))) for group in groups]


def _chosen_hyperparameters(result: Result) -> dict[str, Any]:
    """Return the logged hyperparameters that a user chose, in a form that can be compared."""
    return {
        name: value
        for name, value in key(result)
        if name.startswith(f"{HYPERPARAMETERS}.")
        and value not in (None, "", ())
        and name.partition(".")[2] not in OF_SIZE_LOGGED
    }
