"""Overview of a report: a matrix of frameworks and devices, or systems and workloads.

Each speedup is the ratio of two cells of the same matrix. There is a separate matrix for each
profile, and for times to target and throughput. If a framework was measured on a system with
several settings, the matrix shows a single series and the number of omitted results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suite.common.labels import LabelKind
from suite.launch.registered_frameworks import title_of
from suite.results.columns import Result
from suite.results.combine import grouped
from suite.results.data_table import DataTable
from suite.results.directions import improves_as_it_falls
from suite.results.experiment_key import label, value_text
from suite.results.names import UNKNOWN_ROUND, accelerator_name, short_title
from suite.results.price import Prices
from suite.results.ratios import place, ratio
from suite.results.scores import figure, labels
from suite.results.series import Series, all_series
from suite.results.settings_difference import (
    NEVER_COMPARED_WITHOUT,
    distinct_labels,
    settings_difference,
)
from suite.results.text import clean, devices_text
from suite.results.views.section import (
    Section,
    SectionKind,
    target_and_data_facts,
    target_and_data_text,
)

PROFILES: Mapping[str, int] = {"reference": 0, "demo": 1, "synthetic": 2}
"""Profiles in the order in which documents list them."""


def order_of(result: Result) -> tuple[int, str, bool]:
    """Return a sort key of a result.

    Reference runs precede demos, and GPUs precede CPUs.
    """
    return PROFILES.get(result.profile, 3), result.profile, result.has_label(LabelKind.CPU)


def is_reference(result: Result) -> bool:
    """Check whether a figure with published results may also show a suite result."""
    return result.profile == "reference" and not result.has_label(LabelKind.CPU)


_MIN_ROWS = _MIN_COLUMNS = 2
"""Minimum number of rows and columns of a matrix. A smaller matrix would repeat the table of its
results.
"""

OVER_FEWEST = "Speedup over the fewest devices with the same settings"

OVER_SLOWEST = (
    "Ratio to the slowest result of the same workload, round, division, target, and number of"
    " devices in this matrix"
)


@dataclass(frozen=True)
class OverviewCell:
    """A cell of a matrix: a result with its row and column."""

    names: Mapping[str, Any]
    """Values of the columns that identify the row of the cell."""
    column: str
    result: Result
    ratio: float | None = None
    order: tuple[int, ...] = ()
    """Sort key of the column. Columns with equal keys are sorted by name."""
    detail: str = ""
    """Submitter of the result, or a differing setting, if the row does not show it."""


def overview(results: Sequence[Result], prices: Prices | None = None) -> list[Section]:
    """Return the overview matrices of a report.

    A matrix with fewer than two rows or two columns is omitted.
    """

    def kind(result: Result) -> tuple[Any, ...]:
        mode = "" if result.to_target else result.mode
        return (
            PROFILES.get(result.profile, 3),
            result.profile,
            not result.to_target,
            mode,
            result.update,
        )

    sections = []
    ours = grouped(
        (result for result in results if result.profile and figure(result) is not None), kind
    )
    for (_, profile, fixed_length, mode, update), members in sorted(ours.items()):
        several = len({result.workload for result in members}) > 1
        cells = _over_workloads(members) if several else _over_devices(members)
        title = f"Overview: {f'throughput ({mode})' if fixed_length else 'time to target'}"
        title += ", asynchronous updates" if update == "async" else ""
        title += f", {profile}"
        title += "" if several else f", {short_title(members[0].workload)}"
        sections += overview_matrix(
            title, cells, prices, OVER_FEWEST, left_out=len(members) - len(cells)
        )
    theirs = [
        result for result in results if not result.profile and result.to_target and result.seconds
    ]
    cells, title = _of_other_programs(theirs), "Overview: foreign logs"
    return sections + overview_matrix(
        title, cells, prices, OVER_SLOWEST, left_out=len(theirs) - len(cells)
    )


def chosen(candidates: Sequence[Series[Result]]) -> Series[Result]:
    """Return one series that represents several series.

    The chosen series has the hardest target. Among several such series, the series with the most
    runs is chosen, and then the series with the most device counts.

    Speed is the last criterion, because otherwise a series with an easier target would be chosen.
    """

    def rank(series: Series[Result]) -> tuple[Any, ...]:
        best = min(
            (result.seconds or 0.0) if result.to_target else -(result.samples_per_second or 0.0)
            for result in series
        )
        return (
            target_difficulty(series.fewest),
            sum(len(result.runs) for result in series),
            len(series),
            -best,
        )

    return max(candidates, key=rank)


def target_difficulty(result: Result) -> tuple[float, ...]:
    """Return a sort key for the difficulty of a result's targets.

    The key contains the target of each metric in order of metric names. Targets of metrics that
    improve as they fall are negated, so that a higher value always means a harder target.
    """
    values = []
    for metric, value in sorted((result.targets or {}).items()):
        values.append(
            -float(value)
            if improves_as_it_falls(metric, result.workload, result.falling_metrics)
            else float(value)
        )
    return tuple(values)


def place_of(result: Result) -> tuple[str, str, str]:
    """Return the framework, the system, and the device of a result.

    Results of a workload with equal framework, system, and device differ only in settings.
    """
    return result.framework, result.system, result.device_name or result.device


def device_text(name: str) -> str:
    """Return the display name of a device.

    Example: `1 core of AMD EPYC` for `1 core(s) of AMD EPYC`.
    """
    return clean(name.replace("core(s)", "core" if name.startswith("1 ") else "cores"), 80)


def several_nodes(result: Result) -> int | None:
    """Return the number of nodes of a result, or None for a single node."""
    return result.nodes if (result.nodes or 1) > 1 else None


def _names(result: Result) -> dict[str, Any]:
    framework, system, device = place_of(result)
    return {"framework": title_of(framework), "system": system, "device_name": device}


def _over_devices(results: Sequence[Result]) -> list[OverviewCell]:
    """Return the cells of a workload.

    The rows are series and the columns are device counts.
    """
    listed = all_series(results)
    firsts = [series.fewest for series in listed]
    targets = [
        value_text("targets", result.targets, result) if result.to_target else ""
        for result in firsts
    ]
    names = [(*place_of(result), target) for result, target in zip(firsts, targets, strict=True)]
    settings = distinct_labels(firsts, names, ("devices", "nodes"))
    cells = []
    for series, target, text in zip(listed, targets, settings, strict=True):
        for result in series:
            row = {**_names(result), "target": target, "settings": text}
            column, order = devices_text(*place(result)), place(result)
            cells.append(OverviewCell(row, column, result, _speedup(series, result), order))
    return cells


def _over_workloads(results: Sequence[Result]) -> list[OverviewCell]:
    """Return the cells of several workloads.

    The cells contain the chosen series for each framework, system, and device.
    """
    places = grouped(
        all_series(results), lambda series: (*place_of(series.fewest), series.fewest.workload)
    )
    shown, cells = [chosen(members) for members in places.values()], []
    for alike in grouped(shown, lambda series: series.fewest.workload).values():
        pairs = [(result, series) for series in alike for result in series]
        differing = settings_difference([result for result, _ in pairs]).only(
            NEVER_COMPARED_WITHOUT
        )
        for (result, series), text in zip(
            pairs, differing.without(_batch_per_device(pairs)).labels(), strict=True
        ):
            unit = "" if result.to_target else f" in {result.sample_unit or 'samples'}/s"
            row = {**_names(result), "devices": result.devices, "nodes": several_nodes(result)}
            column = short_title(result.workload) + unit
            cells.append(OverviewCell(row, column, result, _speedup(series, result), detail=text))
    return cells


def _batch_per_device(pairs: Sequence[tuple[Result, Series[Result]]]) -> tuple[str, ...]:
    """Return the name of the batch setting if the batch size follows from the devices.

    The setting is then omitted, because the row already contains the number of devices.
    """
    batches = {(result.devices, result.global_batch_size) for result, _ in pairs}
    devices = {result.devices for result, _ in pairs}
    return ("global_batch_size",) if len(batches) == len(devices) else ()


def _speedup(series: Series[Result], result: Result) -> float | None:
    speedup = series.speedup(result)
    return None if speedup is None else speedup.value


def _of_other_programs(results: Sequence[Result]) -> list[OverviewCell]:
    """Return the cells for logs of other programs.

    If several systems have the same name in their logs, the names of their folders are added.
    """

    def names(result: Result) -> tuple[Any, ...]:
        accelerator = accelerator_name(result.device_name)
        return (
            result.round,
            result.system,
            accelerator,
            result.framework,
            result.devices,
            several_nodes(result),
        )

    keys, cells = ("round", "system", "accelerator", "framework", "devices", "nodes"), []
    for named, alike in grouped(results, names).items():
        folders = grouped(alike, lambda result: str(Path(result.folder).parent))
        for folder, members in folders.items():
            row = {
                **dict(zip(keys, named, strict=True)),
                "folder": folder if len(folders) > 1 else "",
            }
            for workload, of_workload in grouped(members, lambda result: result.workload).items():
                result = chosen([Series((result,)) for result in of_workload]).fewest
                cells.append(OverviewCell(row, short_title(workload), result))
    return against_slowest(cells)


def against_slowest(cells: Sequence[OverviewCell]) -> list[OverviewCell]:
    """Add the ratio to the slowest comparable result to each cell.

    A result with an unknown number of devices or an unknown round has no ratio.
    """

    def kind(result: Result) -> tuple[Any, ...]:
        targets = tuple(sorted((result.targets or {}).items()))
        return result.workload, result.round, result.division == "open", result.devices, targets

    alike = grouped((cell.result for cell in cells), kind)
    slowest = {
        key: max(members, key=lambda result: result.seconds or 0.0)
        for key, members in alike.items()
    }
    compared = []
    for cell in cells:
        result, base = cell.result, slowest[kind(cell.result)]
        if result.devices and result.round != UNKNOWN_ROUND and result.key != base.key:
            cell = replace(cell, ratio=ratio(base, result, intervals=False).value)
        compared.append(cell)
    return compared


def overview_matrix(
    title: str,
    cells: Sequence[OverviewCell],
    prices: Prices | None,
    over: str,
    below: tuple[str, ...] = (),
    left_out: int = 0,
    smallest: bool = False,
) -> list[Section]:
    """Return a table of times or rates, and tables of ratios and costs if there are any.

    Args:
        title: Heading of the first table.
        cells: The cells of the matrix.
        prices: Prices of devices.
        over: Description of the ratios, for the line above the table of ratios.
        below: Sentences below the first table.
        left_out: Number of results that the matrix does not show.
        smallest: True to include a matrix with fewer than two rows or two columns.
    """
    if not cells:
        return []
    values = {name: {cell.names[name] for cell in cells} for name in cells[0].names}
    kept = [name for name in values if len(values[name]) > 1] or list(values)[:1]
    rows = {tuple(cell.names[name] for name in kept) for cell in cells}
    columns = {cell.column for cell in cells}
    if not smallest and (len(rows) < _MIN_ROWS or len(columns) < _MIN_COLUMNS):
        return []
    common = [
        name for name in values if name not in (*kept, "target") and values[name] - {"", None}
    ]
    facts = [
        (_capitalized(label(name)), device_text(str(next(iter(values[name]))))) for name in common
    ]
    pieces: list[tuple[str, tuple[Result, ...]]] = [(f"{name}: {text}", ()) for name, text in facts]
    of_workloads = grouped((cell.result for cell in cells), lambda result: result.workload)
    for workload, members in of_workloads.items():
        several = len(of_workloads) > 1
        facts += (
            [(short_title(workload), target_and_data_text(members))]
            if several
            else target_and_data_facts(members)
        )
        prefix = f"{short_title(workload)}: " if several else ""
        alike = grouped(members, lambda result: target_and_data_text([result]))
        pieces += [(f"{prefix}{text}", tuple(of)) for text, of in alike.items()]
    first = cells[0].result
    unit = "" if first.to_target else f"{first.sample_unit or 'samples'}/s"
    if unit and not any(unit in cell.column for cell in cells):
        facts.append(("Unit", unit))
        pieces.append((f"Unit: {unit}", ()))
    shared = sorted(set.intersection(*(set(_stated(cell.result)) for cell in cells)))
    if shared:
        facts.append(("All results", ", ".join(shared)))
        pieces.append((f"All results: {', '.join(shared)}", ()))
    if left_out:
        noun = (
            "result with other settings is" if left_out == 1 else "results with other settings are"
        )
        below += (f"{left_out} further {noun} in the tables below.",)
    costs = [None if prices is None else prices.cost(cell.result) for cell in cells]
    kind = "seconds" if first.to_target else "samples_per_second"
    tables = (
        (title, "", kind, [figure(cell.result) for cell in cells]),
        ("", f"{over}:", "speedup", [cell.ratio for cell in cells]),
        (
            "",
            "Cost of one result (devices × hours to target × price of one device for one hour):",
            "cost",
            costs,
        ),
    )
    sections = []
    for heading, text, ending, numbers in tables:
        known_cells = [
            (cell, number)
            for cell, number in zip(cells, numbers, strict=True)
            if number is not None
        ]
        if known_cells:
            lines = list(_table(known_cells, kept, ending, shared))
            of = tuple(line.pop("of") for line in lines)
            above = (text,) if text else ()
            section_kind = (
                SectionKind.OVERVIEW_SPEEDUPS if ending == "speedup" else SectionKind.OTHER
            )
            table = DataTable.from_rows(lines)
            sections.append(
                Section(heading, above, table, keys=len(kept), of=of, kind=section_kind)
            )
    if sections:
        sections[0] = replace(
            sections[0], below=below, facts=tuple(facts[:_MAX_FACTS]), pieces=tuple(pieces)
        )
    return sections


_MAX_FACTS = 6


def _capitalized(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _table(
    known_cells: Sequence[tuple[OverviewCell, float]],
    kept: Sequence[str],
    ending: str,
    shared: Sequence[str],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a matrix: names, a number for each column, notes, and results."""
    columns = [name for _, name in sorted({(cell.order, cell.column) for cell, _ in known_cells})]
    members_by_names = grouped(
        known_cells, lambda pair: tuple(pair[0].names[name] for name in kept)
    )
    for names, members in sorted(
        members_by_names.items(), key=lambda item: [_sortable(value) for value in item[0]]
    ):
        shown = {cell.column: number for cell, number in members}
        notes = tuple(_notes([cell for cell, _ in members], shared)) if ending != "cost" else ()
        row = dict(zip(kept, names, strict=True))
        numbers = {f"{name}, {ending}": shown.get(name) for name in columns}
        yield {**row, **numbers, "notes": notes, "of": tuple(cell.result for cell, _ in members)}


