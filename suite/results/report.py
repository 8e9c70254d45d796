"""`suite report`: everything that the logs below some folders say, as Markdown or CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from pathlib import Path

from suite.results.collect import Run, collect
from suite.results.groups import Group, Row, rows
from suite.results.tables import constants, markdown_table, results_table
from suite.results.text import csv_cell, markdown_cell, markdown_escape

NOT_VERIFIED = "Not verified by MLCommons Association."
_PROFILE_TEXT: Mapping[str, str] = {
    "demo": "This is a demo and no MLPerf result: generated data, small model, target without relation to MLPerf.",
    "synthetic": "Made-up data: throughput only, no MLPerf result.",
    "": "Logs of other programs.",
}
_MAX_FILES = 30
_MAX_PROBLEMS = 5
_WIDTH = 118


def report_text(paths: Sequence[Path]) -> str:
    """The Markdown report on all runs below `paths`. Raises ValueError for a path without any log."""
    runs = collect(paths)
    parts = ["# Results", NOT_VERIFIED]
    for _, members in groupby(rows(runs), key=_table):
        parts += _section(list(members))
    parts += _failures(runs) + _problems(runs)
    return "\n\n".join(parts) + "\n"


def _table(row: Row) -> tuple[object, ...]:
    """Rows with the same value share a table: profiles, workloads, systems and kinds of scaling never mix."""
    group = row.group
    place = (group.profile, group.workload, group.system, group.device, group.device_name, group.sample_unit)
    return (*place, group.batch_rule, group.to_target, group.stop, group.mode)


def _section(table: Sequence[Row]) -> list[str]:
    group = table[0].group
    names = [markdown_cell(text) for text in (group.workload or "unknown workload", group.system) if text]
    title = "## " + " on ".join(names)
    if group.profile:
        title += f" ({markdown_cell(group.profile)})"
    if not group.to_target:
        title += f": throughput, {markdown_cell(group.mode)}, {markdown_cell(group.stop)}"
    texts = [markdown_escape(text) for text in constants(table)]
    if group.sample_unit not in ("", "samples"):
        texts.append(f"samples are {markdown_cell(group.sample_unit)}")
    parts = [title, _PROFILE_TEXT.get(group.profile, "")]
    parts.append("\n".join(textwrap.wrap(" · ".join(texts), _WIDTH, break_on_hyphens=False)))
    return [part for part in (*parts, results_table(table)) if part]


def _failures(runs: Sequence[Run]) -> list[str]:
    failed = [run for run in runs if not run.succeeded]
    if not failed:
        return []
    body = [
        [markdown_cell(_end(run.name, 55), 55), markdown_cell(run.status, 15), markdown_cell(run.reason, 70)]
        for run in failed
    ]
    table = markdown_table(["job", "status", "reason"], body, [False, False, False])
    return ["## Runs without success", table]


def _end(text: str, limit: int) -> str:
    """The last `limit` characters: the end of a path tells runs apart."""
    return text if len(text) <= limit else "…" + text[1 - limit :]


def _problems(runs: Sequence[Run]) -> list[str]:
    """What could not be read, with line numbers."""
    lines = []
    files = [run for run in runs if run.reading is not None and run.reading.problems]
    for run in files[:_MAX_FILES]:
        assert run.reading is not None
        problems = run.reading.problems
        texts = [markdown_cell(str(problem), 120) for problem in problems[:_MAX_PROBLEMS]]
        if len(problems) > _MAX_PROBLEMS:
            texts.append(f"and {len(problems) - _MAX_PROBLEMS} more")
        lines.append(f"- {markdown_cell(str(run.path), 200)}: " + "; ".join(texts))
    if len(files) > _MAX_FILES:
        lines.append(f"- and {len(files) - _MAX_FILES} more files")
    return ["## Lines that could not be read or do not fit", "\n".join(lines)] if lines else []


def report_csv(paths: Sequence[Path]) -> str:
    """One CSV line per row with raw numbers; units are in the column names. Raises ValueError as `report_text`."""
    table = [_csv_row(row) for row in rows(collect(paths))]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return stream.getvalue()


_MEASURES = (
    *("runs_successful", "runs_failed", "runs_required", "runs_retained", "score_method", "score_notes"),
    *("train_minutes", "minutes_minimum", "minutes_maximum", "minutes_standard_deviation"),
    *("epochs_to_target", "seconds_per_epoch", "samples_per_second"),
    *("speedup_total", "speedup_throughput", "statistical_efficiency", "baseline_devices"),
)
CSV_COLUMNS: Sequence[str] = (*(item.name for item in fields(Group)), *_MEASURES)


def _csv_row(row: Row) -> dict[str, object]:
    group, score, speedup = row.group, row.score, row.speedup
    described = {item.name: _csv_value(getattr(group, item.name)) for item in fields(Group)}
    measured = {
        "runs_successful": score.runs_successful,
        "runs_failed": score.runs_failed,
        "runs_required": score.runs_required,
        "runs_retained": score.runs_retained,
        "score_method": score.method,
        "score_notes": "; ".join(score.notes),
        "train_minutes": _minutes(score.seconds),
        "minutes_minimum": _minutes(score.seconds_minimum),
        "minutes_maximum": _minutes(score.seconds_maximum),
        "minutes_standard_deviation": _minutes(score.seconds_deviation),
        "epochs_to_target": score.epochs,
        "seconds_per_epoch": score.seconds_per_epoch,
        "samples_per_second": score.samples_per_second,
        "speedup_total": speedup.total if speedup else None,
        "speedup_throughput": speedup.throughput if speedup else None,
        "statistical_efficiency": speedup.efficiency if speedup else None,
        "baseline_devices": speedup.baseline_devices if speedup else None,
    }
    return {**described, **measured}


def _csv_value(value: object) -> object:
    if isinstance(value, tuple):
        items = [f"{item[0]}={item[1]}" if isinstance(item, tuple) else str(item) for item in value]
        return csv_cell("; ".join(items))
    return csv_cell(value) if isinstance(value, str) else value


def _minutes(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / 60.0
