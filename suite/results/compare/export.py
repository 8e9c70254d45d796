"""A comparison as CSV or JSON, with unrounded numbers."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import asdict

from suite.results.compare.compare import Comparison, Match
from suite.results.compare.convergence import Convergence, ReferencePoint
from suite.results.compare.markdown import label_suffix, match_verdict, result_name
from suite.results.compare.ratios import EPOCHS, EQUAL_TOLERANCE, TIME, ratio_summary
from suite.results.report.report import NOT_VERIFIED
from suite.results.text import csv_cell
from workloads.api import Json

CSV_COLUMNS = (
    *("kind", "workload", "devices", "ours", "theirs", "quantity", "unit", "ours_value", "theirs_value", "ratio"),
    *("ratio_low", "ratio_high", "p", "runs_ours", "runs_theirs", "verdict", "differences"),
)


def comparison_csv(comparison: Comparison) -> str:
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
        item, names = match.ours.measurement, match.names
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
                "verdict": ratio_summary(one, *names) + label_suffix(one),
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
                "ours": result_name(judged, comparison),
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


def comparison_json(comparison: Comparison) -> str:
    """The whole comparison as one JSON object."""
    theirs = comparison.theirs
    whole: dict[str, Json] = {
        "verification": NOT_VERIFIED,
        "ours": {"name": comparison.ours.name, "title": comparison.ours.title},
        "theirs": {"name": theirs.name, "title": theirs.title} if theirs is not None else None,
        "matches": [_json_match(match) for match in comparison.matches],
        "refused": [asdict(item) for item in comparison.refusals],
        "left_out": [*comparison.ours.left_out, *(theirs.left_out if theirs is not None else ())],
        "only_theirs": list(comparison.unmatched),
        "convergence": [_json_convergence(item, comparison) for item in comparison.convergence],
    }
    return json.dumps(whole, indent=2, allow_nan=False) + "\n"


def _json_match(match: Match) -> Mapping[str, Json]:
    names, time = match.names, match.ratio(TIME)
    return {
        "workload": match.ours.measurement.workload,
        "devices": match.ours.measurement.devices,
        "profile": match.ours.measurement.profile,
        "ours": match.ours.name,
        "theirs": match.theirs.name,
        "differences": [asdict(item) for item in match.differences.known],
        "known_on_one_side": [asdict(item) for item in match.differences.unknown],
        "caveats": list(match.caveats),
        "verdict": match_verdict(match) if time is not None and abs(time.ratio - 1) >= EQUAL_TOLERANCE else None,
        "ratios": [{**asdict(item), "words": ratio_summary(item, *names)} for item in match.ratios],
        "refused": [asdict(item) for item in match.refused],
    }


def _json_convergence(item: Convergence, comparison: Comparison) -> Mapping[str, Json]:
    return {
        "result": result_name(item, comparison),
        "verdict": item.verdict,
        "words": item.reason,
        "epochs": item.epochs,
        "fewest_acceptable": item.fewest_acceptable,
        "most_expected": item.most_expected,
        "max_speedup": item.max_speedup,
        "normalisation": item.normalisation,
        "reference": _json_reference(item.reference) if item.reference is not None else None,
        "notes": list(item.notes),
    }


def _json_reference(point: ReferencePoint) -> Mapping[str, Json]:
    """The fields of a reference point; its standard deviation keeps the key `deviation` that JSON files already have."""
    return {"deviation" if name == "standard_deviation" else name: value for name, value in asdict(point).items()}
