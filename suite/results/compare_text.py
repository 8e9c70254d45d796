"""A comparison as Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from suite.results.compare import Comparison, Match
from suite.results.convergence import Convergence
from suite.results.ratios import EPOCH_TIME, EPOCHS, TIME, Ratio, ratio_words
from suite.results.report import NOT_VERIFIED
from suite.results.sides import Entry
from suite.results.tables import markdown_table, minutes, quantity
from suite.results.text import csv_cell, markdown_cell
from workloads.api import Json

_WIDTH = 118
_DEMO_WORDS = {
    "demo": "Both sides are demos and no MLPerf results: generated data, small model, target without relation to MLPerf.",
    "synthetic": "Both sides train on made-up data: throughput only, no MLPerf results.",
}


# --- Markdown -----------------------------------------------------------------------------------------------------------


def markdown(comparison: Comparison) -> str:
    """The whole comparison; of each match what differs comes first."""
    ours, theirs = comparison.ours, comparison.theirs
    parts = ["# Comparison" if theirs is not None else "# Convergence", NOT_VERIFIED]
    if theirs is not None:
        parts.append(_wrapped(f"{ours.name} is {_cell(ours.title)}. {_cell(theirs.name)} is {_cell(theirs.title)}."))
        parts.append(
            _wrapped(f"A ratio above 1 means that {ours.name} is better: less time, fewer epochs, more samples/s.")
        )
    for match in comparison.matches:
        parts += _section(match, comparison)
    if comparison.refusals:
        refused = [f"{_cell(item.what)}: {_cell(item.reason)}" for item in comparison.refusals]
        parts += ["## Not compared", _bullets(refused)]
    left_out = [*ours.left_out, *(theirs.left_out if theirs is not None else ())]
    left_out += [f"only in {theirs.name if theirs else ''}: {text}" for text in comparison.unmatched]
    if left_out:
        parts += ["## Left out", _bullets([_cell(text) for text in left_out])]
    if comparison.convergence:
        parts += _convergence(comparison)
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return markdown_cell(text, 300)


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False))


def _bullets(texts: Sequence[str]) -> str:
    wrapped = (
        textwrap.wrap(text, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
        for text in texts
    )
    return "\n".join(line for lines in wrapped for line in lines)


def _section(match: Match, comparison: Comparison) -> list[str]:
    assert comparison.theirs is not None
    item = match.ours.measurement
    ours, theirs = _names(match, comparison)
    against = f"{match.ours.name} against {match.theirs.name}"
    profile = "" if item.profile in ("reference", "published") else f" ({item.profile})"
    parts = [
        f"## {_cell(item.workload)} on {item.devices} device{'' if item.devices == 1 else 's'}{profile}: {_cell(against)}"
    ]
    if item.profile in _DEMO_WORDS:
        parts.append(_DEMO_WORDS[item.profile])
    known, unknown = match.differences.known, match.differences.unknown
    if known:
        body = [[_cell(one.name), markdown_cell(one.ours, 60), markdown_cell(one.theirs, 60)] for one in known]
        parts.append(markdown_table(["what differs", _cell(ours), _cell(theirs)], body, [False] * 3))
    else:
        parts.append("What differs: nothing that both sides say.")
    if unknown:
        texts = [f"{one.name} ({_cell(one.ours)} and {_cell(one.theirs)})" for one in unknown]
        parts.append(_wrapped(f"Known on one side only: {'; '.join(texts)}."))
    if match.caveats:
        parts.append(_bullets([_cell(text) for text in match.caveats]))
    parts.append(
        markdown_table(["", ours, _cell(theirs), "ratio"], [_row(one) for one in match.ratios], [False, *[True] * 3])
    )
    said = [_cell(ratio_words(one, ours, theirs)) + _label(one) for one in match.ratios]
    if match.ratio(TIME) is not None:
        said.insert(0, f"ratio of times {match.pair.verdict}")
    parts.append(_bullets([*said, *(f"not compared: {one.what}: {_cell(one.reason)}" for one in match.refused)]))
    return parts


def _names(match: Match, comparison: Comparison) -> tuple[str, str]:
    """How the two are called in sentences; of several published systems each by its own name."""
    assert comparison.theirs is not None
    published = match.theirs.measurement.profile == "published" and comparison.theirs.name != "B"
    return comparison.ours.name, match.theirs.name if published else comparison.theirs.name


def _label(item: Ratio) -> str:
    return f" ({item.label})" if item.label else ""


def _row(item: Ratio) -> list[str]:
    name = item.quantity + (" (!)" if item.label else "")
    return [name, _value(item, item.ours), _value(item, item.theirs), f"{item.ratio:.3f}"]


def _value(item: Ratio, value: float) -> str:
    if item.quantity == TIME:
        return f"{minutes(value)} min"
    if item.quantity == EPOCHS:
        return f"{value:.4g}"
    return f"{quantity(value)} s" if item.quantity == EPOCH_TIME else f"{quantity(value)}/s"


def _convergence(comparison: Comparison) -> list[str]:
    """Verdicts with their reference points."""
    parts = ["## Convergence: epochs to target against published runs"]
    texts: list[str] = []
    judged = [item for item in comparison.convergence if item.reference is not None]
    if judged:
        body = [_judged_row(item, comparison) for item in judged]
        header = ["result", "batch", "epochs", "published", "inside", "verdict"]
        parts.append(markdown_table(header, body, [False, True, True, True, True, False]))
    for item in judged:
        sources = item.reference.sources if item.reference is not None else ()
        texts.append(_cell(f"{_result(item, comparison)}: {item.reason}"))
        texts.append(_cell("from " + ", ".join(sources)) if sources else "")
        texts += [_cell(note) for note in item.notes]
    for item in comparison.convergence:
        if item.reference is None:
            texts.append(_cell(f"{_result(item, comparison)}: not judged: {item.reason}"))
    return [*parts, _bullets([text for text in dict.fromkeys(texts) if text])]


def _result(item: Convergence, comparison: Comparison) -> str:
    found = next(entry for entry in _entries(comparison) if entry.measurement is item.measurement)
    side = comparison.ours if any(entry is found for entry in comparison.ours.entries) else comparison.theirs
    prefix = f"{side.name}: " if side is not None and side.name in ("A", "B") else ""
    return prefix + found.what


def _entries(comparison: Comparison) -> list[Entry]:
    return [*comparison.ours.entries, *(comparison.theirs.entries if comparison.theirs is not None else ())]


def _judged_row(item: Convergence, comparison: Comparison) -> list[str]:
    point = item.reference
    assert point is not None
    batch = f"{point.batch:,}" + (f" ({point.neighbours[0]:,}–{point.neighbours[1]:,})" if point.neighbours else "")
    low, high = item.fewest_acceptable, item.most_expected
    return [
        _cell(_result(item, comparison)),
        batch,
        "–" if item.epochs is None else f"{item.epochs:.4g}",
        f"{point.mean:.4g} ({point.runs} runs)",
        "–" if low is None or high is None else f"{low:.4g} to {high:.4g}",
        item.verdict,
    ]


# --- CSV and JSON -------------------------------------------------------------------------------------------------------

CSV_COLUMNS = (
    *("kind", "workload", "devices", "ours", "theirs", "quantity", "unit", "ours_value", "theirs_value", "ratio"),
    *("ratio_low", "ratio_high", "p", "runs_ours", "runs_theirs", "verdict", "differences"),
)


def csv_text(comparison: Comparison) -> str:
    """One line for each ratio (`kind` ratio), refusal (refused) and verdict on convergence (convergence)."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    for line in _lines(comparison):
        writer.writerow({name: csv_cell(value) if isinstance(value, str) else value for name, value in line.items()})
    return stream.getvalue()


