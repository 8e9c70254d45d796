"""The overview that stands first in a report: a matrix of systems and workloads, or of frameworks and devices.

Each cell is the best result of its place with its speedup, its cost where a price is given, and its trust labels. Profiles
never share a matrix, nor do times to target, and throughput of runs of fixed length in each mode, nor asynchronous updates
and others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from suite.results.names import accelerator_name
from suite.results.published.csv_files import ARTICLE
from suite.results.report.tables import DASH, rate_text, runs_text
from suite.results.score.bootstrap import MINIMUM_RUNS
from suite.results.score.groups import Row
from suite.results.score.measurement import Measurement, by_family, measurements
from suite.results.score.price import Prices, cost_text
from suite.results.text import clean, devices_text, placed_text, time_text

_PROFILES: Mapping[str, int] = {"reference": 0, "demo": 1, "synthetic": 2}
_USUAL_COUNT = 8
"""Accelerators of one node: what published results are compared on if nothing else was chosen."""
_OURS = "× = speedup over the fewest devices of the same framework."
_CHANCE = f"× of times to target holds chance where a result has fewer than {MINIMUM_RUNS} runs: their epochs vary."
_THEIRS = (
    "× = times as fast as the slowest result shown of the same workload, round, division, target and number of "
    "accelerators."
)
_ARTICLE_NOTE = "× = speedup over the fewest devices."


@dataclass(frozen=True)
class Result:
    """A measurement with its speedup and what must be said with it."""

    measurement: Measurement
    speedup: float | None
    labels: tuple[str, ...]

    @property
    def rank(self) -> float:
        """Lower is better: seconds to target, or the negative rate."""
        score = self.measurement.score
        return score.seconds if score.seconds is not None else -(score.samples_per_second or 0.0)


@dataclass(frozen=True)
class Cell:
    """The best result of a place in the matrix, as plain text."""

    value: str
    """`4.6 s`, `20.41 min`, `1,250 images/s`."""
    speedup: str
    """`×1.92`; empty where nothing is compared."""
    cost: str
    labels: tuple[str, ...]
    """Those that not every cell of the matrix has."""
    detail: str = ""
    """Whose result it is, where the row does not say so."""


@dataclass(frozen=True)
class Matrix:
    """An overview as plain text: nothing in it is escaped yet."""

    title: str
    names: tuple[str, ...]
    """Headings of the columns that name a row."""
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[Cell | None, ...]], ...]
    """(names, cells) of each row."""
    constants: tuple[str, ...]
    """What is the same in all rows."""
    labels: tuple[str, ...]
    """The labels of every cell."""
    footer: tuple[str, ...]


Namer = Callable[[Measurement], tuple[str, ...]]


# --- our runs and logs of other programs --------------------------------------------------------------------------------


def overview(rows: Sequence[Row], prices: Prices | None = None) -> list[Matrix]:
    """The matrices of the rows of a report; none for fewer than two results, which need no overview."""
    kept = [(row, item) for row in rows for item in measurements([row])]
    ours: dict[tuple[int, str, bool, str, bool], list[Result]] = {}
    for row, item in kept:
        if row.group.profile and (item.to_target or item.score.samples_per_second):
            mode = "" if item.to_target else row.group.mode
            key = (_PROFILES.get(item.profile, 3), item.profile, not item.to_target, mode, row.group.asynchronous)
            ours.setdefault(key, []).append(_our_result(row, item))
    foreign = [Result(item, None, (*_division(item), *_incomplete(row))) for row, item in kept if not row.group.profile]
    matrices = []
    for (_, profile, fixed_length, mode, asynchronous), members in sorted(ours.items()):
        what = f"throughput ({clean(mode, 40)})" if fixed_length else "time to target"
        what += ", asynchronous updates" if asynchronous else ""
        notes = (_OURS, _CHANCE) if any(map(_by_chance, members)) else (_OURS,)
        matrices.append(_ours_matrix(f"Overview: {what}, {clean(profile, 40)}", members, prices, notes))
    if foreign:
        columns = ("round", "system", "accelerator", "devices")
        timed = _against_slowest([one for one in foreign if one.measurement.to_target])
        matrices.append(_matrix("Overview: logs of other programs", timed, columns, _system_names, prices, (_THEIRS,)))
    return [matrix for matrix in matrices if sum(cell is not None for _, cells in matrix.rows for cell in cells) > 1]


def _our_result(row: Row, item: Measurement) -> Result:
    speedup = row.compared
    ratio = (speedup.total if item.to_target else speedup.throughput) if speedup is not None else None
    across = ("across nodes",) if speedup is not None and speedup.baseline_nodes != item.nodes else ()
    return Result(item, ratio, (*row.labels, *across, *_incomplete(row)))


def _incomplete(row: Row) -> tuple[str, ...]:
    """`runs: 3 of 5` for a result with fewer successful runs than the rules ask."""
    required = row.score.runs_required
    if required is None or row.score.runs_successful >= required:
        return ()
    return (f"runs: {runs_text(row)}",)


def _by_chance(one: Result) -> bool:
    """True for a speedup to a target of too few runs to say whether devices change the number of epochs."""
    item = one.measurement
    return one.speedup is not None and item.to_target and len(item.runs) < MINIMUM_RUNS


def _ours_matrix(title: str, results: Sequence[Result], prices: Prices | None, notes: Sequence[str]) -> Matrix:
    workloads = {one.measurement.workload for one in results}
    names = ("framework", "system", "device", "devices")
    if len(workloads) > 1:
        return _matrix(title, results, names, _our_names, prices, notes)
    title += f", {clean(next(iter(workloads), ''), 40)}"
    return _matrix(title, results, names[:3], lambda item: _our_names(item)[:3], prices, notes, by_devices=True)


def _our_names(item: Measurement) -> tuple[str, ...]:
    return item.framework, item.system, item.hardware, placed_text(item.devices, item.nodes)


def _system_names(item: Measurement) -> tuple[str, ...]:
    return item.rules, item.system, accelerator_name(item.hardware), str(item.devices)


# --- published results --------------------------------------------------------------------------------------------------


def published_overview(items: Sequence[Measurement], prices: Prices | None = None) -> list[Matrix]:
    """First the kinds of accelerator beside each other on one number of them, then all systems of each round."""
    return [*published_glance(items, prices), *_rounds(items, prices)]


def published_glance(items: Sequence[Measurement], prices: Prices | None = None) -> list[Matrix]:
    """The fastest result of each kind of accelerator in each round, on eight of them (else on the number that most have).

    One of the open division stands there only where there is none of the closed one.
    """
    timed = [Result(item, None, ()) for item in items if item.to_target and item.devices > 0 and item.origin != ARTICLE]
    kinds: dict[int, set[tuple[str, str]]] = {}
    for one in timed:
        item = one.measurement
        kinds.setdefault(item.devices, set()).add((item.origin, accelerator_name(item.hardware)))
    if not kinds:
        return []
    usual = len(kinds.get(_USUAL_COUNT, ())) > 1
    count = _USUAL_COUNT if usual else max(kinds, key=lambda devices: (len(kinds[devices]), -devices))
    if len(kinds[count]) < 2:
        return []
    best: dict[tuple[str, str, str], Result] = {}
    for one in sorted(timed, key=lambda one: (one.measurement.in_open_division, one.rank), reverse=True):
        item = one.measurement
        if item.devices == count:
            best[item.origin, accelerator_name(item.hardware), item.workload] = one
    chosen = [replace(one, labels=_published_labels(one)) for one in _against_slowest(list(best.values()))]
    found = _matrix(
        f"At a glance: the fastest published result of each accelerator, {count} of them",
        chosen,
        ("round", "accelerator"),
        lambda item: (item.origin, accelerator_name(item.hardware)),
        prices,
        (_THEIRS, "Rounds differ in targets and rules: compare within one."),
        detail=lambda item: f"{item.submitter} {item.system}",
    )
    return [found]


def _rounds(items: Sequence[Measurement], prices: Prices | None) -> Iterator[Matrix]:
    names = ("accelerators", "accelerator", "submitter", "system")
    for origin in sorted({item.origin for item in items}, key=lambda name: (name == ARTICLE, name)):
        members = [Result(item, None, ()) for item in items if item.origin == origin and item.to_target]
        scaled = _against_fewest(members) if origin == ARTICLE else _against_slowest(members)
        labelled = [replace(one, labels=_published_labels(one)) for one in scaled]
        if labelled:
            note = _ARTICLE_NOTE if origin == ARTICLE else _THEIRS
            yield _matrix(
                f"Published results of {clean(origin, 40)}: every system",
                labelled,
                names,
                _published_names,
                prices,
                (note,),
            )


def _published_names(item: Measurement) -> tuple[str, ...]:
    return str(item.devices), item.hardware, item.submitter, item.system


def _published_labels(one: Result) -> tuple[str, ...]:
    item, score = one.measurement, one.measurement.score
    failed = (f"{score.runs_failed} of {score.runs_required} runs failed",) if score.runs_failed else ()
    return ("published", *item.labels, *_division(item), *failed)


def _division(item: Measurement) -> tuple[str, ...]:
    """The label of the open division."""
    return ("open division",) if item.in_open_division else ()


# --- what a cell is compared with ---------------------------------------------------------------------------------------


def _against_slowest(results: Sequence[Result]) -> list[Result]:
    """With how many times as fast as the slowest of the same workload, round, target and number of devices.

    Systems without devices (CPUs alone) may be of any size and are not compared.
    """
    slowest: dict[object, float] = {}
    for one in results:
        key = _comparable(one.measurement)
        slowest[key] = max(slowest.get(key, 0.0), one.measurement.score.seconds or 0.0)
    compared = []
    for one in results:
        seconds, longest = one.measurement.score.seconds, slowest[_comparable(one.measurement)]
        faster = one.measurement.devices > 0 and seconds and longest > seconds
        compared.append(replace(one, speedup=longest / seconds) if faster and seconds else one)
    return compared


def _comparable(item: Measurement) -> tuple[object, ...]:
    return item.workload, item.rules, item.in_open_division, item.devices, tuple(sorted(item.targets.items()))


def _against_fewest(results: Sequence[Result]) -> list[Result]:
    """With the speedup over the fewest devices of the same family."""
    first = {id(item): family[0] for family in by_family([one.measurement for one in results]) for item in family[1:]}
    return [
        replace(one, speedup=(base.score.seconds or math.nan) / one.measurement.score.seconds)
        if (base := first.get(id(one.measurement))) is not None and one.measurement.score.seconds
        else one
        for one in results
    ]


# --- the matrix ---------------------------------------------------------------------------------------------------------


def _matrix(
    title: str,
    results: Sequence[Result],
    headings: Sequence[str],
    namer: Namer,
    prices: Prices | None,
    notes: Iterable[str],
    by_devices: bool = False,
    detail: Callable[[Measurement], str] | None = None,
) -> Matrix:
    """The matrix of `results`: one row for each of their names, columns are workloads, or numbers of devices."""
    names = [tuple(clean(text, 80) or DASH for text in namer(one.measurement)) for one in results]
    kept = [i for i in range(len(headings)) if len({name[i] for name in names}) > 1] or [0]
    places: dict[tuple[tuple[str, ...], str], list[Result]] = {}
    columns: dict[str, tuple[int, int, str]] = {}
    for one, name in zip(results, names, strict=True):
        item = one.measurement
        column = devices_text(item.devices, item.nodes) if by_devices else clean(item.workload, 40) or DASH
        columns[column] = (item.devices, item.nodes, column) if by_devices else (0, 0, column)
        places.setdefault((tuple(name[i] for i in kept), column), []).append(one)
    ordered = sorted(columns, key=lambda column: columns[column])
    shared = _shared_labels(results)
    row_names = sorted({name for name, _ in places}, key=lambda name: [_numeric_key(text) for text in name])
    cells = [
        tuple(_cell(places.get((name, column), ()), shared, prices, detail) for column in ordered) for name in row_names
    ]
    several = any(len(members) > 1 for members in places.values())
    footer = [note for note in notes if note[0] != "×" or any(cell and cell.speedup for row in cells for cell in row)]
    footer += ["A cell shows the fastest of several settings or systems."] if several else []
    if any(cell is not None and cell.cost for row in cells for cell in row):
        footer.append("cost = devices × hours to target × price of a device for an hour.")
    return Matrix(
        title=title,
        names=tuple(headings[i] for i in kept),
        columns=tuple(ordered),
        rows=tuple(zip(row_names, cells, strict=True)),
        constants=tuple(
            f"{headings[i]} {names[0][i]}"
            for i in range(len(headings))
            if names and i not in kept and names[0][i] != DASH
        ),
        labels=shared,
        footer=tuple(footer),
    )


def _numeric_key(text: str) -> tuple[int, str]:
    """Numbers by their size, `2 × 4` as eight; all else by its letters."""
    factors = text.split(" × ")
    numeric = all(factor.isascii() and factor.isdigit() for factor in factors)
    return (math.prod(map(int, factors)), text) if numeric else (0, text.lower())


def _shared_labels(results: Sequence[Result]) -> tuple[str, ...]:
    common = set.intersection(*(set(one.labels) for one in results)) if results else set()
    return tuple(sorted(clean(label, 80) for label in common))


def _cell(
    members: Sequence[Result],
    shared: Sequence[str],
    prices: Prices | None,
    detail: Callable[[Measurement], str] | None,
) -> Cell | None:
    if not members:
        return None
    best = min(members, key=lambda one: one.rank)
    item, cost = best.measurement, prices.cost(best.measurement) if prices is not None else None
    unit = clean(item.rate_unit, 30)
    rate = f"{rate_text(item.score.samples_per_second or 0.0)} {unit}/s"
    own = tuple(dict.fromkeys(clean(label, 80) for label in best.labels))
    return Cell(
        value=rate if item.score.seconds is None else time_text(item.score.seconds),
        speedup="" if best.speedup is None or not math.isfinite(best.speedup) else f"×{best.speedup:.2f}",
        cost="" if cost is None else cost_text(cost),
        labels=tuple(label for label in own if label not in shared),
        detail="" if detail is None else clean(detail(item), 80),
    )
