"""The overview that stands first: a matrix of frameworks over numbers of devices, or of systems over workloads.

Each row is told from the others, and each ratio is between two cells that stand there. Profiles never share a matrix, nor do
times to target and throughput of runs of fixed length. Where a place was measured with several settings it shows one series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suite.results.columns import Result
from suite.results.combine import grouped
from suite.results.data_table import DataTable
from suite.results.directions import improves_as_it_falls
from suite.results.identity import distinguishing_words, label, value_text, weighty_words
from suite.results.names import UNKNOWN_ROUND, accelerator_name
from suite.results.price import Prices
from suite.results.published import ARTICLE
from suite.results.ratios import place, ratio
from suite.results.scores import figure, labels
from suite.results.series import Series, all_series
from suite.results.text import devices_text
from suite.results.views.section import Section, aim_text

PROFILES: Mapping[str, int] = {"reference": 0, "demo": 1, "synthetic": 2}
"""Their order in documents."""


def order_of(row: Result) -> tuple[int, str, bool]:
    """Reference runs stand before demos, on GPUs before those on CPUs."""
    return PROFILES.get(row.profile, 3), row.profile, "cpu" in row.labels


def is_reference(row: Result) -> bool:
    """Whether a result of ours may stand on one pair of axes with published ones."""
    return row.profile == "reference" and "cpu" not in row.labels


_USUAL_COUNT = 8
"""Accelerators of one node: what published results are compared on if nothing else was chosen."""
OVER_FEWEST = "Speedup over the fewest devices of the same settings"
_OVER_SLOWEST = "Times as fast as the slowest here of the same workload, round, division, target and number of devices"


@dataclass(frozen=True)
class OverviewCell:
    """A result at its place."""

    names: Mapping[str, Any]
    """Columns that name its row."""
    column: str
    row: Result
    ratio: float | None = None
    order: tuple[int, ...] = ()
    """Of its column, before the name."""
    detail: str = ""
    """Whose result it is or what differs, where its row does not say so."""


def overview(results: Sequence[Result], prices: Prices | None = None) -> list[Section]:
    """The matrices of a report; none for fewer than two results, which need no overview."""

    def kind(row: Result) -> tuple[Any, ...]:
        mode = "" if row.to_target else row.mode
        return PROFILES.get(row.profile, 3), row.profile, not row.to_target, mode, row.update

    rows = []
    ours = grouped((row for row in results if row.profile and figure(row) is not None), kind)
    for (_, profile, fixed_length, mode, update), members in sorted(ours.items()):
        title = f"Overview: {f'throughput ({mode})' if fixed_length else 'time to target'}"
        title += f"{', asynchronous updates' if update == 'async' else ''}, {profile}"
        several = len({row.workload for row in members}) > 1
        cells = _over_workloads(members) if several else _over_devices(members)
        title += "" if several else f", {members[0].workload}"
        rows += _matrix(title, cells, prices, OVER_FEWEST, left_out=len(members) - len(cells))
    theirs = [row for row in results if not row.profile and row.to_target and row.seconds]
    cells, title = _of_others(theirs), "Overview: logs of other programs"
    return rows + _matrix(title, cells, prices, _OVER_SLOWEST, left_out=len(theirs) - len(cells))


def chosen(candidates: Sequence[Series[Result]]) -> Series[Result]:
    """Return the series that represents several: the hardest target, then the most runs, then the most numbers of devices.

    Speed decides last, because an easier target would win otherwise.
    """

    def rank(series: Series[Result]) -> tuple[Any, ...]:
        best = min((row.seconds or 0.0) if row.to_target else -(row.samples_per_second or 0.0) for row in series)
        return hardness(series.fewest), sum(len(row.runs) for row in series), len(series), -best

    return max(candidates, key=rank)


def hardness(row: Result) -> tuple[float, ...]:
    """Return the target values, in order of metrics, negative where less is better: higher for a harder target."""
    targets = sorted((row.targets or {}).items())
    falls = [improves_as_it_falls(metric, row.workload) for metric, _ in targets]
    return tuple(-float(value) if falling else float(value) for falling, (_, value) in zip(falls, targets, strict=True))


def place_of(row: Result) -> tuple[str, str, str]:
    """Where results of one workload are comparable but for their settings."""
    return row.framework, row.system, row.device_name or row.device


def several_nodes(row: Result) -> int | None:
    """The number of nodes, where there are several."""
    return row.nodes if (row.nodes or 1) > 1 else None


def _names(row: Result) -> dict[str, Any]:
    return dict(zip(("framework", "system", "device_name"), place_of(row), strict=True))


def _over_devices(results: Sequence[Result]) -> list[OverviewCell]:
    """Of one workload: a row for each series, so that nothing is left out."""
    listed = all_series(results)
    firsts = [series.fewest for series in listed]
    targets = [value_text("targets", row.targets, row) if row.to_target else "" for row in firsts]
    look = [(*place_of(row), target) for row, target in zip(firsts, targets, strict=True)]
    words = distinguishing_words(firsts, look, ("devices", "nodes"))
    cells = []
    for series, target, text in zip(listed, targets, words, strict=True):
        for row in series:
            names = {**_names(row), "target": target, "differs in": text}
            cells.append(OverviewCell(names, devices_text(*place(row)), row, _speedup(series, row), place(row)))
    return cells


def _over_workloads(results: Sequence[Result]) -> list[OverviewCell]:
    """Of several workloads: the chosen series of each place."""
    places = grouped(all_series(results), lambda series: (*place_of(series.fewest), series.fewest.workload))
    shown, cells = [chosen(members) for members in places.values()], []
    for alike in grouped(shown, lambda series: series.fewest.workload).values():
        rows = [(row, series) for series in alike for row in series]
        words = weighty_words([row for row, _ in rows], [""] * len(rows))
        for (row, series), text in zip(rows, words, strict=True):
            unit = "" if row.to_target else f" in {row.sample_unit or 'samples'}/s"
            names = {**_names(row), "devices": row.devices, "nodes": several_nodes(row)}
            cells.append(OverviewCell(names, row.workload + unit, row, _speedup(series, row), detail=text))
    return cells


def _speedup(series: Series[Result], row: Result) -> float | None:
    speedup = series.speedup(row)
    return None if speedup is None else speedup.value


def _of_others(results: Sequence[Result]) -> list[OverviewCell]:
    """Logs of other programs; the folders of systems that log one name stand beside it."""

    def names(row: Result) -> tuple[Any, ...]:
        accelerator = accelerator_name(row.device_name)
        return row.round, row.system, accelerator, row.framework, row.devices, several_nodes(row)

    keys, cells = ("round", "system", "accelerator", "framework", "devices", "nodes"), []
    for named, alike in grouped(results, names).items():
        folders = grouped(alike, lambda row: str(Path(row.folder).parent))
        for folder, members in folders.items():
            shown = {**dict(zip(keys, named, strict=True)), "folder": folder if len(folders) > 1 else ""}
            for workload, rows in grouped(members, lambda row: row.workload).items():
                cells.append(OverviewCell(shown, workload, chosen([Series((row,)) for row in rows]).fewest))
    return _against_slowest(cells)


# --- published results --------------------------------------------------------------------------------------------------


def published_overview(results: Sequence[Result], prices: Prices | None = None) -> list[Section]:
    """The fastest result of each kind of accelerator in each round, on eight of them (else on the number that most have).

    One of the open division stands there only where there is none of the closed one.
    """
    timed = [row for row in results if row.to_target and row.seconds and row.devices and row.round != ARTICLE]
    kinds = {
        count: len({(row.round, accelerator_name(row.device_name)) for row in alike})
        for count, alike in grouped(timed, lambda row: row.devices).items()
    }
    if not kinds:
        return []
    most = max(kinds, key=lambda devices: (kinds[devices], -devices))
    count = _USUAL_COUNT if kinds.get(_USUAL_COUNT, 0) > 1 else most
    best = grouped(
        sorted((row for row in timed if row.devices == count), key=lambda row: (row.division == "open", row.seconds)),
        lambda row: (row.round, accelerator_name(row.device_name), row.workload),
    )
    cells = [
        OverviewCell({"round": round, "accelerator": kind}, workload, row, detail=f"{row.submitter} {row.system}")
        for (round, kind, workload), (row, *_) in best.items()
    ]
    title = f"At a glance: the fastest published result of each accelerator, {count} of them"
    rounds = ("Rounds differ in targets and rules: compare within one.",)
    return _matrix(title, _against_slowest(cells), prices, _OVER_SLOWEST, rounds)


def _against_slowest(cells: Sequence[OverviewCell]) -> list[OverviewCell]:
    """With how many times as fast each is as the slowest of its kind; none where size or round is not known."""

    def kind(row: Result) -> tuple[Any, ...]:
        return row.workload, row.round, row.division == "open", row.devices, tuple(sorted((row.targets or {}).items()))

    def known(row: Result) -> bool:
        return bool(row.devices) and row.round != UNKNOWN_ROUND

    alike = grouped((cell.row for cell in cells), kind)
    slowest = {one: max(members, key=lambda row: row.seconds or 0.0) for one, members in alike.items()}
    return [
        replace(cell, ratio=_times_as_fast(slowest[kind(cell.row)], cell.row)) if known(cell.row) else cell
        for cell in cells
    ]


def _times_as_fast(slowest: Result, row: Result) -> float | None:
    return None if row is slowest else ratio(slowest, row, intervals=False).value


# --- the matrix ---------------------------------------------------------------------------------------------------------


def _matrix(
    title: str,
    cells: Sequence[OverviewCell],
    prices: Prices | None,
    over: str,
    below: tuple[str, ...] = (),
    left_out: int = 0,
) -> list[Section]:
    """Times or rates, a row for each of the cells' names; where there are any, ratios and costs as tables of their own."""
    if len(cells) < 2:
        return []
    values = {name: {cell.names[name] for cell in cells} for name in cells[0].names}
    kept = [name for name in values if len(values[name]) > 1] or list(values)[:1]
    single = [name for name in values if name not in (*kept, "target") and values[name] - {"", None}]
    same = [f"{label(name)} {values[name].pop()}" for name in single]
    of_workloads = grouped((cell.row for cell in cells), lambda row: row.workload)
    aims = {name: aim_text(of) for name, of in of_workloads.items()}
    pieces: list[tuple[str, tuple[Result, ...]]] = [(text, ()) for text in same]
    for name, rows_of in of_workloads.items():
        told = grouped(rows_of, lambda row: aim_text([row]))
        pieces += [(f"{name}: {text}" if len(aims) > 1 else text, tuple(of)) for text, of in told.items()]
    same += [f"{name}: {text}" if len(aims) > 1 else text for name, text in aims.items()]
    shared = sorted(set.intersection(*(set(_said(cell.row)) for cell in cells)))
    unit = "" if cells[0].row.to_target else f"{cells[0].row.sample_unit or 'samples'}/s"
    of_all = [unit] if unit and not any(unit in cell.column for cell in cells) else []
    of_all += [f"every result: {', '.join(shared)}"] if shared else []
    above, pieces = " · ".join([*same, *of_all]), [*pieces, *((text, ()) for text in of_all)]
    words = "result with other settings stands" if left_out == 1 else "results with other settings stand"
    below += (f"{left_out} further {words} below.",) if left_out else ()
    kind = "seconds" if cells[0].row.to_target else "samples_per_second"
    costs = [None if prices is None else prices.cost(cell.row) for cell in cells]
    tables = (
        (title, above, kind, [figure(cell.row) for cell in cells]),
        ("", f"{over}:", "speedup", [cell.ratio for cell in cells]),
        ("", "Cost of one result, devices × hours to target × price of a device for an hour:", "cost", costs),
    )
    rows = []
    for heading, text, ending, numbers in tables:
        known = [(cell, number) for cell, number in zip(cells, numbers, strict=True) if number is not None]
        if known:
            lines = list(_table(known, kept, ending, shared))
            of = tuple(line.pop("of") for line in lines)
            rows.append(Section(heading, (text,), DataTable.from_rows(lines), keys=len(kept), of=of))
    if rows:
        rows[0] = replace(rows[0], below=below, pieces=tuple(pieces))
    return rows


