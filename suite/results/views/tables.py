"""`suite tables`: tables 1-7 of the DGX-1 scaling article, for our own results and for the article's.

Tables 1-6, one for each workload: devices, batch, time per epoch, epochs to target, total time, precision. Table 7: speedups
over the fewest devices, and the decomposition for every pair of device counts. Families never mix.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from suite.common.labels import LabelKind
from suite.results.columns import Result, Timed, timed
from suite.results.combine import grouped
from suite.results.data_table import DataTable
from suite.results.published import ARTICLE, csv_rows
from suite.results.ratios import ratio
from suite.results.scores import find_published, labels, merged_labels, title
from suite.results.series import Series, families, series_of_family
from suite.results.settings_difference import distinct_labels
from suite.results.targets import targets_text
from suite.results.text import devices_text
from suite.results.views.repeat import next_commands
from suite.results.views.section import NOT_VERIFIED, Section, View, aim_text
from suite.results.views.speedup_text import speedup_headline

TABLES: Mapping[str, int] = {"resnet50": 1, "maskrcnn": 2, "ssd": 3, "gnmt": 4, "transformer": 5, "ncf": 6}
"""The article's number of each workload's table."""
SUMMARY_TABLE = 7
_EXPLAINED = (
    "speedup = throughput (time per epoch) × efficiency (epochs to target); per device: throughput for each device.",
    "scaling: strong = same global batch, weak = same batch per device, mixed = neither.",
)
SAME_AS_PRINTED = 0.003
"""Relative difference that rounding of the printed figures explains."""
_MEASURED = ("seconds_per_epoch", "epochs", "seconds", "precision")
_COUNTS = ("runs_successful", "runs_failed")
_BATCH = ("batch_size_global", "batch_size_per_device")
_SHOWN = ("devices", "differs_in", *_BATCH, *_MEASURED, *_COUNTS, "runs_required", "notes")
_FACTORS = (
    "differs_in", "places", "batch_size_global_from", "batch_size_global_to", "scaling", "speedup", "throughput",
    "efficiency", "setup", "scaling_efficiency", "interval_low", "interval_high", "notes",
)  # fmt: skip
Line = dict[str, Any]
"""A row of the view's data: a result, or a speedup."""


def tables(results: Sequence[Result], with_article: bool = False) -> View:
    """The tables of `results`, in the article's order of workloads; `with_article` appends the article's own, and checks them.

    Raises ValueError if there is no time to target at all.
    """
    ours = timed(results)
    shown = ours + (timed(find_published(ARTICLE)) if with_article else [])
    if not shown:
        refusal = "no run was trained to a target, and these tables are of times to target"
        raise ValueError(f"{refusal}; throughput of runs of fixed length: suite report DIR")
    printed = printed_speedups() if with_article else {}
    data, sections, every, single = list[Line](), list[Section](), list[Line](), list[tuple[str, Timed]]()
    for name, alike in itertools.groupby(sorted(families(shown), key=_order), key=title):
        group = list(alike)
        words = _labels(group)
        group.sort(key=lambda family: words[family[0].key])
        data += (rows := list(_results(name, group, words)))
        number = f"Table {rows[0]['table']}. " if rows[0]["table"] else ""
        units = sorted({row["batch_unit"] for row in rows} - {"", "samples"})
        aim = aim_text([row for family in group for row in family])
        above = " · ".join((aim, *([f"batch in {' or '.join(units)}"] if units else [])))
        sections.append(_section(f"{number}{name}", rows, _SHOWN, (above,)))
        for series in itertools.chain.from_iterable(map(series_of_family, group)):
            series_words = words[series.fewest.key]
            every += _speedups(name, series_words, series, printed)
            single += [(_joined(name, series_words), series.fewest)] if len(series) == 1 else []
    above_all = [NOT_VERIFIED]
    if len({row.profile for row in ours}) > 1:
        above_all.append(
            "Several profiles were given; each has tables of its own, and no speedup is taken across them."
        )
    if len(ours) < len(results):
        above_all.append(f"Left out: {len(results) - len(ours)} results without a time to target (suite report).")
    sections += _table_7(every, single)
    pairs = [{name: value for name, value in row.items() if name != "notes"} for row in every]
    return View("Time to target and speedup", tuple(sections), DataTable.from_rows(data + pairs), tuple(above_all))


