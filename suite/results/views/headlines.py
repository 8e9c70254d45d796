"""Headlines of a report: a sentence for each workload.

A headline states the best result, its hardware, its speedup, and the number of runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from suite.common.labels import LabelKind
from suite.launch.registered_frameworks import title_of
from suite.results.columns import Result
from suite.results.combine import grouped
from suite.results.experiment_key import same
from suite.results.names import accelerator_name, short_title, workload_name
from suite.results.price import Prices
from suite.results.scores import figure, labels, shared_labels
from suite.results.series import Series, all_series
from suite.results.settings_difference import NEVER_COMPARED_WITHOUT, distinct_labels
from suite.results.targets import target_text
from suite.results.text import clean, devices_text, figure_text, time_text
from suite.results.views.overview import chosen, device_text, order_of, place_of, target_difficulty
from suite.results.views.speedup_text import AS_FAST, setup_sentence, times_text


def headlines(
    results: Sequence[Result], prices: Prices | None = None
) -> list[tuple[str, Sequence[Result]]]:
    """Return a sentence for each combination of workload, profile, and device type.

    Each sentence is returned with the results that it mentions.

    Sentences on times to target precede sentences on throughput. Workloads without a measured
    result come last.
    """
    kinds = grouped(
        results,
        lambda result: (not result.to_target, order_of(result), workload_name(result.workload)),
    )
    listed = sorted(
        kinds.items(), key=lambda item: (all(figure(result) is None for result in item[1]), item[0])
    )
    return [(_headline(members, prices), members) for _, members in listed]


def _headline(members: Sequence[Result], prices: Prices | None) -> str:
    first = members[0]
    title = short_title(clean(workload_name(first.workload), 60)) or "unknown workload"
    measured = [result for result in members if figure(result) is not None]
    if not measured:
        count = sum(len(result.attempts) for result in members)
        if count > 1:
            outcome = (
                f"none of {count:,} runs {'reached the target' if first.to_target else 'finished'}"
            )
        else:
            outcome = f"the run did not {'reach the target' if first.to_target else 'finish'}"
        return f"{title} ({_kind(first, labels(first))}): {outcome}."
    series, best, fastest_of_frameworks, candidates = _selected(measured, first.to_target)
    compared = _compared(series, best)
    shared = shared_labels((best, *fastest_of_frameworks, *compared))
    target = (
        target_text(best.targets, workload_name(first.workload), best.falling_metrics)
        or "the target"
    )
    parts = [
        (
            f"{title} ({_kind(best, shared)}):"
            f" {_value(best)}{f' to {target}' if best.to_target else ''} {_where(best)}"
        ),
        _settings(series, candidates),
        _labels(best, shared),
    ]
    sentences = [clean("".join(parts), 400)]
    sentences += _speedup(series, best, compared, shared)
    if fastest_of_frameworks:
        also = ", ".join(
            f"{_framework(result)} {_value(result)}{_labels(result, shared)}"
            for result in fastest_of_frameworks
        )
        sentences.append(f"Other frameworks: {also}")
    sentences.append(_run_counts(best, compared))
    cost = prices.cost(best) if prices is not None else None
    if cost is not None:
        sentences.append(f"Cost of one result: {figure_text(cost)}")
    return ". ".join(sentences) + "."


def _selected(
    measured: Sequence[Result], to_target: bool
) -> tuple[Series[Result], Result, list[Result], list[Series[Result]]]:
    """Choose the results that a headline mentions.

    Returns the series, the best result, the best results of other frameworks, and all candidates.

    The series with the hardest target is chosen. For throughput, each framework and system is
    represented by a single series.
    """
    all_candidates = all_series(measured)
    if not to_target:
        by_place = grouped(all_candidates, lambda series: place_of(series.fewest))
        all_candidates = [chosen(members) for members in by_place.values()]
    hardest = max(target_difficulty(series.fewest) for series in all_candidates)
    candidates = [
        series for series in all_candidates if target_difficulty(series.fewest) == hardest
    ]
    pairs = [(series, result) for series in candidates for result in series]
    series, best = min(pairs, key=lambda pair: _rank(pair[1]))
    comparable = [
        result
        for _, result in pairs
        if result.framework != best.framework and same(result, best, "framework")
    ]
    comparable.sort(key=_rank)
    fastest = {result.framework: result for result in reversed(comparable)}
    return series, best, list(fastest.values()), candidates


def _settings(series: Series[Result], candidates: Sequence[Series[Result]]) -> str:
    """Return the settings that distinguish a headline's series from other candidates."""
    firsts = [candidate.fewest for candidate in candidates]
    names = [place_of(result) for result in firsts]
    texts = distinct_labels(
        firsts, names, ("devices", "nodes", "labels", "deviations"), always=NEVER_COMPARED_WITHOUT
    )
    text = texts[[candidate.fewest.key for candidate in candidates].index(series.fewest.key)]
    return f", {text}" if text else ""


