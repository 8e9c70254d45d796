"""`suite tables`: tables 1-7 of the DGX-1 scaling article, for our own results and for the article's.

Tables 1-6, one for each workload: devices, batch, time per epoch, epochs to target, total time, precision. Table 7: speedups
over the fewest devices, and the decomposition for every pair of device counts. Families never mix.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from suite.results.columns import OURS
from suite.results.identity import Row, own_words
from suite.results.published import ARTICLE, csv_rows
from suite.results.repeat import next_command
from suite.results.scores import Ratio, chains, families, find_published, labels, merged_labels, ratio, title
from suite.results.text import devices_text
from suite.results.views.section import NOT_VERIFIED, Section, View, frame_of, without_empty

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
_SHOWN = (
    *("devices", "differs_in", "batch_size_global", "batch_size_per_device", *_MEASURED),
    *("runs_successful", "runs_failed", "runs_required", "notes"),
)
_FACTORS = (
    *("differs_in", "places", "batch_size_global_from", "batch_size_global_to", "scaling", "speedup", "throughput"),
    *("efficiency", "scaling_efficiency", "interval_low", "interval_high"),
)
Line = dict[str, Any]
"""A row of the view's data: a result, or a speedup."""
Printed = Mapping[tuple[str, int, int], float]
"""(workload, devices from, devices to) to a speedup as the article prints it."""


def tables(results: Sequence[Row], with_article: bool = False) -> View:
    """The tables of `results`, in the article's order of workloads; `with_article` appends the article's own, and checks them.

    Raises ValueError if there is no time to target at all.
    """
    timed = [row for row in results if row.seconds and row.devices]
    shown = timed + (find_published(ARTICLE) if with_article else [])
    if not shown:
        raise ValueError(
            "no run was trained to a target, and these tables are of times to target; "
            "throughput of runs of fixed length: suite report DIR"
        )
    groups: dict[str, list[list[Row]]] = {}
    for family in sorted(families(shown), key=_order):
        groups.setdefault(title(family), []).append(family)
    printed = printed_speedups() if with_article else {}
    data, sections, every = list[Line](), list[Section](), list[Line]()
    single: list[tuple[str, Row]] = []
    for name, group in groups.items():
        rows = [_result(name, row, words) for row, words in _results(group)]
        sections.append(_workload_section(name, rows))
        for chain, words in _series(group):
            every += [
                _speedup(name, words, ratio(before, after), printed, before is chain[0])
                for before, after in itertools.combinations(chain, 2)
            ]
            single += [(", ".join(filter(None, (name, words))), chain[0])] if len(chain) == 1 else []
        data += rows
    sections += [*_summary(every), *_every_pair(every), *_without_speedup(single)]
    return View("Time to target and speedup", tuple(sections), frame_of(data + every), tuple(_above(results, timed)))


def printed_speedups() -> Printed:
    """Table 7 as the article prints it. Raises ValueError for a file of another form."""
    rows = csv_rows("dgx1_speedups.csv", ("benchmark", "chips_from", "chips_to", "speedup_printed"))
    try:
        places = [(row["benchmark"], int(row["chips_from"]), int(row["chips_to"])) for row in rows]
        return dict(zip(places, (float(row["speedup_printed"]) for row in rows), strict=True))
    except ValueError as error:
        raise ValueError(f"dgx1_speedups.csv: not speedups between two numbers of devices ({error})") from None


def _above(results: Sequence[Row], timed: Sequence[Row]) -> Iterator[str]:
    yield NOT_VERIFIED
    if len({row.profile for row in timed}) > 1:
        yield "Several profiles were given; each has tables of its own, and no speedup is taken across them."
    if len(timed) < len(results):
        yield f"Left out: {len(results) - len(timed)} results without a time to target (suite report)."


def _order(family: Sequence[Row]) -> tuple[Any, ...]:
    first, number = family[0], TABLES.get(family[0].workload, SUMMARY_TABLE)
    return first.round == ARTICLE, number, first.workload, first.profile, title(family)


def _section(heading: str, rows: Iterable[Line], above: tuple[str, ...] = (), below: tuple[str, ...] = ()) -> Section:
    table = without_empty(frame_of(rows))
    return Section(heading, above, table, below=below, keys=2 if "differs_in" in table.columns else 1)


# --- tables 1 to 6 ------------------------------------------------------------------------------------------------------


def _results(group: Sequence[Sequence[Row]]) -> Iterator[tuple[Row, str]]:
    """The results of families of one name, with what tells each from the others on as many devices."""
    for words, family in _families(group):
        for _, found in itertools.groupby(family, key=lambda row: row.devices):
            twins = list(found)
            for row, own in zip(twins, own_words(twins), strict=True):
                yield row, ", ".join(filter(None, (words, own)))


def _series(group: Sequence[Sequence[Row]]) -> Iterator[tuple[list[Row], str]]:
    """Their series, with what tells each from the others."""
    for words, family in _families(group):
        found = chains(family)
        for chain, own in zip(found, own_words([chain[0] for chain in found]), strict=True):
            yield chain, ", ".join(filter(None, (words, own)))


