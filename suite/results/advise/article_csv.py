"""Tables 1-7 of the DGX-1 scaling article as CSV: raw numbers, units in the column names, labels in every row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from suite.results.advise.article_tables import SUMMARY_TABLE, TABLES, ArticleTables, Family
from suite.results.published.csv_files import ARTICLE
from suite.results.report.report import NOT_VERIFIED
from suite.results.score.measurement import Measurement
from suite.results.score.scaling import PrintedSpeedup, ScalingPair
from suite.results.text import csv_cell

_COMMON_COLUMNS = ("table", "workload", "series", "settings", "profile", "labels")
_RESULT_COLUMNS = (
    *(
        *_COMMON_COLUMNS,
        "devices",
        "batch_size_global",
        "batch_size_per_device",
        "batch_unit",
        "batch_rule",
        "minutes_per_epoch",
    ),
    *("epochs_to_target", "total_minutes", "precision", "runs_successful", "runs_failed", "runs_required"),
    *("score_method", "score_notes", "verification"),
)
_SPEEDUP_COLUMNS = (
    *(
        *_COMMON_COLUMNS,
        "devices_from",
        "devices_to",
        "batch_size_global_from",
        "batch_size_global_to",
        "scaling",
        "speedup",
        "throughput",
        "statistical_efficiency",
    ),
    *("scaling_efficiency", "interval_low", "interval_high", "interval_level", "no_interval", "verdict", "flags"),
    *("speedup_printed", "verification"),
)


def results_csv(tables: ArticleTables) -> str:
    """Tables 1-6 with raw numbers; units are in the column names."""
    rows = [_result_row(family, item) for family in tables.families for item in family.measurements]
    return _csv(_RESULT_COLUMNS, rows)


def _common_columns(family: Family, table: object) -> dict[str, object]:
    first = family.first
    return {
        "table": table,
        "workload": csv_cell(first.workload),
        "series": csv_cell(first.series),
        "settings": csv_cell(family.settings),
        "profile": csv_cell(first.profile),
        "labels": csv_cell("; ".join(family.labels)),
    }


def _result_row(family: Family, item: Measurement) -> dict[str, object]:
    score, size = item.score, item.batch_size_global
    per_epoch = score.seconds_per_epoch
    return {
        **_common_columns(family, TABLES.get(item.workload)),
        "labels": csv_cell("; ".join(dict.fromkeys((*family.labels, *item.labels)))),
        "devices": item.devices,
        "batch_size_global": size,
        "batch_size_per_device": None if not size else size / item.devices,
        "batch_unit": csv_cell(item.batch_unit),
        "batch_rule": csv_cell(item.batch_rule),
        "minutes_per_epoch": None if per_epoch is None else per_epoch / 60,
        "epochs_to_target": score.epochs,
        "total_minutes": None if score.seconds is None else score.seconds / 60,
        "precision": csv_cell(item.precision),
        "runs_successful": score.runs_successful if item.runs else None,
        "runs_failed": score.runs_failed if item.runs else None,
        "runs_required": score.runs_required,
        "score_method": score.method,
        "score_notes": csv_cell("; ".join(score.notes)),
        "verification": NOT_VERIFIED,
    }


def speedups_csv(tables: ArticleTables) -> str:
    """Table 7 with every pair of device counts, its factors, interval and verdict."""
    known = {(one.workload, one.devices_from, one.devices_to): one for one in tables.printed}
    rows = [_speedup_row(family, pair, known) for family in tables.families for pair in family.pairs]
    return _csv(_SPEEDUP_COLUMNS, rows)


def _speedup_row(
    family: Family, pair: ScalingPair, known: Mapping[tuple[str, int, int], PrintedSpeedup]
) -> dict[str, object]:
    key = (pair.workload, pair.devices_from, pair.devices_to)
    printed = known.get(key) if family.first.origin == ARTICLE else None
    flags = [*([printed.flag] if printed is not None and printed.flag else []), *pair.flags]
    interval = pair.interval
    return {
        **_common_columns(family, SUMMARY_TABLE),
        "devices_from": pair.devices_from,
        "devices_to": pair.devices_to,
        "batch_size_global_from": pair.before.batch_size_global,
        "batch_size_global_to": pair.after.batch_size_global,
        "scaling": pair.scaling_kind,
        "speedup": pair.total,
        "throughput": pair.throughput,
        "statistical_efficiency": pair.efficiency,
        "scaling_efficiency": pair.scaling_efficiency,
        "interval_low": interval.low if interval else None,
        "interval_high": interval.high if interval else None,
        "interval_level": interval.level if interval else None,
        "no_interval": pair.no_interval,
        "verdict": pair.verdict,
        "flags": csv_cell("; ".join(flags)),
        "speedup_printed": printed.printed if printed is not None else None,
        "verification": NOT_VERIFIED,
    }


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