def _compared(series: Series[Result], best: Result) -> tuple[Result, ...]:
    """Return the result with which the best result is compared.

    Usually, the result is the baseline. If the baseline is the best result, the result on the next
    larger device count is returned.
    """
    return (series.baseline,) if best.key != series.baseline.key else series.further_results[:1]


def _speedup(
    series: Series[Result], best: Result, compared: Sequence[Result], shared: Sequence[str]
) -> list[str]:
    """Describe the comparison of the best result with the baseline.

    If the baseline is the best result, it is compared with the result on the next larger device
    count.
    """
    sentences = []
    for result in compared:
        is_baseline = best.key == series.baseline.key
        speedup = series.speedup(result if is_baseline else best)
        if speedup is None or speedup.value is None:
            continue
        where = f"{devices_text(result.devices or 0, result.nodes)}{_labels(result, shared)}"
        times = times_text(speedup.value)
        sentences.append(
            f"On {where} it is {times}" if is_baseline else f"That is {times} than on {where}"
        )
        if times == AS_FAST:
            sentences[-1] = f"It is as fast on {where}"
        if speedup.setup_explains_much:
            sentences.append(setup_sentence(speedup).rstrip("."))
    return sentences


def _run_counts(best: Result, compared: Sequence[Result]) -> str:
    """Describe how many runs a headline is based on."""
    counts = {len(result.runs) for result in (best, *compared)}
    if best.single_figure:
        return "A published figure without single runs"
    if counts == {1}:
        return "One run each" if compared else "One run"
    if len(counts) == 1:
        return f"Means of {counts.pop()} runs{' each' if compared else ''}"
    return f"Means of {min(counts)} to {max(counts)} runs"


def _where(result: Result) -> str:
    """Describe the devices and the framework of a result.

    Examples: `on 8 × V100 with PyTorch`, `on 2 devices (1 core of AMD EPYC) with MXNet`.
    """
    is_cpu = result.device == "cpu" or result.has_label(LabelKind.CPU)
    machine = (
        device_text(result.device_name)
        if is_cpu
        else clean(accelerator_name(result.device_name), 60)
    )
    devices = devices_text(result.devices or 0, result.nodes)
    if result.devices and machine and not is_cpu:
        devices = f"{result.devices} × {machine}"
        if (result.nodes or 1) > 1:
            devices += f" on {result.nodes} nodes"
    elif machine:
        devices = f"{devices} ({machine})"
    return f"on {devices}" + (f" with {_framework(result)}" if result.framework else "")


def _labels(result: Result, shared: Sequence[str]) -> str:
    """Return the labels that only some results of the headline have, in brackets."""
    texts = [label for label in labels(result) if label not in shared]
    return f" ({clean(', '.join(texts), 120)})" if texts else ""


def _kind(result: Result, shared: Sequence[str]) -> str:
    """Describe the profile and the labels that all results of the headline share."""
    ordered = sorted(shared, key=lambda label: label != result.profile)
    return clean(", ".join(ordered) or result.profile or "foreign logs", 120)


def _framework(result: Result) -> str:
    return clean(title_of(result.framework), 40)


def _rank(result: Result) -> float:
    value = figure(result) or 0.0
    return value if result.to_target else -value


def _value(result: Result) -> str:
    value = figure(result) or 0.0
    return (
        time_text(value)
        if result.to_target
        else f"{figure_text(value)} {clean(result.sample_unit or 'samples', 30)}/s"
    )