def _notes(members: Sequence[OverviewCell], shared: Sequence[str]) -> list[str]:
    """Return the notes of a row.

    A note on a single cell begins with the name of the cell's column.
    """
    every = []
    for cell in members:
        every.append(
            [text for text in (*_stated(cell.result), cell.detail) if text and text not in shared]
        )
    if all(texts == every[0] for texts in every):
        return every[0]
    return [
        f"{cell.column}: {', '.join(texts)}"
        for cell, texts in zip(members, every, strict=True)
        if texts
    ]


def _stated(result: Result) -> tuple[str, ...]:
    """Return the labels of a result, and the numbers of its missing and failed runs."""
    texts = (*(("published",) if result.published else ()), *division(result))
    required, done = result.runs_required, result.runs_successful
    if result.published and result.runs_failed:
        texts += (f"{result.runs_failed} of {required} runs failed",)
    elif required is not None and done < required:
        failed = f", {result.runs_failed} failed" if result.runs_failed else ""
        texts += (f"{done} of {required} runs{failed}",)
    return (*texts, *labels(result))


def division(result: Result) -> tuple[str, ...]:
    """Return the label for an open-division result of another submitter.

    The tuple is empty for all other results.
    """
    return ("open division",) if result.division == "open" and not result.profile else ()


def _sortable(value: Any) -> tuple[float, str]:
    """Return a sort key.

    None precedes numbers, which are sorted by size. Text follows in alphabetical order.
    """
    return (
        (float(value), "") if isinstance(value, (int, float)) else (-1.0, str(value or "").lower())
    )