def _families(group: Sequence[Sequence[Row]]) -> list[tuple[str, Sequence[Row]]]:
    words = own_words([family[0] for family in group], "gpus")
    return sorted(zip(words, group, strict=True), key=lambda pair: pair[0])


def _workload_section(name: str, rows: Sequence[Line]) -> Section:
    number = f"Table {rows[0]['table']}. " if rows[0]["table"] else ""
    units = sorted({row["batch_unit"] for row in rows} - {"", "samples"})
    shown = ({column: row[column] for column in _SHOWN} for row in rows)
    return _section(f"{number}{name}", shown, (f"batch in {' or '.join(units)}",) if units else ())


def _result(name: str, row: Row, words: str) -> Line:
    size = row.batch_size_global
    counts, notes = ("runs_successful", "runs_failed"), row.score_notes if row.runs_required else ()
    return {
        **{"table": TABLES.get(row.workload), "workload": row.workload, "series": name, "differs_in": words},
        **{"profile": row.profile, "labels": labels(row), "devices": row.devices, "batch_size_global": size},
        "batch_size_per_device": size / row.devices if size else None,
        **{key: getattr(row, key) for key in ("batch_unit", "batch_rule", *_MEASURED)},
        **{key: None if row.single_figure else getattr(row, key) or None for key in counts},
        **{key: getattr(row, key) for key in ("runs_required", "score_method")},
        "notes": (*(one for one in row.labels if one == "oversubscribed"), *notes),
    }


# --- table 7 ------------------------------------------------------------------------------------------------------------


def _speedup(name: str, words: str, pair: Ratio, printed: Printed, from_fewest: bool) -> Line:
    both, interval = (pair.before, pair.after), pair.interval
    value = printed.get((both[0].workload, both[0].devices, both[1].devices)) if both[0].round == ARTICLE else None
    wrong = value is not None and pair.total is not None and abs(pair.total / value - 1) > SAME_AS_PRINTED
    flags = (f"{value:g} printed, {pair.total:.2f} by its own tables", *pair.flags) if wrong else pair.flags
    return {
        **{"table": SUMMARY_TABLE, "workload": both[0].workload, "series": name, "differs_in": words},
        **{
            "profile": both[0].profile,
            "labels": merged_labels(both),
            "places": pair.places,
            "from_fewest": from_fewest,
        },
        **{"devices_from": both[0].devices, "devices_to": both[1].devices},
        **{"batch_size_global_from": both[0].batch_size_global, "batch_size_global_to": both[1].batch_size_global},
        **{key: getattr(pair, key) for key in ("scaling", "throughput", "efficiency", "scaling_efficiency")},
        "speedup": pair.total,
        **{f"interval_{part}": getattr(interval, part, None) for part in ("low", "high", "level")},
        **{"no_interval": pair.no_interval, "in_words": pair.words, "flags": flags, "speedup_printed": value},
    }


def _summary(every: Sequence[Line]) -> Iterator[Section]:
    """Table 7: a row for each series, a column for each pair that begins with its fewest devices."""
    first = sorted(
        (row for row in every if row["from_fewest"]), key=lambda row: (row["devices_from"], row["devices_to"])
    )
    columns = dict.fromkeys(f"{row['devices_from']} → {row['devices_to']}" for row in first)
    lines = {(row["series"], row["differs_in"]): dict(columns) for row in every}
    for row in first:
        lines[row["series"], row["differs_in"]][f"{row['devices_from']} → {row['devices_to']}"] = row["speedup"]
    if lines:
        shown = ({"results": name, "differs_in": words, **cells} for (name, words), cells in lines.items())
        yield _section(f"Table {SUMMARY_TABLE}. Speedup over the fewest devices", shown)


def _every_pair(every: Sequence[Line]) -> Iterator[Section]:
    above: tuple[str, ...] = _EXPLAINED
    for name, found in itertools.groupby(every, key=lambda row: row["series"]):
        pairs = list(found)
        notes = [{"notes": (*row["flags"], row["no_interval"])} for row in pairs]
        shown = [{column: row[column] for column in _FACTORS} | note for row, note in zip(pairs, notes, strict=True)]
        where = [", ".join(filter(None, (row["differs_in"], row["places"]))) for row in pairs]
        said = tuple(f"{place}: {row['in_words']}" for place, row in zip(where, pairs, strict=True))
        yield _section(f"Every pair of device counts: {name}", shown, above, said)
        above = ()


def _without_speedup(single: Sequence[tuple[str, Row]]) -> Iterator[Section]:
    if single:
        only = tuple(f"{name}: {devices_text(row.devices)} only" for name, row in single)
        commands = dict.fromkeys(next_command(row, 2 * row.devices) for _, row in single if row.round == OURS)
        above = ("Run next, for a speedup of what was measured on one number of devices:",) if commands else ()
        yield Section("Without a speedup", above, commands=tuple(commands), below=only)
