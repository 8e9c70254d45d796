"""`suite report`: results of all runs below some folders, as Markdown or CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.results.logs.collect import Run, collect
from suite.results.names import workload_name
from suite.results.published.other_logs import with_system_details
from suite.results.report.all_reduce import all_reduce_markdown, split
from suite.results.report.baselines import Baseline, baseline_markdown
from suite.results.report.further_units import further_units_line, row_rates
from suite.results.report.markdown import markdown_table, wrapped
from suite.results.report.overview import overview
from suite.results.report.overview_text import matrix_markdown
from suite.results.report.studies import studies_markdown
from suite.results.report.study_columns import row_value
from suite.results.report.tables import constant_texts, results_markdown, row_cost
from suite.results.report.time_fractions import row_time_fractions, time_fractions_line
from suite.results.score.groups import Group, Row, baseline, rows
from suite.results.score.measurement import measurements
from suite.results.score.price import Prices
from suite.results.score.scaling import OTHER_SEEDS, interval_suffix, scaling_pair
from suite.results.text import clean, csv_cell, markdown_escape
from workloads.api import LoggedSettings, field_names

NOT_VERIFIED = "Not verified by MLCommons Association."
PROFILE_NOTICES: Mapping[str, str] = {
    "demo": "This is a demo and no MLPerf result: generated data, small model, target without relation to MLPerf.",
    "synthetic": "Synthetic data: throughput only, no MLPerf result.",
    "": "Logs of other programs.",
}
FAILED_TITLE, NOT_ENDED_TITLE = "Runs without success", "Runs that have not ended"
_MAX_FILES = 30
_MAX_PROBLEMS = 5


def report_text(paths: Sequence[Path], prices: Prices | None = None, against: Baseline | None = None) -> str:
    """The Markdown report on all runs below `paths`; with `prices` what each result costs, with `against` ratios to others.

    Raises ValueError for a path without any log, a price for a device that no run names, or a baseline that there is not.
    """
    runs = with_system_details(collect(paths))
    result_rows = priced_rows(runs, prices)
    sums, result_rows = split(result_rows)
    parts = ["# Results", NOT_VERIFIED, *studies_markdown(runs, prices), *all_reduce_markdown(sums)]
    parts += map(matrix_markdown, overview(result_rows, prices))
    parts += baseline_markdown(result_rows, against) if against is not None else []
    for table in split_into_tables(result_rows):
        parts += _section(table, prices)
    parts += _failures(runs) + _problems(runs)
    return wrapped("\n\n".join(parts)) + "\n"


def priced_rows(runs: Sequence[Run], prices: Prices | None) -> list[Row]:
    """The rows of the runs. Raises ValueError for a price of a device that none of them names."""
    result_rows = rows(runs)
    if prices is not None:
        prices.refuse_unknown_names(measurements(result_rows))
    return result_rows


def split_into_tables(ordered_rows: Sequence[Row]) -> list[list[Row]]:
    """The rows split into tables."""
    tables: dict[tuple[object, ...], list[Row]] = {}
    for row in ordered_rows:
        tables.setdefault(_table_key(row), []).append(row)
    return [_by_round(table) for table in tables.values()]


def _table_key(row: Row) -> tuple[object, ...]:
    """Key of the table that a row belongs to: profiles, workloads, systems and kinds of scaling never mix.

    Logs of other programs have one row for each system: those of one workload share a table.
    """
    group = row.group
    if not group.profile:
        return ("", workload_name(group.workload), group.to_target, group.stop, group.mode)
    place = (group.profile, group.workload, group.system, group.device, group.device_name, group.sample_unit)
    return (
        *place,
        group.to_target,
        group.stop,
        *(getattr(group, name) for name in field_names(LoggedSettings, table=True)),
    )


def _by_round(table: list[Row]) -> list[Row]:
    """Logs of other programs in order of rounds."""
    return table if table[0].group.profile else sorted(table, key=lambda row: (row.group.rules, row.group.system))


def _section(table: Sequence[Row], prices: Prices | None) -> list[str]:
    title, above = (markdown_escape(text) for text in (table_title(table), " · ".join(table_constants(table))))
    parts = ["## " + title, PROFILE_NOTICES.get(table[0].group.profile, "")]
    parts.append(above)
    verdicts = "\n".join(f"- {markdown_escape(line)}" for line in table_verdicts(table))
    return [
        part
        for part in (
            *parts,
            results_markdown(table, prices),
            markdown_escape(further_units_line(table)),
            time_fractions_line(table),
            verdicts,
        )
        if part
    ]


def table_title(table: Sequence[Row]) -> str:
    """Title of a table as plain text: `ncf on dgx1 (reference)`."""
    group = table[0].group
    workload = group.workload if group.profile else workload_name(group.workload)
    system = group.system if len({row.group.system for row in table}) == 1 else ""
    title = " on ".join(clean(text, 80) for text in (workload or "unknown workload", system) if text)
    if group.profile:
        title += f" ({clean(group.profile, 80)})"
    if not group.to_target:
        title += f": throughput, {clean(group.mode, 80)}, {clean(group.stop, 80)}"
    return f"{title}, asynchronous updates" if group.asynchronous else title


def table_verdicts(table: Sequence[Row]) -> list[str]:
    """For each row with a baseline its speedup in words, the interval where there are enough runs, what is not shown."""
    lines, reasons = [], []
    seeds: dict[str, list[str]] = {}
    for row in table:
        base = baseline(row, table)
        if base is None or base.place == row.place:
            continue
        before, after = measurements([base])[0], measurements([row])[0]
        pair = scaling_pair(before, after)
        several = sum(_framework_devices(other) == _framework_devices(row) for other in table) > 1
        batch = f", batch {after.batch_size_global:,}" if several and after.batch_size_global else ""
        across = ("across nodes",) if base.place[1] != row.place[1] else ()
        shown = (*across, *pair.labels)
        labels = f" ({clean(', '.join(shown), 80)})" if shown else ""
        name = f"{clean(row.group.framework, 80)}, {pair.places} devices{batch}{labels}"
        lines.append(f"{name}: {pair.verdict}{interval_suffix(pair)}")
        if pair.no_interval and pair.no_interval not in reasons:
            reasons.append(pair.no_interval)
        for flag in pair.flags:
            if flag.startswith(OTHER_SEEDS):
                seeds.setdefault(flag, []).append(f"{clean(row.group.framework, 80)}, {pair.places}{batch}")
    lines += [f"{flag[:1].upper()}{flag[1:]}: {'; '.join(names)}." for flag, names in seeds.items()]
    return lines + ([f"No interval: {'; '.join(reasons)}."] if reasons else [])


def _framework_devices(row: Row) -> tuple[object, ...]:
    return (row.group.framework, row.place)


def table_constants(table: Sequence[Row]) -> list[str]:
    """The fields that are equal in all rows, as plain `name value` texts."""
    units = {row.group.sample_unit for row in table}
    unit = next(iter(units)) if len(units) == 1 else ""
    return constant_texts(table) + ([f"samples are {clean(unit, 80)}"] if unit not in ("", "samples") else [])


def _failures(runs: Sequence[Run]) -> list[str]:
    parts = []
    for title, listed in ((FAILED_TITLE, failures(runs)), (NOT_ENDED_TITLE, not_ended(runs))):
        body = [[markdown_escape(text) for text in texts] for texts in listed]
        table = markdown_table(["job", "status", "reason"], body, [False, False, False]) if body else ""
        parts += [f"## {title}", table] if body else []
    return parts


def failures(runs: Sequence[Run], reason_length: int = 70) -> list[tuple[str, str, str]]:
    """(job and run, status, reason) of the runs that ended without success, as plain text."""
    return [_listed(run, reason_length) for run in runs if not run.succeeded and not run.running]


def not_ended(runs: Sequence[Run], reason_length: int = 70) -> list[tuple[str, str, str]]:
    """The same of the runs that have not ended, which nobody can call failed yet."""
    return [_listed(run, reason_length) for run in runs if run.running]


def _listed(run: Run, reason_length: int) -> tuple[str, str, str]:
    return clean(_shortened_from_left(run.name, 55), 55), clean(run.status, 15), clean(run.reason, reason_length)


def _shortened_from_left(text: str, limit: int) -> str:
    """The last `limit` characters of a path: its end is what differs between runs."""
    return text if len(text) <= limit else "…" + text[1 - limit :]


def _problems(runs: Sequence[Run]) -> list[str]:
    lines = [f"- {markdown_escape(f'{name}: {text}' if text else name)}" for name, text in problems(runs)]
    return ["## Lines that could not be read or do not fit", "\n".join(lines)] if lines else []


def problems(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """(file, its problems with line numbers) of the logs that could not be read in full, as plain text."""
    files = [(run.path, run.reading.problems) for run in runs if run.reading is not None and run.reading.problems]
    lines = []
    for path, texts in files[:_MAX_FILES]:
        listed = [clean(str(problem), 120) for problem in texts[:_MAX_PROBLEMS]]
        more = [f"and {len(texts) - _MAX_PROBLEMS} more"] if len(texts) > _MAX_PROBLEMS else []
        lines.append((clean(str(path), 200), "; ".join([*listed, *more])))
    if len(files) > _MAX_FILES:
        lines.append((f"and {len(files) - _MAX_FILES} more files", ""))
    return lines


def report_csv(paths: Sequence[Path], prices: Prices | None = None) -> str:
    """One CSV line per row with raw numbers; units are in the column names. All-reduces, which train nothing, have none.

    Raises ValueError as `report_text`.
    """
    _, trained = split(priced_rows(with_system_details(collect(paths)), prices))
    table = [_csv_row(row, prices) for row in trained]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return stream.getvalue()


_MEASURE_COLUMNS = (
    *("runs_successful", "runs_failed", "runs_required", "runs_retained", "score_method", "score_notes"),
    "machine_condition",
    *("train_minutes", "minutes_minimum", "minutes_maximum", "minutes_standard_deviation"),
    *("epochs_to_target", "seconds_per_epoch", "samples_per_second", "further_rates"),
    *("data_wait_share", "evaluation_share"),
    *("speedup_total", "speedup_throughput", "statistical_efficiency", "baseline_devices", "baseline_nodes"),
    "cost_per_result",
)
_RECORDED: Mapping[str, str] = {
    "step_ms": "ms/step",
    "step_ms_deviation": "sd",
    "step_ms_median": "median",
    "step_ms_p90": "p90",
    "step_ms_p99": "p99",
    "steps_timed": "steps",
    "gpu_percent": "GPU %",
    "memory_gigabytes": "memory GB",
    "host_memory_gigabytes": "host GB",
    "watts": "W",
    "joules_per_sample": "J/sample",
    "data_megabytes_per_second": "MB/s data",
    "cost_of_job": "cost",
    "cost_per_million_samples": "cost/million",
}
"""Column to the column of a study's table that holds the same."""
CSV_COLUMNS: Sequence[str] = (*field_names(Group, row=True), *_MEASURE_COLUMNS, *_RECORDED)


