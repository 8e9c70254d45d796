"""What the runs show, in a sentence for each workload of a profile, made of results that may be compared."""

from __future__ import annotations

from collections.abc import Sequence

from suite.launch.known import title_of
from suite.results.columns import Result
from suite.results.combine import grouped
from suite.results.identity import distinguishing_words, same, weighty_words
from suite.results.names import accelerator_name, short_title, workload_name
from suite.results.price import Prices
from suite.results.ratios import ratio, times_text
from suite.results.scores import figure, labels, shared_labels
from suite.results.targets import targets_told
from suite.results.text import clean, devices_text, figure_text, time_text
from suite.results.views.overview import chosen, hardness, order_of, place_of, series


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
    every: list[Sequence[Result]] = [*series(measured)]
    if not first.to_target:
        every = [chosen(chains) for chains in grouped(every, lambda chain: place_of(chain[0])).values()]
    hardest = max(hardness(chain[0]) for chain in every)
    shown = [chain for chain in every if hardness(chain[0]) == hardest]
    chain, best = min(((chain, row) for chain in shown for row in chain), key=lambda pair: _order(pair[1]))
    others = sorted((row for chain in shown for row in chain if _beside(row, best)), key=_order)
    fastest = {row.framework: row for row in others[::-1]}.values()
    shared = shared_labels((best, *fastest, *(chain[:1] if best is not chain[0] else chain[1:2])))
    beside = "".join(f"; {_framework(row)} {_value(row)}{_own(row, shared)}" for row in fastest)
    alike = [one[0] for one in shown if place_of(one[0]) == place_of(best)]
    words = distinguishing_words(alike, [()] * len(alike), ("devices", "nodes"))
    words = [words[alike.index(one[0])] if one[0] in alike else "" for one in shown]
    told = weighty_words([one[0] for one in shown], words)[shown.index(chain)]
    target = f"reaches {targets_told(best.targets, name) or 'its target'} in" if best.to_target else "does"
    cost = prices.cost(best) if prices is not None else None
    told = f", {told}" if told else ""
    value = f"{_value(best)}{_own(best, shared)}"
    text = f"{title} ({_told(best, shared)}) {target} {value} {_where(best)}{told}{_over(chain, best, shared)}{beside}"
    return clean(text + ("" if cost is None else f"; cost {figure_text(cost)}") + ".", 600)


def _where(row: Result) -> str:
    """`on 8 × V100 in PyTorch`, `on 2 devices (Some CPU) in MXNet`."""
    machine, devices = clean(accelerator_name(row.device_name), 60), devices_text(row.devices or 0, row.nodes)
    known = row.devices and machine and row.device != "cpu" and "cpu" not in row.labels
    place = f"{row.devices} × {machine}" if known else f"{devices} ({machine})" if machine else devices
    nodes = f" on {row.nodes} nodes" if known and (row.nodes or 1) > 1 else ""
    framework = f" in {_framework(row)}" if row.framework else ""
    return f"on {place}{nodes}{framework}"


def _over(chain: Sequence[Result], best: Result, shared: Sequence[str]) -> str:
    """How much faster the best one is than on the fewest devices; where that is the best one, what more of them do."""
    if best is not chain[0]:
        value = ratio(chain[0], best, intervals=False).value
        return "" if value is None else f", {times_text(value)} than on {chain[0].devices}{_own(chain[0], shared)}"
    more = chain[1] if len(chain) > 1 else None
    value = None if more is None else ratio(best, more, intervals=False).value
    where = "" if more is None else f"{devices_text(more.devices or 0, more.nodes)}{_own(more, shared)}"
    return f", on {where} {times_text(value)}" if value else ""


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