def _lines(comparison: Comparison) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = []
    for match in comparison.matches:
        item, names = match.ours.measurement, _names(match, comparison)
        differs = "; ".join(f"{one.name}: {one.ours} | {one.theirs}" for one in match.differences.known)
        place = {
            "workload": item.workload,
            "devices": item.devices,
            "ours": match.ours.name,
            "theirs": match.theirs.name,
        }
        for one in match.ratios:
            values: dict[str, object] = {
                "quantity": one.quantity,
                "unit": one.unit,
                "ours_value": one.ours,
                "ratio": one.ratio,
            }
            values |= {
                "theirs_value": one.theirs,
                "verdict": ratio_words(one, *names) + _label(one),
                "differences": differs,
            }
            if one.interval is not None:
                values |= {"ratio_low": one.interval.low, "ratio_high": one.interval.high}
            if one.variation is not None:
                test = one.variation
                values |= {"p": test.p, "runs_ours": test.runs_ours, "runs_theirs": test.runs_theirs}
            lines.append({"kind": "ratio", **place, **values})
        for refused in match.refused:
            lines.append({"kind": "refused", **place, "quantity": refused.what, "verdict": refused.reason})
    lines += [{"kind": "refused", "ours": one.what, "verdict": one.reason} for one in comparison.refusals]
    for judged in comparison.convergence:
        point, item = judged.reference, judged.measurement
        lines.append(
            {
                "kind": "convergence",
                "workload": item.workload,
                "devices": item.devices,
                "ours": _result(judged, comparison),
                "theirs": "; ".join(point.sources) if point is not None else "",
                "quantity": EPOCHS,
                "unit": "epochs",
                "ours_value": judged.epochs,
                "theirs_value": point.mean if point is not None else None,
                "runs_ours": len(item.runs),
                "runs_theirs": point.runs if point is not None else None,
                "verdict": judged.verdict if point is not None else f"not judged: {judged.reason}",
            }
        )
    return lines