def printed_speedups() -> dict[tuple[str, int, int], float]:
    """(workload, devices from, devices to) to what the article's table 7 prints. Raises ValueError for another form."""
    names = ("benchmark", "chips_from", "chips_to", "speedup_printed")
    rows = csv_rows("dgx1_speedups.csv", names)
    try:
        return {(row[names[0]], int(row[names[1]]), int(row[names[2]])): float(row[names[3]]) for row in rows}
    except ValueError as error:
        raise ValueError(f"dgx1_speedups.csv: not speedups between two numbers of devices ({error})") from None


def _order(family: Sequence[Result]) -> tuple[Any, ...]:
    first = family[0]
    number = TABLES.get(first.workload, SUMMARY_TABLE)
    return first.round == ARTICLE, number, first.workload, first.profile, title(family)


def _labels(group: Sequence[Sequence[Result]]) -> dict[str, str]:
    """Return the label of each result of families with the same title: the settings of its family, then of its series."""
    every = [result for family in group for result in family]
    of_families = distinct_labels(every, aside=("gpus",), always=("targets", "dataset"))
    found = {result.key: text for result, text in zip(every, of_families, strict=True)}
    for family in group:
        if len(series_of_family(family)) > 1:
            of_series = distinct_labels(family, shown=("devices", "nodes"))
            found |= {
                result.key: _joined(found[result.key], text) for result, text in zip(family, of_series, strict=True)
            }
    return found


def _joined(*texts: str) -> str:
    return ", ".join(filter(None, texts))


def _section(
    heading: str, rows: Iterable[Line], shown: Sequence[str], above: tuple[str, ...] = (), below: tuple[str, ...] = ()
) -> Section:
    table = DataTable.from_rows({name: row[name] for name in shown} for row in rows).without_empty()
    return Section(heading, above, table, below=below, keys=2 if "differs_in" in table.columns else 1)


def _results(name: str, group: Sequence[Sequence[Timed]], words: Mapping[str, str]) -> Iterator[Line]:
    every = [row for family in group for row in family]
    alike = distinct_labels(every, [(words[row.key], row.devices) for row in every])  # equal devices, other nodes
    for row, more in zip(every, alike, strict=True):
        size = row.batch_size_global
        line: Line = {"table": TABLES.get(row.workload), "workload": row.workload, "series": name}
        line |= {"differs_in": _joined(words[row.key], more), "profile": row.profile, "labels": labels(row)}
        line |= {"target": targets_text(row.targets, row.workload), "dataset": row.dataset}
        line |= {"devices": row.devices, "batch_size_global": size}
        line |= {"batch_size_per_device": size / row.devices if size else None}
        line |= {key: getattr(row, key) for key in ("batch_unit", "batch_rule", *_MEASURED)}
        line |= {key: None if row.single_figure else getattr(row, key) or None for key in _COUNTS}
        line |= {key: getattr(row, key) for key in ("runs_required", "score_method")}
        oversubscribed = ("oversubscribed",) if row.has_label(LabelKind.OVERSUBSCRIBED) else ()
        yield line | {"notes": (*oversubscribed, *row.score_notes)}


def _speedups(name: str, words: str, series: Series[Timed], printed: Mapping[Any, float]) -> Iterator[Line]:
    for both in itertools.combinations(series, 2):
        yield _speedup(both, printed) | {
            "series": name,
            "differs_in": words,
            "from_fewest": both[0].key == series.baseline.key,
        }


