"""What the runs show, in a sentence for each workload of a profile, made of results that may be compared."""

from __future__ import annotations

from collections.abc import Sequence

from suite.launch.known import title_of
from suite.results.columns import Result
from suite.results.combine import grouped
from suite.results.identity import distinguishing_words, same, weighty_words
from suite.results.names import accelerator_name, short_title, workload_name
from suite.results.price import Prices
from suite.results.ratios import times_text
from suite.results.scores import figure, labels, shared_labels
from suite.results.series import Series, all_series
from suite.results.targets import targets_told
from suite.results.text import clean, devices_text, figure_text, time_text
from suite.results.views.overview import chosen, hardness, order_of, place_of


def headlines(results: Sequence[Result], prices: Prices | None = None) -> list[tuple[str, Sequence[Result]]]:
    """A sentence for each workload of each profile, on CPUs or not, and the results that it is of: times to the hardest target
    before throughput."""
    kinds = grouped(results, lambda row: (not row.to_target, order_of(row), workload_name(row.workload)))
    listed = sorted(kinds.items(), key=lambda item: (all(figure(row) is None for row in item[1]), item[0]))
    return [(_sentence(members, prices), members) for _, members in listed]


def _sentence(members: Sequence[Result], prices: Prices | None) -> str:
    first, name = members[0], workload_name(members[0].workload)
    title = short_title(clean(name, 60)) or "unknown workload"
    measured = [row for row in members if figure(row) is not None]
    if not measured:
        count = sum(len(row.attempts) for row in members)
        did = "reached the target" if first.to_target else "did what was asked"
        runs = f"none of {count:,} runs" if count > 1 else "no run"
        return f"{title} ({_told(first, labels(first))}): {runs} {did}."
    # Of the series with the hardest target the best result, then those of other frameworks beside it. Rates are of unlike work:
    # of each place one series stands for all.
    every = all_series(measured)
    if not first.to_target:
        every = [chosen(alike) for alike in grouped(every, lambda series: place_of(series.fewest)).values()]
    hardest = max(hardness(series.fewest) for series in every)
    shown = [series for series in every if hardness(series.fewest) == hardest]
    series, best = min(((series, row) for series in shown for row in series), key=lambda pair: _order(pair[1]))
    others = sorted((row for series in shown for row in series if _beside(row, best)), key=_order)
    fastest = {row.framework: row for row in others[::-1]}.values()
    shared = shared_labels((best, *fastest, *_compared(series, best)))
    beside = "".join(f"; {_framework(row)} {_value(row)}{_own(row, shared)}" for row in fastest)
    alike = [one.fewest for one in shown if place_of(one.fewest) == place_of(best)]
    words = distinguishing_words(alike, [()] * len(alike), ("devices", "nodes"))
    words = [words[alike.index(one.fewest)] if one.fewest in alike else "" for one in shown]
    told = weighty_words([one.fewest for one in shown], words)[shown.index(series)]
    target = f"reaches {targets_told(best.targets, name) or 'its target'} in" if best.to_target else "does"
    cost = prices.cost(best) if prices is not None else None
    told = f", {told}" if told else ""
    value = f"{_value(best)}{_own(best, shared)}"
    text = f"{title} ({_told(best, shared)}) {target} {value} {_where(best)}{told}{_over(series, best, shared)}{beside}"
    return clean(text + ("" if cost is None else f"; cost {figure_text(cost)}") + ".", 600)


def _where(row: Result) -> str:
    """`on 8 × V100 in PyTorch`, `on 2 devices (Some CPU) in MXNet`."""
    machine, devices = clean(accelerator_name(row.device_name), 60), devices_text(row.devices or 0, row.nodes)
    known = row.devices and machine and row.device != "cpu" and "cpu" not in row.labels
    place = f"{row.devices} × {machine}" if known else f"{devices} ({machine})" if machine else devices
    nodes = f" on {row.nodes} nodes" if known and (row.nodes or 1) > 1 else ""
    framework = f" in {_framework(row)}" if row.framework else ""
    return f"on {place}{nodes}{framework}"


def _compared(series: Series[Result], best: Result) -> tuple[Result, ...]:
    """Return the result that the best result is compared with: the baseline, or the next one if the baseline is the best."""
    return (series.baseline,) if best.key != series.baseline.key else series.others[:1]


def _over(series: Series[Result], best: Result, shared: Sequence[str]) -> str:
    """Return how much faster the best result is than the baseline, or how a further result compares with the baseline."""
    for other in _compared(series, best):
        is_baseline = best.key == series.baseline.key
        speedup = series.speedup(other if is_baseline else best)
        if speedup is None or speedup.value is None:
            return ""
        if is_baseline:
            return (
                f", on {devices_text(other.devices or 0, other.nodes)}{_own(other, shared)} {times_text(speedup.value)}"
            )
        return f", {times_text(speedup.value)} than on {other.devices}{_own(other, shared)}"
    return ""


def _own(row: Result, shared: Sequence[str]) -> str:
    """The labels of a result that not all in the sentence have."""
    words = [label for label in labels(row) if label not in shared]
    return f" ({clean(', '.join(words), 120)})" if words else ""


def _told(row: Result, shared: Sequence[str]) -> str:
    every = sorted(shared, key=lambda label: label != row.profile)
    return clean(", ".join(every) or row.profile or "logs of other programs", 120)


def _framework(row: Result) -> str:
    return clean(title_of(row.framework), 40)


def _order(row: Result) -> float:
    value = figure(row) or 0.0
    return value if row.to_target else -value


def _value(row: Result) -> str:
    unit = clean(row.sample_unit or "samples", 30)
    value = figure(row) or 0.0
    return time_text(value) if row.to_target else f"{figure_text(value)} {unit}/s"


def _beside(row: Result, best: Result) -> bool:
    """Whether a result of another framework may be named beside the best one: the same experiment but for the framework."""
    return row.framework != best.framework and same(row, best, "framework")


def mean_text(row: Result) -> str:
    """What the figures of a result are: `olympic mean of 8 of 10 runs`; empty for one run."""
    several = row.to_target and row.runs_successful > 1
    return f"{row.score_method} of {row.runs_retained} of {row.runs_successful} runs" if several else ""
