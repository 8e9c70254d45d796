"""Overview of published results: times of submitters or systems for each workload."""

from __future__ import annotations

from collections.abc import Sequence

from suite.results.columns import Result
from suite.results.combine import grouped
from suite.results.names import accelerator_name, short_title
from suite.results.price import Prices
from suite.results.published_results import ARTICLE
from suite.results.views.overview import (
    OVER_SLOWEST,
    OverviewCell,
    against_slowest,
    overview_matrix,
)
from suite.results.views.section import Section

_USUAL_COUNT = 8
"""Most common number of accelerators in a node. The overview of published results compares results
with this number of accelerators.
"""


def published_overview(results: Sequence[Result], prices: Prices | None = None) -> list[Section]:
    """Return a matrix of the fastest published result per accelerator model and round.

    The matrix compares results on eight accelerators. If there are no such results, the matrix
    compares results on the most frequent number of accelerators. A result of the open division is
    shown only if there is no result of the closed division.
    """
    timed = [result for result in results if result.to_target and result.seconds and result.devices]
    timed = [result for result in timed if result.round != ARTICLE]
    kinds = {
        count: len({(result.round, accelerator_name(result.device_name)) for result in alike})
        for count, alike in grouped(timed, lambda result: result.devices or 0).items()
    }
    if not kinds:
        return []
    most = max(kinds, key=lambda devices: (kinds[devices], -devices))
    count = _USUAL_COUNT if kinds.get(_USUAL_COUNT, 0) > 1 else most
    on_count = [result for result in timed if result.devices == count]
    on_count.sort(key=lambda result: (result.division == "open", result.seconds or 0.0))
    best = grouped(
        on_count,
        lambda result: (result.round, accelerator_name(result.device_name), result.workload),
    )
    cells = [
        OverviewCell(
            {"round": round, "accelerator": kind},
            short_title(workload),
            result,
            detail=f"{result.submitter} {result.system}",
        )
        for (round, kind, workload), (result, *_) in best.items()
    ]
    title = f"Overview: the fastest published result of each accelerator, on {count} of them"
    note = ("Rounds differ in targets and rules. Compare results of one round.",)
    return overview_matrix(title, against_slowest(cells), prices, OVER_SLOWEST, note, smallest=True)