def _speedup(both: tuple[Result, Result], printed: Mapping[Any, float]) -> Line:
    pair, place = ratio(*both), (both[0].workload, both[0].devices, both[1].devices)
    value, total = printed.get(place) if both[0].round == ARTICLE else None, pair.total or 0.0
    wrong = value is not None and abs(total / value - 1) > SAME_AS_PRINTED
    flags = (*([f"{value:g} printed, {total:.2f} by its own tables"] if wrong else []), *pair.flags)
    line: Line = {"table": SUMMARY_TABLE, "workload": place[0], "series": "", "differs_in": ""}
    line |= {"profile": both[0].profile, "labels": merged_labels(both), "places": pair.places}
    line |= {"from_fewest": False, "devices_from": place[1], "devices_to": place[2]}
    line |= {f"batch_size_global_{end}": row.batch_size_global for end, row in zip(("from", "to"), both, strict=True)}
    line |= {key: getattr(pair, key) for key in ("scaling", "throughput", "efficiency", "setup", "scaling_efficiency")}
    line |= {"speedup": pair.total}
    line |= {f"interval_{end}": getattr(pair.interval, end, None) for end in ("low", "high")}
    line |= {
        "no_interval": pair.no_interval,
        "in_words": speedup_headline(pair).partition(": ")[2],
        "flags": flags,
        "speedup_printed": value,
    }
    return line | {"notes": (*flags, pair.no_interval)}


def pairs_section(results: Sequence[Result], most: int) -> Section | None:
    """Every pair of device counts within the series of `results`, at most so many; None without one."""
    of_frameworks = grouped(families(results), lambda family: family[0].framework)
    rows, every = list[Line](), list[tuple[Result, Result]]()
    for framework, group in of_frameworks.items():
        words, name = _labels(group), framework if len(of_frameworks) > 1 else ""
        both = [
            pair
            for family in group
            for series in series_of_family(family)
            for pair in itertools.combinations(series, 2)
        ]
        shown = both[: most - len(rows)]
        rows += [_speedup(pair, {}) | {"differs_in": _joined(name, words[pair[0].key])} for pair in shown]
        every += both
    more = (f"and {len(every) - most} more pairs",) if len(every) > most else ()
    return replace(_pairs("", rows, more), of=tuple(every[:most])) if rows else None


def _pairs(title: str, rows: Sequence[Line], more: tuple[str, ...] = (), above: tuple[str, ...] = ()) -> Section:
    pairs_in_words = (f"{_joined(row['differs_in'], row['places'])} devices: {row['in_words']}" for row in rows)
    return _section(title, rows, _FACTORS, above, (*pairs_in_words, *more))


def _table_7(every: Sequence[Line], single: Sequence[tuple[str, Timed]]) -> Iterator[Section]:
    """A row for each series, a column for each pair that begins with its fewest devices; every pair; what has none."""
    first = [row for row in every if row["from_fewest"]]
    places = sorted({(row["devices_from"], row["devices_to"]) for row in first})
    lines: dict[tuple[str, str], Line] = {}
    for row in first:
        shown = {"results": row["series"], "differs_in": row["differs_in"]}
        line = lines.setdefault(tuple(shown.values()), shown | {f"{one} → {other}": None for one, other in places})
        line[f"{row['devices_from']} → {row['devices_to']}"] = row["speedup"]
    if lines:
        yield _section(f"Table {SUMMARY_TABLE}. Speedup over the fewest devices", lines.values(), list(line))
    above: tuple[str, ...] = _EXPLAINED
    for name, members in itertools.groupby(every, key=lambda row: row["series"]):
        yield _pairs(f"Every pair of device counts: {name}", [*members], above=above)
        above = ()
    if single:
        only = tuple(f"{name}: {devices_text(row.devices)} only" for name, row in single)
        commands = tuple(dict.fromkeys(command for _, row in single for command in next_commands(row)))
        then = ("Run next, for a speedup of what was measured on one number of devices:",) if commands else ()
        yield Section("Without a speedup", then, commands=commands, below=only)
