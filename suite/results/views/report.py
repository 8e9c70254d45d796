"""`suite report`: what runs measured, what failed, what could not be read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from suite.results.columns import HIDDEN, OURS, REPORTED, Result, RunRow
from suite.results.combine import grouped
from suite.results.data_table import DataTable
from suite.results.identity import (
    ENVIRONMENT_VARIABLES,
    HYPERPARAMETERS,
    distinguishing_words,
    facts,
    label,
    named_apart,
    usual_words,
    value_text,
    weighty_words,
)
from suite.results.logs.record import RunSettings
from suite.results.names import data_text, workload_name
from suite.results.price import Prices
from suite.results.ratios import Ratio, place
from suite.results.scores import figure, labels, results_of, shared_labels
from suite.results.series import speedups
from suite.results.text import clean, percent_text
from suite.results.views.all_reduce import all_reduce_sections
from suite.results.views.baseline import Baseline, baseline_section
from suite.results.views.headlines import mean_text
from suite.results.views.overview import division, hardness, order_of, overview, several_nodes
from suite.results.views.repeat import resuming_commands
from suite.results.views.section import Section, View
from suite.results.views.study import sections as studies

NOTICES: Mapping[str, str] = {
    "demo": "This is a demo and no MLPerf result: {data}, small model, target without relation to MLPerf.",
    "synthetic": "Synthetic data: throughput only, no MLPerf result.",
    "": "Logs of other programs.",
}
_SHOWN_ELSEWHERE = (
    "profile", "workload", "framework", "device", "devices", "nodes", "mode", "update", "labels", "deviations",
    "folder", "submitter", "division", "hyperparameter_set", "framework_version",
)  # fmt: skip
"""In titles, in columns that every table has, in notes; or needed only where nothing else tells two rows apart."""
_NO_COLUMN = ("linear", "thread_waiting", "batch_unit", "sample_unit")
"""What follows from the framework or the workload: named above a table, where its rows agree."""
_MOST_FILES, _MOST_PROBLEMS = 30, 5
FAILED = "Runs without success"


def report(runs: Sequence[RunRow], prices: Prices | None = None, against: Baseline | None = None) -> View:
    """Everything that the runs say; `prices`: and what each result costs, `against`: ratios to other results.

    Raises ValueError for a price list of which no price applies, or a baseline that there is not.
    """
    results = results_of(runs)
    price_notes = () if prices is None else prices.unused_notes(results)
    trained = [row for row in results if not row.all_reduces]
    tables = together(trained)
    sections = [*overview(trained, prices), *studies(runs, prices), *all_reduce_sections(results)]
    sections += [baseline_section(trained, against)] if against is not None else []
    sections += [results_section(one, prices, title, tables) for one, title in zip(tables, titles(tables), strict=True)]
    return View("Results", (*sections, *_no_results(runs)), data(trained, prices), notes=price_notes)


def data(results: Sequence[Result], prices: Prices | None = None) -> DataTable:
    """A row for each result: every column, its ratio to the fewest devices of its series, its cost."""
    over = speedups(results)
    return DataTable.from_rows(
        {
            **{name: value for name, value in vars(row).items() if name not in HIDDEN and not name.startswith("_")},
            "speedup": one and one.value,
            "throughput": one and one.throughput,
            "efficiency": one and one.efficiency,
            "baseline_devices": one and one.before.devices,
            "baseline_nodes": one and (one.before.nodes or 1),
            "cost": None if prices is None else prices.cost(row),
        }
        for row in results
        for one in [over.get(row.key)]
    )


# --- one table ----------------------------------------------------------------------------------------------------------


def together(results: Sequence[Result]) -> list[list[Result]]:
    """The results that stand in one table: of one workload, profile and system; of other programs all of one workload.

    Times to target come before throughput, reference runs before demos.
    """

    def kind(row: Result) -> tuple[Any, ...]:
        where = (row.system, row.device, row.device_name, row.sample_unit) if row.profile else ()
        return row.profile, workload_name(row.workload), row.to_target, row.mode, row.update, *where

    tables = [sorted(table, key=_order) for table in grouped(results, kind).values()]
    return sorted(tables, key=lambda table: (not table[0].to_target, order_of(table[0])))


def _order(row: Result) -> tuple[Any, ...]:
    batch = (row.batch_size_global or 0) if row.batch_rule == "set" else 0
    whose = (row.framework, row.batch_rule, hardness(row), batch) if row.profile else (row.round, row.system)
    return (*whose, *place(row), figure(row) or 0.0)


def titles(tables: Sequence[Sequence[Result]]) -> list[str]:
    """Titles of tables, of which no two are equal: `ncf on dgx1 (demo)`."""
    return named_apart([table[0] for table in tables], [_title(table) for table in tables])


def _title(table: Sequence[Result]) -> str:
    row = table[0]
    system = row.system if len({one.system for one in table}) == 1 else ""
    title = " on ".join(clean(text, 80) for text in (row.workload or "unknown workload", system) if text)
    title += f" ({clean(row.profile, 80)})" if row.profile else ""
    title += "" if row.to_target else f": throughput, {clean(row.mode, 80)}"
    return f"{title}, asynchronous updates" if row.update == "async" else title


def results_section(
    table: Sequence[Result], prices: Prices | None = None, title: str = "", tables: Sequence[Sequence[Result]] = ()
) -> Section:
    """One table of results that stand `together`; `tables`: those of the document, whose other hyperparameters are told."""
    first = table[0]
    kin = [row for one in tables for row in one if (row.workload, row.profile) == (first.workload, first.profile)]
    leaves = [text for text in first.deviations if all(text in row.deviations for row in table)]
    varying, above = _fields(table, kin, leaves)
    look = [(row.framework, *(repr(getattr(row, name)) for name in varying)) for row in table]
    shown_alone = (*varying, "labels", "deviations", "devices", "nodes")
    words = distinguishing_words(table, look, shown_alone)
    usual = usual_words(table, words, shown_alone) if first.profile else ""
    words = weighty_words(table, words) if first.profile else words
    above += [f"rows that do not say otherwise: {usual}"] if usual else []
    over, shared = speedups(table, intervals=True), shared_labels(table)
    notes = [_notes(row, leaves, shared) for row in table]
    of_all = [text for text in notes[0] if len(table) > 1 and all(text in texts for texts in notes)]
    cells = [
        {
            **_names(row, varying, text),
            **_measured(row),
            "cost": None if prices is None else prices.cost(row),
            "speedup": over[row.key].value if row.key in over else None,
            "notes": tuple(note for note in said if note not in of_all),
        }
        for row, text, said in zip(table, words, notes, strict=True)
    ]
    shown = DataTable.from_rows(cells).without_empty(keep=("devices",))
    if len({row.framework for row in table}) == 1:
        shown = shown.without("framework")
    names = list(shown.columns)[: shown.columns.index("runs")]
    alike = len({(row.system, row.framework, place(row)) for row in table}) < len(table)
    keys = len(names) if alike else names.index("devices") + 1 + ("nodes" in names)
    above += [f"labels {', '.join(shared)}"] if shared else []
    cost = "cost of one result = devices × hours to target × price of a device for an hour."
    below = (*of_all, *_sentences(table), *([cost] if "cost" in shown else []), *_verdicts(table, over))
    notice = NOTICES.get(first.profile, "").format(data=data_text(first.dataset))
    notices, of = (notice, " · ".join(above)), tuple((row,) for row in table)
    return Section(title, notices, shown, below=below, keys=keys, of=of)


def _fields(table: Sequence[Result], kin: Sequence[Result], leaves: Sequence[str]) -> tuple[list[str], list[str]]:
    """(of logs of others the fields that need a column, texts of what all rows agree in: what is unusual, the
    hyperparameters of which `kin` has others, how they leave the closed rules)."""
    own, every = [facts(row) for row in table], [facts(row) for row in kin if row.hyperparameters]
    usual = {**vars(RunSettings()), "sample_unit": "samples", "batch_unit": "samples", "round": OURS}
    ours = table[0].profile

    def varies(name: str, rows: Sequence[Mapping[str, Any]]) -> bool:
        return len({repr(one.get(name)) for one in rows}) > 1

    def named(name: str, value: Any) -> bool:
        if name.startswith(HYPERPARAMETERS):
            return bool(ours) and varies(name, every)
        return bool(value) and value != usual.get(name) and name not in (*_SHOWN_ELSEWHERE, "system")

    agreed = {name: value for name, value in own[0].items() if not varies(name, own)}
    aside = {*agreed, *_SHOWN_ELSEWHERE, *_NO_COLUMN}
    no_column = (HYPERPARAMETERS, ENVIRONMENT_VARIABLES)
    columns = [name for name in own[0] if not (ours or name in aside or name.startswith(no_column))]
    frameworks = dict.fromkeys(f"{row.framework} {row.framework_version}".strip() for row in table)
    texts = [", ".join(filter(None, frameworks))]
    texts += [f"{label(name)} {value_text(name, one, table[0])}" for name, one in agreed.items() if named(name, one)]
    texts += [f"leaves the closed rules: {clean('; '.join(leaves), 4000)}"] if leaves else []
    return columns, [text for text in texts if text]


def _names(row: Result, varying: Sequence[str], words: str) -> dict[str, Any]:
    values = {name: value for name in varying if (value := getattr(row, name))}
    values = {name: value if type(value) is int else value_text(name, value, row) for name, value in values.items()}
    system = {name: values.get(name) for name in varying if name == "system"}
    named = {"framework": row.framework, "devices": row.devices, "nodes": several_nodes(row)}
    others = {name: values.get(name) for name in varying if name != "system"}
    return {**system, **named, **others, "differs in": words}


def _measured(row: Result) -> dict[str, Any]:
    required = row.runs_required if row.runs_required and row.runs_successful < row.runs_required else None
    spread = ("seconds_minimum", "seconds_maximum")
    several = row.to_target and row.runs_successful > 1
    cells = {"runs": row.runs_successful, "of": required, "failed": row.runs_failed or None, "seconds": row.seconds}
    cells |= {name: getattr(row, name) if several else None for name in spread}
    cells |= {name: getattr(row, name) for name in REPORTED}
    return cells | {f"{clean(unit, 30)}_per_second": rate for unit, rate in (row.further_rates or {}).items()}


def _notes(row: Result, leaves: Collection[str], shared: Sequence[str]) -> list[str]:
    """What must be said with a row: its own labels, how it leaves the closed rules, how it was scored."""
    own_labels = [text for text in (*division(row), *labels(row)) if text not in shared]
    own_labels += [f"leaves the closed rules: {text}" for text in row.deviations if text not in leaves]
    return [text for text in (*own_labels, *row.score_notes, mean_text(row), row.note) if text]


def _sentences(table: Sequence[Result]) -> list[str]:
    parts = (
        ("evaluation_share", "evaluations took {} of the time of training and evaluating"),
        ("data_wait_share", "waiting for data took {} of the time of training"),
    )
    shares = []
    for name, text in parts:
        known = sorted(share for row in table if (share := getattr(row, name)))
        ends = dict.fromkeys(map(percent_text, (*known[:1], *known[-1:])))
        shares += [text.format(" to ".join(ends))] if ends else []
    line = ", ".join(shares)
    return [f"{line[:1].upper()}{line[1:]}."] if line else []


def _verdicts(table: Sequence[Result], over: Mapping[str, Ratio]) -> list[str]:
    """For each row with a speedup what it consists of, the interval where there are enough runs, what is not shown."""
    compared = [row for row in table if row.key in over and over[row.key].value is not None]
    names = named_apart(compared, [f"{row.framework}, {over[row.key].places} devices" for row in compared])
    lines, flags = list[str](), dict[str, list[str]]()
    for row, name in zip(compared, names, strict=True):
        one = over[row.key]
        lines.append(f"{name}: {one.words}{f' ({one.interval_words})' if one.interval_words else ''}")
        for flag in one.flags:
            flags.setdefault(flag, []).append(name)
    lines += [f"{flag[:1].upper()}{flag[1:]} ({'; '.join(names)})." for flag, names in flags.items()]
    reasons = dict.fromkeys(over[row.key].no_interval for row in compared)
    return lines + ([f"No interval: {'; '.join(filter(None, reasons))}."] if any(reasons) else [])


def _no_results(listed: Sequence[RunRow]) -> Iterator[Section]:
    """Runs without success, runs that nobody can call failed yet, copies, and lines that could not be read."""
    failed = [row for row in listed if not (row.succeeded or row.running or row.copy_of)]
    for title, some in ((FAILED, failed), ("Runs that have not ended", [row for row in listed if row.running])):
        table = DataTable.from_rows({"run": row.run, "status": row.status, "reason": row.reason} for row in some)
        if some:
            yield Section(title, table=table, below=resuming_commands(some), of=tuple((row,) for row in some))
    digests = {row.path: row.record.digest for row in listed if row.record is not None}
    if copies := [row for row in listed if row.copy_of]:
        few = "1 log is a copy of another and does"
        are = few if len(copies) == 1 else f"{len(copies)} logs are copies of others and do"
        kinds = (
            "the same as" if digests[row.path] == digests[row.copy_of] else "an earlier state of" for row in copies
        )
        same = [f"{clean(row.path)}: {kind} {clean(row.copy_of)}" for row, kind in zip(copies, kinds, strict=True)]
        yield Section("Copies", (f"{are} not count:",), below=_cut(same, _MOST_FILES))
    unread = []
    for row in listed:
        problems = [clean(str(problem), 120) for problem in row.record.problems] if row.record is not None else []
        if problems:
            unread.append(f"{clean(row.path)}: {'; '.join(_cut(problems, _MOST_PROBLEMS))}")
    if unread:
        yield Section("Lines that could not be read or do not fit", below=_cut(unread, _MOST_FILES))


def _cut(texts: Sequence[str], most: int) -> tuple[str, ...]:
    return (*texts[:most], *([f"and {len(texts) - most} more"] if len(texts) > most else []))
