"""`suite report`: the results of runs in tables, the speedups, failed runs, and lines that could not be read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from suite.launch.known import title_of
from suite.results.columns import HIDDEN, OURS, REPORTED, Result, Run
from suite.results.combine import grouped
from suite.results.data_table import DataTable
from suite.results.disagreement import find_disagreements
from suite.results.identity import ENVIRONMENT_VARIABLES, HYPERPARAMETERS, label, value_text
from suite.results.logs.record import RunSettings
from suite.results.names import accelerator_name, data_text, short_title, workload_name
from suite.results.price import Prices
from suite.results.ratios import Ratio, place, ratio_text
from suite.results.scores import figure, labels, results_of, shared_labels
from suite.results.series import speedups
from suite.results.settings_difference import SettingsDifference, distinct_labels, named_apart, settings_difference
from suite.results.targets import target_text
from suite.results.text import clean, devices_text, percent_text, range_text, time_text
from suite.results.views.all_reduce import all_reduce_sections
from suite.results.views.baseline import Baseline, baseline_section
from suite.results.views.overview import division, hardness, order_of, overview, several_nodes
from suite.results.views.repeat import resuming_commands
from suite.results.views.section import NOT_VERIFIED, Section, SectionKind, View
from suite.results.views.speedup_text import NOT_SEPARATED, interval_sentence, speedup_details, speedup_headline
from suite.results.views.study import sections as studies
from workloads.api import Deviation, DeviationCode
from workloads.api.deviations import SETTING_NAMES
from workloads.api.deviations import shown as shown_value

NOTICES: Mapping[str, str] = {
    "demo": "DEMO: {data} and a small model. Not an MLPerf result.",
    "synthetic": "SYNTHETIC DATA: this measures throughput only. Not an MLPerf result.",
    "": "Foreign logs.",
}
"""Notice above every table of a profile."""
FAILED = "Failed runs"
NOT_ENDED = "Runs that have not ended"
_MAX_SETTING_COLUMNS = 4
"""Results that differ in more settings are named by as few of them as distinguish the results."""
_MAX_FILES, _MAX_PROBLEMS = 30, 5
_NAMED_ELSEWHERE = (
    "profile", "workload", "framework", "framework_version", "device", "device_name", "devices", "nodes", "mode", "update",
    "labels", "deviations", "folder", "submitter", "division", "system", "targets", "dataset", "batch_size_global",
    "batch_unit", "sample_unit", "clock",
)  # fmt: skip
"""Settings that the title, the labeled lines, or a column of every table has."""
_USUALLY_DEFAULT = (
    "rules", "batch_rule", "lr_scaling", "linear", "thread_waiting", "cores_per_device", "threads_per_device",
    "data_fingerprint", "max_epochs", "hyperparameter_set", "graphs", "kernels", "variant", "stop",
)  # fmt: skip
"""Settings that follow from the workload, the framework, and the profile unless a user changes them. `--verbose` shows them."""
_DEMO_LABELS = ("cpu", "demo", "synthetic")
"""Labels that the notice and the hardware line state already."""


def report(
    runs: Sequence[Run],
    prices: Prices | None = None,
    against: Baseline | None = None,
    verbose: bool = False,
    next_steps: bool = True,
) -> View:
    """Return the report on runs.

    Args:
        runs: The runs, failed ones included.
        prices: Prices of devices, for a column with the cost of each result.
        against: Results to divide all other results by, for an additional table.
        verbose: Name the settings that have their default values too.
        next_steps: End with the folder of the logs and the command for the page.

    Raises:
        ValueError: No price of the list applies, or no result has the value of `against`.
    """
    results = results_of(runs)
    price_notes = () if prices is None else prices.unused_notes(results)
    trained = [result for result in results if not result.all_reduces]
    tables = together(trained)
    sections = [*overview(trained, prices), *studies(runs, prices), *all_reduce_sections(results)]
    if against is not None:
        sections.append(baseline_section(trained, against))
    for table, title in zip(tables, titles(tables), strict=True):
        sections.append(results_section(table, prices, title, tables, verbose))
    sections += _problem_sections(runs)
    if next_steps:
        sections += _next_section(runs)
    return View("Results", tuple(sections), data(trained, prices), above=(NOT_VERIFIED,), notes=price_notes)


def with_single_title(view: View) -> View:
    """Return a report whose title and notice are those of its table, if the table is its first section and the only table."""
    tables = [section for section in view.sections if section.kind is SectionKind.RESULTS]
    if len(tables) != 1 or view.sections[0] is not tables[0]:
        return view
    first, *others = view.sections
    above = " ".join((*first.above, *view.above))
    sections = (replace(first, title="", above=()), *others)
    return replace(view, title=f"{view.title}: {first.title}", sections=sections, above=(above,))


def data(results: Sequence[Result], prices: Prices | None = None) -> DataTable:
    """Return a row for each result: every column, its speedup over the baseline of its series, its cost."""
    over = speedups(results)
    names = [item.name for item in fields(Result) if item.name not in HIDDEN]
    rows = []
    for result in results:
        speedup = over.get(result.key)
        row = {name: getattr(result, name) for name in names}
        row |= {
            "speedup": None if speedup is None else speedup.value,
            "throughput": None if speedup is None else speedup.throughput,
            "efficiency": None if speedup is None else speedup.efficiency,
            "setup_factor": None if speedup is None else speedup.setup,
            "baseline_devices": None if speedup is None else speedup.before.devices,
            "baseline_nodes": None if speedup is None else speedup.before.nodes or 1,
            "cost": None if prices is None else prices.cost(result),
        }
        rows.append(row)
    return DataTable.from_rows(rows)


# --- which results share a table ----------------------------------------------------------------------------------------


def together(results: Sequence[Result]) -> list[list[Result]]:
    """Return the results of each table: of the same workload, profile, and system; for foreign results of the same workload.

    Times to target come before throughput, and reference runs before demos.
    """

    def kind(result: Result) -> tuple[Any, ...]:
        system = (result.system, result.device, result.device_name, result.sample_unit) if result.profile else ()
        return result.profile, workload_name(result.workload), result.to_target, result.mode, result.update, *system

    tables = [sorted(table, key=_order) for table in grouped(results, kind).values()]
    return sorted(tables, key=lambda table: (not table[0].to_target, order_of(table[0])))


def _order(result: Result) -> tuple[Any, ...]:
    batch = (result.batch_size_global or 0) if result.batch_rule == "set" else 0
    if result.profile:
        settings = (result.framework, result.batch_rule, hardness(result), batch)
        return *settings, *place(result), result.learning_rate or 0.0, figure(result) or 0.0
    return result.round, result.system, *place(result), figure(result) or 0.0


def titles(tables: Sequence[Sequence[Result]]) -> list[str]:
    """Return the titles of tables, all different: `NCF demo, PyTorch 2.11.0, AMD EPYC`."""
    return named_apart([table[0] for table in tables], [_title(table) for table in tables])


def _title(table: Sequence[Result]) -> str:
    first = table[0]
    workload = " ".join(filter(None, (short_title(clean(first.workload, 60)) or "unknown workload", first.profile)))
    parts = [workload, "" if first.to_target else f"throughput ({clean(first.mode, 40)})"]
    parts.append("asynchronous updates" if first.update == "async" else "")
    frameworks = {(result.framework, result.framework_version) for result in table}
    if len(frameworks) == 1 and first.profile:
        parts.append(f"{title_of(first.framework)} {first.framework_version}".strip())
    parts.append(_hardware(first) if len({result.device_name for result in table}) == 1 else "")
    if first.profile and first.system not in ("", "local"):
        parts.append(first.system)
    return ", ".join(clean(part, 80) for part in parts if part)


def _hardware(result: Result) -> str:
    """Return the name of the devices without the number of cores: `AMD EPYC`, `V100 SXM`."""
    if result.profile:
        return clean(result.device_name.partition(" core(s) of ")[2] or accelerator_name(result.device_name), 60)
    return clean(accelerator_name(result.device_name), 60)


# --- one table ----------------------------------------------------------------------------------------------------------


def results_section(
    table: Sequence[Result],
    prices: Prices | None = None,
    title: str = "",
    tables: Sequence[Sequence[Result]] = (),
    verbose: bool = False,
) -> Section:
    """Return the section of a table.

    Args:
        table: Results that share a table, as `together` returns them.
        prices: Prices of devices, for a column with the cost of each result.
        title: Heading of the section.
        tables: All tables of the document. Hyperparameters in which tables of the workload differ are named.
        verbose: Name the settings that have their default values too.
    """
    first = table[0]
    difference = settings_difference(table)
    over = speedups(table, intervals=True)
    shared = shared_labels(table)
    deviations = [text for text in first.deviations if all(text in result.deviations for result in table)]
    columns = _setting_columns(table, difference)
    notes = [_notes(result, deviations, shared) for result in table]
    of_all = [text for text in notes[0] if len(table) > 1 and all(text in texts for texts in notes)]
    rows = []
    for position, result in enumerate(table):
        speedup = over.get(result.key)
        value = None if speedup is None else speedup.value
        if any(result.key == other.before.key for other in over.values()):
            value = 1.0
        row = {name: values[position] for name, values in columns.items()} | _figures(result, value)
        row["cost"] = None if prices is None else prices.cost(result)
        row["notes"] = tuple(text for text in notes[position] if text not in of_all)
        rows.append(row)
    shown = _without_small_parts(DataTable.from_rows(rows)).without_empty(keep=("devices",))
    below = [*of_all, *_speedup_sentences(table, over), *_disagreement_sentences(table), *_share_sentences(table)]
    if "cost" in shown:
        below.append("Cost of one result: devices × hours to target × price of one device for one hour.")
    if deviations:
        facts = [deviation for deviation in first.parsed_deviations if deviation.text in deviations]
        below.append(open_division_sentence(facts, verbose))
    notice = NOTICES.get(first.profile, "").format(data=_data_words(first.dataset))
    return Section(
        title,
        (notice,) if notice else (),
        shown,
        facts=tuple(_facts(table, difference, tables, shared, verbose)),
        kind=SectionKind.RESULTS,
        below=tuple(below),
        keys=shown.columns.index("runs"),
        of=tuple((result,) for result in table),
    )


_MAX_REASONS, _MAX_PARTS = 4, 4
"""Reasons for the open division, and parts of a model in a reason, that are named without `--verbose`."""


def open_division_sentence(deviations: Sequence[Deviation], verbose: bool = False) -> str:
    """Return why results are in the open division: `Open division because: profile is demo instead of reference.`

    Args:
        deviations: The reasons.
        verbose: Name all reasons, and all parts of a model that differ from the reference.
    """
    order = {"profile": 0, "dataset": 1, "model": 2}
    ordered = sorted(deviations, key=lambda deviation: order.get(deviation.setting, len(order)))
    shown = ordered if verbose else ordered[:_MAX_REASONS]
    phrases = [_reason_text(deviation, verbose) for deviation in shown]
    hidden = len(ordered) - len(shown)
    if hidden:
        phrases.append(f"{hidden} more reason{'' if hidden == 1 else 's'} (--verbose)")
    return f"Open division because: {clean('; '.join(phrases), 4000)}."


def _reason_text(deviation: Deviation, verbose: bool) -> str:
    """Return a reason as text: `data set is ml-demo instead of ml-20m`, `model differs in mf_dim, mlp_layer_sizes`."""
    if deviation.code is not DeviationCode.SETTING:
        return deviation.text
    name = SETTING_NAMES.get(deviation.setting, deviation.setting)
    if deviation.parts:
        parts = deviation.parts if verbose else deviation.parts[:_MAX_PARTS]
        hidden = len(deviation.parts) - len(parts)
        return f"{name} differs from the reference in {', '.join(parts)}" + (
            f" and {hidden} more settings" if hidden else ""
        )
    if deviation.value is None or not deviation.allowed:
        return deviation.text
    return f"{name} is {shown_value(deviation.value)} instead of {deviation.allowed}"


def _data_words(dataset: str) -> str:
    text = data_text(dataset)
    return text if text.startswith("generated") else f"the {text}"


def _setting_columns(table: Sequence[Result], difference: SettingsDifference) -> dict[str, list[Any]]:
    """Return the columns that name the rows of a table: framework, devices, nodes, and the settings that differ."""
    ours = bool(table[0].profile)
    columns: dict[str, list[Any]] = {}
    if not ours and len({result.system for result in table}) > 1:
        columns["system"] = [clean(result.system, 80) for result in table]
    if len({result.framework for result in table}) > 1:
        columns["framework"] = [title_of(result.framework) for result in table]
    columns["devices"] = [result.devices for result in table]
    columns["nodes"] = [several_nodes(result) for result in table]
    shown = {*columns, "labels", "deviations"}
    differing = difference.without((*shown, *_of_frameworks(table, difference))).without_derived()
    if len(differing.columns) > _MAX_SETTING_COLUMNS:
        names = list(zip(*columns.values(), strict=True))
        columns["settings"] = list(distinct_labels(table, names, shown))
        return columns
    for name, values in differing.columns.items():
        texts = differing.texts(name)
        columns[name] = [value if type(value) is int else text for value, text in zip(values, texts, strict=True)]
    return columns


_WITH_FRAMEWORK = ("framework_version", "linear", "graphs", "kernels", "thread_waiting")
"""Settings that usually follow from the framework."""


def _of_frameworks(table: Sequence[Result], difference: SettingsDifference) -> list[str]:
    """Return the settings that differ between frameworks only, which the column of frameworks stands for."""
    frameworks = {result.framework for result in table}
    names = []
    for name in _WITH_FRAMEWORK:
        values = difference.columns.get(name)
        if values is not None and len(
            {(one.framework, value) for one, value in zip(table, values, strict=True)}
        ) == len(frameworks):
            names.append(name)
    return names


def _figures(result: Result, speedup: float | None) -> dict[str, Any]:
    """Return the measured columns of a row. The speedup comes early: a table that is too wide has it in its first part."""
    required = result.runs_required
    several = result.to_target and result.runs_successful > 1
    row: dict[str, Any] = {
        "runs": result.runs_successful,
        "of": required if required and result.runs_successful < required else None,
        "failed": result.runs_failed or None,
        "seconds": result.seconds,
        "seconds_minimum": result.seconds_minimum if several else None,
        "seconds_maximum": result.seconds_maximum if several else None,
        "speedup": speedup,
    }
    row |= {f"seconds_{name}": value for name, value in (result.parts._asdict() if result.parts else {}).items()}
    row |= {name: getattr(result, name) for name in REPORTED}
    row |= {f"{clean(unit, 30)}_per_second": rate for unit, rate in (result.further_rates or {}).items()}
    if not result.to_target:
        row["data_wait_share"] = result.data_wait_share
    return row


_SMALL_PART = 0.02
"""Share of every time to target below which a part has no column."""


def _without_small_parts(table: DataTable) -> DataTable:
    """Return the table without columns for negligible parts. A negligible wait for data is added to training."""
    for name in ("seconds_data_wait", "seconds_other"):
        if name not in table:
            continue
        pairs = zip(table.values(name), table.values("seconds"), strict=True)
        if any(part is not None and whole and part >= _SMALL_PART * whole for part, whole in pairs):
            continue
        if name == "seconds_data_wait":
            parts = zip(table.values("seconds_training"), table.values(name), strict=True)
            training = [None if trained is None else trained + (waited or 0.0) for trained, waited in parts]
            table = table.with_column("seconds_training", training)
        table = table.without(name)
    return table


def _facts(
    table: Sequence[Result],
    difference: SettingsDifference,
    tables: Sequence[Sequence[Result]],
    shared: Sequence[str],
    verbose: bool,
) -> Iterator[tuple[str, str]]:
    """Yield the labeled lines above a table: the settings that all of its results have in common."""
    first = table[0]
    common = difference.common
    if first.to_target and "targets" in common:
        yield "Target", target_text(first.targets, first.workload) or "unknown"
    if "dataset" in common and first.dataset:
        yield "Data set", clean(first.dataset, 80)
    if first.profile and "device_name" in common:
        yield (
            "Device",
            clean(first.device_name.replace("core(s)", "core" if first.device_name.startswith("1 ") else "cores"), 80),
        )
    if first.batch_size_global and "batch_size_global" in common:
        yield "Batch", f"{first.batch_size_global:,} {clean(first.batch_unit or 'samples', 30)} over all devices"
    settings = _common_settings(first, difference, tables, verbose)
    if first.profile and first.to_target and "clock" in common and first.clock == "v0.5" and first.parts is not None:
        settings.insert(0, "clock of round v0.5, which starts before setup")
    if settings:
        yield "Settings", clean("; ".join(settings), 4000)
    remaining = [text for text in shared if text not in _DEMO_LABELS]
    if remaining:
        yield "Labels", clean(", ".join(remaining), 300)


def _common_settings(
    first: Result, difference: SettingsDifference, tables: Sequence[Sequence[Result]], verbose: bool
) -> list[str]:
    """Return the common settings of a table that are not at their defaults, as text.

    Hyperparameters are named if tables of the document have different values for the same workload.
    """
    related = [
        result
        for table in tables
        for result in table
        if (result.workload, result.profile) == (first.workload, first.profile) and result.hyperparameters
    ]
    differing = settings_difference(related).columns if first.profile and related else {}
    defaults = {item.name: item.default for item in fields(RunSettings)} | {"round": OURS, "precision": "fp32"}
    texts = []
    for name, value in difference.common.items():
        is_hyperparameter = name.partition(".")[0] == HYPERPARAMETERS
        if is_hyperparameter:
            is_named = verbose or name in differing
        elif name in _NAMED_ELSEWHERE:
            is_named = False
        elif name in _USUALLY_DEFAULT:
            is_named = verbose or name in differing
        else:
            is_named = bool(value) and value != defaults.get(name)
        if is_named and value not in (None, "", ()):
            prefix = "environment variable " if name.partition(".")[0] == ENVIRONMENT_VARIABLES else ""
            texts.append(f"{prefix}{label(name)} {value_text(name, value, first)}")
    return texts


def _notes(result: Result, deviations: Sequence[str], shared: Sequence[str]) -> list[str]:
    """Return the notes of a row: labels, deviations from the closed rules, and how the result was scored."""
    texts = [text for text in (*division(result), *labels(result)) if text not in shared]
    texts += [f"open division because: {text}" for text in result.deviations if text not in deviations]
    texts += [*result.score_notes, mean_text(result), result.note]
    return [text for text in texts if text]


def mean_text(result: Result) -> str:
    """Return which mean the figures of a result are: `olympic mean of 8 of 10 runs`; empty for a single run."""
    if not result.to_target or result.runs_successful < 2:
        return ""
    return f"{result.score_method} of {result.runs_retained} of {result.runs_successful} runs"


def _speedup_sentences(table: Sequence[Result], over: Mapping[str, Ratio]) -> list[str]:
    """Return the sentences on the speedups of a table: how much, what from, how sure."""
    compared = [result for result in table if result.key in over and over[result.key].value is not None]
    if not compared:
        return []
    frameworks = {result.framework for result in table}
    baselines = [over[result.key].before for result in compared]
    labels_of = distinct_labels(baselines, [over[result.key].places for result in compared], ("devices", "nodes"))
    sentences: list[str] = []
    flags: dict[str, list[str]] = {}
    for result, settings in zip(compared, labels_of, strict=True):
        speedup = over[result.key]
        name = ", ".join(filter(None, (title_of(result.framework) if len(frameworks) > 1 else "", settings)))
        prefix = f"{name}: " if name else ""
        sentences.append(" ".join((prefix + speedup_headline(speedup), *speedup_details(speedup))))
        for flag in speedup.flags:
            flags.setdefault(flag, []).append(f"{prefix}{speedup.places}")
    for flag, names in flags.items():
        where = f" ({'; '.join(names)})" if len(names) < len(compared) else ""
        sentences.append(f"{flag[:1].upper()}{flag[1:]}{where}.")
    if any(over[result.key].total is not None and over[result.key].setup is None for result in compared):
        sentences.append(NOT_SEPARATED)
    unsure = interval_sentence([over[result.key] for result in compared])
    return [*sentences, *([unsure] if unsure else [])]


def _disagreement_sentences(table: Sequence[Result]) -> list[str]:
    """Return the sentences on runs of the same experiment in several folders that disagree."""
    sentences = []
    for found in find_disagreements(table):
        result, parts = found.result, []
        for folder, seconds in found.seconds_by_folder.items():
            longest = max(seconds)
            times = (
                time_text(min(seconds), longest) if len(seconds) == 1 else range_text(min(seconds), longest, longest)
            )
            parts.append(f"{times} in {_relative(str(folder))}")
        why = (
            "more than the spread within a folder"
            if found.has_spread
            else "with one run per folder, the spread is unknown"
        )
        sentences.append(
            f"On {devices_text(result.devices or 0, result.nodes)} the runs disagree: {', '.join(parts)}. "
            f"Their times per epoch differ by {ratio_text(found.ratio)}× ({why}), so ratios of these results are not reliable."
        )
    return sentences


def _share_sentences(table: Sequence[Result]) -> list[str]:
    """Return how much of the time evaluation and waiting for data took, for tables without the parts of the time."""
    if any(result.parts is not None for result in table):
        return []
    sentences = []
    for name, text in (
        ("evaluation_share", "Evaluation took {} of the time of training and evaluation."),
        ("data_wait_share", "Waiting for data took {} of the training time."),
    ):
        shares = sorted(share for result in table if (share := getattr(result, name)))
        if shares:
            ends = dict.fromkeys((percent_text(shares[0]), percent_text(shares[-1])))
            sentences.append(text.format(" to ".join(ends)))
    return sentences


# --- runs without a result, and what to do next -------------------------------------------------------------------------


def _problem_sections(runs: Sequence[Run]) -> Iterator[Section]:
    """Yield the failed runs, the runs that have not ended, the copies, and the lines that could not be read."""
    failed = [run for run in runs if not (run.succeeded or run.running or run.copy_of)]
    running = [run for run in runs if run.running]
    for title, kind, listed in (
        (FAILED, SectionKind.FAILED_RUNS, failed), (NOT_ENDED, SectionKind.OTHER, running)
    ):  # fmt: skip
        if listed:
            table = DataTable.from_rows({"run": run.run, "status": run.status, "reason": run.reason} for run in listed)
            of = tuple((run,) for run in listed)
            yield Section(title, table=table, below=resuming_commands(listed), of=of, kind=kind)
    copies = [run for run in runs if run.copy_of]
    if copies:
        digests = {run.path: run.record.digest for run in runs if run.record is not None}
        lines = []
        for run in copies:
            relation = "a copy of" if digests[run.path] == digests[run.copy_of] else "an earlier state of"
            lines.append(f"{_relative(run.path)}: {relation} {_relative(run.copy_of)}")
        count = "1 log is a copy and does" if len(copies) == 1 else f"{len(copies)} logs are copies and do"
        yield Section("Copies", (f"{count} not count.",), below=_cut(lines, _MAX_FILES))
    problems = []
    for run in runs:
        texts = [clean(str(problem), 120) for problem in run.record.problems] if run.record is not None else []
        if texts:
            problems.append(f"{_relative(run.path)}: {'; '.join(_cut(texts, _MAX_PROBLEMS))}")
    if problems:
        yield Section("Problems in logs", below=_cut(problems, _MAX_FILES))


def _next_section(runs: Sequence[Run]) -> Iterator[Section]:
    """Yield the folder of the logs and the command that shows figures."""
    paths = [Path(run.path).absolute() for run in runs if run.path and run.round == OURS]
    if not paths:
        return
    folder = _relative(os.path.commonpath([path.parents[1] if len(path.parents) > 1 else path for path in paths]))
    if any(run.succeeded for run in runs):
        command = f"suite report {shlex.quote(folder)} --html report.html"
        yield Section("Next", (f"Logs: {folder}",), commands=(command,))


def _relative(path: str) -> str:
    """Return a path relative to the working directory if it lies below it, as clean text."""
    absolute = Path(path).absolute()
    here = Path.cwd()
    return clean(str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute), 400)


def _cut(texts: Sequence[str], most: int) -> tuple[str, ...]:
    more = (f"and {len(texts) - most} more",) if len(texts) > most else ()
    return (*texts[:most], *more)
