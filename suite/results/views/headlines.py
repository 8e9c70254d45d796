"""The cards of the page: one figure for each workload and profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.results.identity import Row
from suite.results.names import WORKLOAD_TITLES, workload_name
from suite.results.price import Prices
from suite.results.scores import figure, labels, merged_labels
from suite.results.targets import targets_text
from suite.results.text import clean, devices_text, figure_text, time_text
from suite.results.views.overview import chosen, hardness, place_of, series
from suite.results.views.section import grouped


@dataclass(frozen=True)
class Headline:
    """The figure of a workload."""

    title: str
    labels: tuple[str, ...]
    value: str
    unit: str
    text: str
    """One sentence or two."""


def headlines(results: Sequence[Row], prices: Prices | None = None) -> list[Headline]:
    """One for each workload of each profile: the fastest to its hardest target, never to an easier one."""
    kinds = grouped(results, lambda row: (row.profile, workload_name(row.workload)))
    return [_headline(members, prices) for members in kinds.values()]


def _headline(members: Sequence[Row], prices: Prices | None) -> Headline:
    name = workload_name(members[0].workload)
    title = WORKLOAD_TITLES.get(name, clean(name, 60) or "unknown workload")
    attempts, failed = sum(len(row.attempts) for row in members), sum(row.runs_failed for row in members)
    runs = f" {attempts:,} run{'' if attempts == 1 else 's'}{f', {failed:,} without success' if failed else ''}."
    measured = [row for row in members if figure(row) is not None]
    measured = [row for row in measured if row.to_target] or measured
    if not measured:
        return Headline(title, merged_labels(members), "–", "", f"No run did what was asked.{runs}")
    chosen_series = [chosen(chains) for chains in grouped(series(measured), lambda chain: place_of(chain[0])).values()]
    hardest = max(hardness(chain[0]) for chain in chosen_series)
    shown = [row for chain in chosen_series if hardness(chain[0]) == hardest for row in chain]
    if measured[0].to_target:
        best = min(shown, key=lambda row: row.seconds)
        value, unit = time_text(best.seconds).split(" ")
        what = f"Fastest to {targets_text(best.targets, name) or 'the target'}"
    else:
        best = max(shown, key=lambda row: row.samples_per_second)
        value, unit = figure_text(best.samples_per_second), f"{clean(best.sample_unit or 'samples', 30)}/s"
        what = "Best throughput"
    cost = prices.cost(best) if prices is not None else None
    where = f"{best.framework} on {devices_text(best.devices or 0, best.nodes)} ({mean_text(best) or 'one run'})"
    text = f"{clean(what, 100)}: {where}.{'' if cost is None else f' Cost {figure_text(cost)}.'}{runs}"
    text += "" if len(shown) == len(measured) else " Other settings: see the tables."
    return Headline(title, (*(() if best.profile else ("logs of other programs",)), *labels(best)), value, unit, text)


def mean_text(row: Row) -> str:
    """What the figures of a result are: `olympic mean of 8 of 10 runs`; empty for one run."""
    several = row.to_target and row.runs_successful > 1
    return f"{row.score_method} of {row.runs_retained} of {row.runs_successful} runs" if several else ""
