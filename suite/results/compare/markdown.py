"""A comparison as Markdown (CSV and JSON: export.py)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from suite.results.compare.compare import Comparison, Match, Refusal
from suite.results.compare.convergence import Convergence
from suite.results.compare.entries import Entry
from suite.results.compare.ratios import EPOCH_TIME, EPOCHS, EQUAL_TOLERANCE, TIME, Ratio, ratio_summary
from suite.results.report.markdown import markdown_table
from suite.results.report.report import NOT_VERIFIED
from suite.results.report.tables import rate_text
from suite.results.text import devices_text, markdown_cell, time_text

_WIDTH = 118
_MOST_SOURCES = 5
_PROFILE_NOTICES = {
    "demo": "Both sides are demos and no MLPerf results: generated data, small model, target without relation to MLPerf.",
    "synthetic": "Both sides train on synthetic data: throughput only, no MLPerf results.",
}


def comparison_markdown(comparison: Comparison) -> str:
    """The whole comparison as Markdown; for each match the verdict comes first, then the differences."""
    ours, theirs = comparison.ours, comparison.theirs
    parts = ["# Comparison" if theirs is not None else "# Convergence", NOT_VERIFIED]
    if theirs is not None:
        parts.append(_wrapped(f"{ours.name} is {_cell(ours.title)}. {_cell(theirs.name)} is {_cell(theirs.title)}."))
        parts.append(
            _wrapped(f"A ratio above 1 means that {ours.name} is better: less time, fewer epochs, more samples/s.")
        )
    for match in comparison.matches:
        parts += _section(match)
    if comparison.refusals:
        refused = [f"{things}: {_cell(reason)}" for reason, things in _group_by_reason(comparison.refusals)]
        parts += ["## Not compared", _bullets(refused)]
    left_out = [*ours.left_out, *(theirs.left_out if theirs is not None else ())]
    left_out += [f"only in {theirs.name if theirs else ''}: {text}" for text in comparison.unmatched]
    if left_out:
        parts += ["## Left out", _bullets([_cell(text) for text in left_out])]
    if comparison.convergence:
        parts += _convergence(comparison)
    return "\n\n".join(parts) + "\n"


def _cell(text: str, limit: int = 300) -> str:
    return markdown_cell(text, limit)


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False))


def _bullets(texts: Sequence[str]) -> str:
    wrapped = (
        textwrap.wrap(text, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
        for text in texts
    )
    return "\n".join(line for lines in wrapped for line in lines)


def _section(match: Match) -> list[str]:
    item = match.ours.measurement
    ours, theirs = match.names
    profile = "" if item.profile in ("reference", "published") else f" ({item.profile})"
    of_ours = f"{ours} ({match.ours.name})"
    of_theirs = theirs if theirs == match.theirs.name else f"{theirs} ({match.theirs.name})"
    where = f"{_cell(item.workload)} on {devices_text(item.devices, item.nodes)}"
    parts = [f"## {where}{profile}: {_cell(of_ours)} against {_cell(of_theirs)}"]
    if item.profile in _PROFILE_NOTICES:
        parts.append(_wrapped(_PROFILE_NOTICES[item.profile]))
    parts.append(_wrapped(f"Verdict: {match_verdict(match)}."))
    parts += _differences(match)
    if match.caveats:
        parts.append(_bullets([_cell(text) for text in match.caveats]))
    parts.append(
        markdown_table(["", ours, _cell(theirs), "ratio"], [_row(one) for one in match.ratios], [False, *[True] * 3])
    )
    remaining = [*_summary_lines(match), *_not_compared(match)]
    return [*parts, _bullets(remaining)] if remaining else parts


def _differences(match: Match) -> list[str]:
    known, unknown = match.differences.known, match.differences.unknown
    parts = ["What differs: nothing that both sides say."]
    if known:
        body = [[_cell(one.name), markdown_cell(one.ours, 60), markdown_cell(one.theirs, 60)] for one in known]
        parts = [markdown_table(["what differs", *map(_cell, match.names)], body, [False] * 3)]
    if unknown:
        texts = [f"{one.name} ({_cell(one.ours)} and {_cell(one.theirs)})" for one in unknown]
        parts.append(_wrapped(f"Known on one side only: {'; '.join(texts)}."))
    return parts


def match_verdict(match: Match) -> str:
    """The verdict on a match: on the time to target, or else on the first quantity that could be compared."""
    first = match.ratio(TIME) or match.ratios[0]
    return _cell(ratio_summary(first, *match.names)) + label_suffix(first)


def _summary_lines(match: Match) -> list[str]:
    """The ratios that the verdict leaves, as sentences; what no test can show is said in the verdict alone."""
    first = match.ratio(TIME) or match.ratios[0]
    tests = [one.variation for one in match.ratios if one.variation is not None]
    shown = first.variation is None or any(test.can_be_significant for test in tests)
    rest = [one for one in match.ratios if one is not first]
    sentences = [
        f"{one.quantity}: {_cell(ratio_summary(one, *match.names, test=shown))}{label_suffix(one)}" for one in rest
    ]
    parts = [match.ratio(name) for name in (TIME, EPOCH_TIME, EPOCHS)]
    if all(parts) and abs(first.ratio - 1) >= EQUAL_TOLERANCE:
        time, epoch_time, epochs = (part.ratio for part in parts if part is not None)
        product = f"{time:.3f} = {epoch_time:.3f} (time per epoch) × {epochs:.3f} (epochs)"
        sentences.insert(0, f"ratio of times, as measured: {product}")
    return sentences


def _not_compared(match: Match) -> list[str]:
    return [f"not compared: {what}: {_cell(reason)}" for reason, what in _group_by_reason(match.refused)]


def _group_by_reason(refused: Sequence[Refusal]) -> list[tuple[str, str]]:
    """(reason, everything that was refused for that reason)."""
    subjects: dict[str, list[str]] = {}
    for item in refused:
        subjects.setdefault(item.reason, []).append(_cell(item.what))
    return [(reason, ", ".join(things)) for reason, things in subjects.items()]


def label_suffix(item: Ratio) -> str:
    """The label of a ratio in brackets, to append to its sentence."""
    return f" ({item.label})" if item.label else ""


def _row(item: Ratio) -> list[str]:
    name = item.quantity + (" (!)" if item.label else "")
    return [name, _value(item, item.ours), _value(item, item.theirs), f"{item.ratio:.3f}"]


def _value(item: Ratio, value: float) -> str:
    if item.quantity == TIME:
        return time_text(value)
    if item.quantity == EPOCHS:
        return f"{value:.4g}"
    return f"{rate_text(value)} s" if item.quantity == EPOCH_TIME else f"{rate_text(value)}/s"


def _convergence(comparison: Comparison) -> list[str]:
    """The section on convergence: verdicts with their reference points."""
    parts = ["## Convergence: epochs to target against published runs"]
    texts: list[str] = []
    judged = [item for item in comparison.convergence if item.reference is not None]
    if judged:
        body = [_judged_row(item, comparison) for item in judged]
        header = ["result", "batch", "epochs", "published", "inside", "verdict"]
        parts.append(markdown_table(header, body, [False, True, True, True, True, False]))
    for item in judged:
        notes = "".join(f"; {note}" for note in item.notes)
        texts.append(
            _cell(f"{result_name(item, comparison)}: {item.reason}{notes}. Published runs: {_sources(item)}", 900)
        )
    missing = [
        Refusal(result_name(item, comparison), item.reason) for item in comparison.convergence if item.reference is None
    ]
    texts += [f"not judged: {things}: {_cell(reason)}" for reason, things in _group_by_reason(missing)]
    return [*parts, _bullets(texts)]


def _sources(item: Convergence) -> str:
    sources = item.reference.sources if item.reference is not None else ()
    more = len(sources) - _MOST_SOURCES
    return ", ".join(sources[:_MOST_SOURCES]) + (f" and {more} more" if more > 0 else "")


def result_name(item: Convergence, comparison: Comparison) -> str:
    """The name of a judged result, with `A:` or `B:` if two sets of runs are compared."""
    judged = next(entry for entry in _entries(comparison) if entry.measurement is item.measurement)
    owner = comparison.ours if any(entry is judged for entry in comparison.ours.entries) else comparison.theirs
    prefix = f"{owner.name}: " if owner is not None and owner.name in ("A", "B") else ""
    return prefix + judged.description


def _entries(comparison: Comparison) -> list[Entry]:
    return [*comparison.ours.entries, *(comparison.theirs.entries if comparison.theirs is not None else ())]


def _judged_row(item: Convergence, comparison: Comparison) -> list[str]:
    point = item.reference
    assert point is not None
    batch = f"{point.batch:,}" + (f" ({point.neighbours[0]:,}–{point.neighbours[1]:,})" if point.neighbours else "")
    low, high = item.fewest_acceptable, item.most_expected
    return [
        _cell(result_name(item, comparison)),
        batch,
        "–" if item.epochs is None else f"{item.epochs:.4g}",
        f"{point.mean:.4g} ({point.runs} runs)",
        "–" if low is None or high is None else f"{low:.4g} to {high:.4g}",
        item.verdict,
    ]