def _csv_row(row: Row, prices: Prices | None) -> dict[str, object]:
    group, score, speedup, fractions = row.group, row.score, row.speedup, row_time_fractions(row)
    settings = {name: _csv_value(getattr(group, name)) for name in field_names(Group, row=True)}
    measured = {
        "runs_successful": score.runs_successful,
        "runs_failed": score.runs_failed,
        "runs_required": score.runs_required,
        "runs_retained": score.runs_retained,
        "score_method": score.method,
        "score_notes": "; ".join(score.notes),
        "machine_condition": csv_cell(row.condition),
        "train_minutes": _minutes(score.seconds),
        "minutes_minimum": _minutes(score.seconds_minimum),
        "minutes_maximum": _minutes(score.seconds_maximum),
        "minutes_standard_deviation": _minutes(score.seconds_standard_deviation),
        "epochs_to_target": score.epochs,
        "seconds_per_epoch": score.seconds_per_epoch,
        "samples_per_second": score.samples_per_second,
        "further_rates": csv_cell("; ".join(f"{unit}/s {rate:.6g}" for unit, rate in row_rates(row).items())),
        "data_wait_share": fractions.data_wait,
        "evaluation_share": fractions.evaluation,
        "speedup_total": speedup.total if speedup else None,
        "speedup_throughput": speedup.throughput if speedup else None,
        "statistical_efficiency": speedup.efficiency if speedup else None,
        "baseline_devices": speedup.baseline_devices if speedup else None,
        "baseline_nodes": speedup.baseline_nodes if speedup else None,
        "cost_per_result": row_cost(row, prices),
        **{csv_name: row_value(row, name, prices) for csv_name, name in _RECORDED.items()},
    }
    return {**settings, **measured}


def _csv_value(value: object) -> object:
    if isinstance(value, tuple):
        items = [f"{item[0]}={item[1]}" if isinstance(item, tuple) else str(item) for item in value]
        return csv_cell("; ".join(items))
    return csv_cell(value) if isinstance(value, str) else value


def _minutes(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / 60.0