def _table(
    known: Sequence[tuple[OverviewCell, float]], kept: Sequence[str], ending: str, shared: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """A mapping for each row: its names, a number in each column that has one, what must be said with them."""
    columns = [name for _, name in sorted({(cell.order, cell.column) for cell, _ in known})]
    members_by_names = grouped(known, lambda pair: tuple(pair[0].names[name] for name in kept))
    for names, members in sorted(members_by_names.items(), key=lambda item: [_sortable(value) for value in item[0]]):
        shown = {cell.column: number for cell, number in members}
        notes = tuple(_notes([cell for cell, _ in members], shared)) if ending != "cost" else ()
        row = dict(zip(kept, names, strict=True))
        numbers = {f"{name}, {ending}": shown.get(name) for name in columns}
        yield {**row, **numbers, "notes": notes, "of": tuple(cell.row for cell, _ in members)}


def _notes(members: Sequence[OverviewCell], shared: Sequence[str]) -> list[str]:
    """What must be said with the cells of a row; of single cells with the name of the column."""
    every = [[text for text in (*_said(cell.row), cell.detail) if text and text not in shared] for cell in members]
    if all(texts == every[0] for texts in every):
        return every[0]
    return [f"{cell.column}: {', '.join(texts)}" for cell, texts in zip(members, every, strict=True) if texts]


def _said(row: Result) -> tuple[str, ...]:
    """The labels of a result, and which of its runs are missing."""
    words = (*(("published",) if row.published else ()), *division(row))
    required, done = row.runs_required, row.runs_successful
    if row.published and row.runs_failed:
        words += (f"{row.runs_failed} of {required} runs failed",)
    elif required is not None and done < required:
        words += (f"{done} of {required} runs" + (f", {row.runs_failed} failed" if row.runs_failed else ""),)
    return (*words, *labels(row))


def division(row: Result) -> tuple[str, ...]:
    """The label of the open division, of results of others."""
    return ("open division",) if row.division == "open" and not row.profile else ()


def _sortable(value: Any) -> tuple[float, str]:
    """Numbers by their size, texts by their letters, what is not known first."""
    return (float(value), "") if isinstance(value, (int, float)) else (-1.0, str(value or "").lower())