def json_text(comparison: Comparison) -> str:
    """Everything, as one JSON object."""
    theirs = comparison.theirs
    whole: dict[str, Json] = {
        "verification": NOT_VERIFIED,
        "ours": {"name": comparison.ours.name, "title": comparison.ours.title},
        "theirs": {"name": theirs.name, "title": theirs.title} if theirs is not None else None,
        "matches": [_json_match(match, comparison) for match in comparison.matches],
        "refused": [asdict(item) for item in comparison.refusals],
        "left_out": [*comparison.ours.left_out, *(theirs.left_out if theirs is not None else ())],
        "only_theirs": list(comparison.unmatched),
        "convergence": [_json_convergence(item, comparison) for item in comparison.convergence],
    }
    return json.dumps(whole, indent=2, allow_nan=False) + "\n"


def _json_match(match: Match, comparison: Comparison) -> Mapping[str, Json]:
    names = _names(match, comparison)
    return {
        "workload": match.ours.measurement.workload,
        "devices": match.ours.measurement.devices,
        "profile": match.ours.measurement.profile,
        "ours": match.ours.name,
        "theirs": match.theirs.name,
        "differences": [asdict(item) for item in match.differences.known],
        "known_on_one_side": [asdict(item) for item in match.differences.unknown],
        "caveats": list(match.caveats),
        "verdict": match.pair.verdict if match.ratio(TIME) is not None else None,
        "ratios": [{**asdict(item), "words": ratio_words(item, *names)} for item in match.ratios],
        "refused": [asdict(item) for item in match.refused],
    }


def _json_convergence(item: Convergence, comparison: Comparison) -> Mapping[str, Json]:
    return {
        "result": _result(item, comparison),
        "verdict": item.verdict,
        "words": item.reason,
        "epochs": item.epochs,
        "fewest_acceptable": item.fewest_acceptable,
        "most_expected": item.most_expected,
        "max_speedup": item.max_speedup,
        "normalisation": item.normalisation,
        "reference": asdict(item.reference) if item.reference is not None else None,
        "notes": list(item.notes),
    }
