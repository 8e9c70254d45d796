"""`suite tables`: tables 1-7 of the DGX-1 scaling article.

The tables show measured results, and optionally the article's results.

Each of the tables 1-6 shows one workload with devices, batch size, time per epoch, epochs to
target, time to target, and precision. Table 7 shows the speedups over the baseline of each series,
and the factors of the speedup between all pairs of device counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from suite.common.labels import LabelKind
from suite.results.columns import Result, with_time
from suite.results.combine import grouped
from suite.results.data_table import DataTable
from suite.results.published_results import ARTICLE, csv_rows
from suite.results.ratios import ratio
from suite.results.scores import find_published, labels, merged_labels, title
from suite.results.series import Series, families, series_of_family
from suite.results.settings_difference import distinct_labels
from suite.results.targets import targets_text
from suite.results.text import devices_text
from suite.results.views.repeat import next_commands
from suite.results.views.section import NOT_VERIFIED, Section, View, target_and_data_facts
from suite.results.views.speedup_text import speedup_headline

TABLES: Mapping[str, int] = {
    "resnet50": 1,
    "maskrcnn": 2,
    "ssd": 3,
    "gnmt": 4,
    "transformer": 5,
    "ncf": 6,
}
"""Maps each workload to the number of its table in the DGX-1 scaling article."""
SUMMARY_TABLE = 7
_EXPLAINED = (
    (
        "speedup = throughput (ratio of times per epoch) × efficiency (ratio of epochs to target) ×"
        " setup. Per device: throughput divided by the ratio of devices."
    ),
    "Scaling: strong = same global batch, weak = same batch per device, mixed = neither.",
)
SAME_AS_PRINTED = 0.003
"""Maximum relative difference between two speedups that can be explained by rounding in the
article.
"""
_MEASURED = ("seconds_per_epoch", "epochs", "seconds", "precision")
_COUNTS = ("runs_successful", "runs_failed")
_BATCH = ("global_batch_size", "batch_size_per_device")
_SHOWN = ("devices", "differs_in", *_BATCH, *_MEASURED, *_COUNTS, "runs_required", "notes")
_FACTORS = (
    "differs_in", "places", "batch_size_global_from", "batch_size_global_to", "scaling", "speedup",
    "throughput",
    "efficiency", "setup", "scaling_efficiency", "interval_low", "interval_high", "notes",
)  # fmt: skip
Line = dict[str, Any]
"""Row of the data: maps column names to the values of a result or a speedup."""


def tables(results: Sequence[Result], with_article: bool = False) -> View:
    """Return the tables of results. The workloads have the same order as in the article.

    Args:
        results: Measured results.
        with_article: True to add the article's results and check the speedups in the article's
            table 7.

    Raises:
        ValueError: No run has a time to target.
    """
    ours = with_time(results)
    shown = ours + (with_time(find_published(ARTICLE)) if with_article else [])
    if not shown:
        raise ValueError(
            "no run was trained to a target, and these tables show times to target. "
            "For the throughput of runs of fixed length, run: suite report DIR"
        )
    printed = printed_speedups() if with_article else {}
    sections: list[Section] = []
    data: list[Line] = []
    pairs: list[Line] = []
    single: list[tuple[str, Result]] = []
    for name, alike in itertools.groupby(sorted(families(shown), key=_order), key=title):
        group = list(alike)
        labels_of = _labels(group)
        group.sort(key=lambda family: labels_of[family[0].key])
        rows = list(_results(name, group, labels_of))
        data += rows
        number = f"Table {rows[0]['table']}. " if rows[0]["table"] else ""
        facts = target_and_data_facts([result for family in group for result in family])
        units = sorted({row["batch_unit"] for row in rows} - {"", "samples"})
        if units:
            facts.append(("Batch", f"in {' or '.join(units)}"))
        sections.append(replace(_section(f"{number}{name}", rows, _SHOWN), facts=tuple(facts)))
        for series in itertools.chain.from_iterable(map(series_of_family, group)):
            settings = labels_of[series.fewest.key]
            pairs += _speedups(name, settings, series, printed)
            if len(series) == 1:
                single.append((_joined(name, settings), series.fewest))
    above = [NOT_VERIFIED]
    if len({result.profile for result in ours}) > 1:
        above.append(
            "The results have several profiles. Each profile has its own tables and speedups."
        )
    if len(ours) < len(results):
        count = len(results) - len(ours)
        noun = "result" if count == 1 else "results"
        above.append(
            f"Left out: {count} {noun} without a time to target (suite report shows all results)."
        )
    sections += _table_7(pairs, single)
    rows_of_pairs = [
        {name: value for name, value in row.items() if name != "notes"} for row in pairs
    ]
    return View(
        "Time to target and speedup",
        tuple(sections),
        DataTable.from_rows(data + rows_of_pairs),
        tuple(above),
    )


def printed_speedups() -> dict[tuple[str, int, int], float]:
    """Return the speedups in table 7 of the DGX-1 scaling article.

    The keys are tuples (workload, devices before, devices after).

    Raises:
        ValueError: A row of the file does not contain a speedup between two numbers of devices.
    """
    names = ("benchmark", "chips_from", "chips_to", "speedup_printed")
    rows = csv_rows("dgx1_speedups.csv", names)
    try:
        return {
            (row[names[0]], int(row[names[1]]), int(row[names[2]])): float(row[names[3]])
            for row in rows
        }
    except ValueError as error:
        raise ValueError(
            f"dgx1_speedups.csv: expected speedups between two numbers of devices ({error})"
        ) from None


def _order(family: Sequence[Result]) -> tuple[Any, ...]:
    first = family[0]
    number = TABLES.get(first.workload, SUMMARY_TABLE)
    return first.round == ARTICLE, number, first.workload, first.profile, title(family)


def _labels(group: Sequence[Sequence[Result]]) -> dict[str, str]:
    """Return a label for each result in families that have the same title.

    A label contains the settings of the family, followed by the settings of the series.
    """
    results = [result for family in group for result in family]
    of_families = distinct_labels(results, ignored=("gpus",), always=("targets", "dataset"))
    label_of = {result.key: text for result, text in zip(results, of_families, strict=True)}
    for family in group:
        if len(series_of_family(family)) > 1:
            of_series = distinct_labels(family, shown=("devices", "nodes"))
            for result, text in zip(family, of_series, strict=True):
                label_of[result.key] = _joined(label_of[result.key], text)
    return label_of


def _joined(*texts: str) -> str:
    return ", ".join(filter(None, texts))


def _section(
    heading: str,
    rows: Iterable[Line],
    shown: Sequence[str],
    above: tuple[str, ...] = (),
    below: tuple[str, ...] = (),
) -> Section:
    table = DataTable.from_rows({name: row[name] for name in shown} for row in rows).without_empty()
    return Section(
        heading, above, table, below=below, keys=2 if "differs_in" in table.columns else 1
    )


def _results(
    name: str, group: Sequence[Sequence[Result]], label_of: Mapping[str, str]
) -> Iterator[Line]:
    """Yield the table columns of each result.

    If results on the same devices have equal labels, further settings such as the number of nodes
    are added to the labels.
    """
    results = [result for family in group for result in family]
    further = distinct_labels(
        results, [(label_of[result.key], result.devices) for result in results]
    )
    for row, more in zip(results, further, strict=True):
        size = row.global_batch_size
        line: Line = {"table": TABLES.get(row.workload), "workload": row.workload, "series": name}
        line |= {
            "differs_in": _joined(label_of[row.key], more),
            "profile": row.profile,
            "labels": labels(row),
        }
        line |= {"target": targets_text(row.targets, row.workload), "dataset": row.dataset}
        line |= {"devices": row.devices, "global_batch_size": size}
        line |= {"batch_size_per_device": size / row.device_count if size else None}
        line |= {key: getattr(row, key) for key in ("batch_unit", "batch_rule", *_MEASURED)}
        line |= {key: None if row.single_figure else getattr(row, key) or None for key in _COUNTS}
        line |= {key: getattr(row, key) for key in ("runs_required", "score_method")}
        oversubscribed = ("oversubscribed",) if row.has_label(LabelKind.OVERSUBSCRIBED) else ()
        yield line | {"notes": (*oversubscribed, *row.score_notes)}


def _speedups(
    name: str, label: str, series: Series[Result], printed: Mapping[Any, float]
) -> Iterator[Line]:
    for both in itertools.combinations(series, 2):
        yield _speedup(both, printed) | {
            "series": name,
            "differs_in": label,
            "from_fewest": both[0].key == series.baseline.key,
        }


def _speedup(both: tuple[Result, Result], printed: Mapping[Any, float]) -> Line:
    pair, place = ratio(*both), (both[0].workload, both[0].devices, both[1].devices)
    value, total = printed.get(place) if both[0].round == ARTICLE else None, pair.total or 0.0
    wrong = value is not None and abs(total / value - 1) > SAME_AS_PRINTED
    flags = (
        *([f"the article prints {value:g}, and its tables give {total:.2f}"] if wrong else []),
        *pair.flags,
    )
    line: Line = {"table": SUMMARY_TABLE, "workload": place[0], "series": "", "differs_in": ""}
    line |= {"profile": both[0].profile, "labels": merged_labels(both), "places": pair.places}
    line |= {"from_fewest": False, "devices_from": place[1], "devices_to": place[2]}
    line |= {
        f"batch_size_global_{end}": row.global_batch_size
        for end, row in zip(("from", "to"), both, strict=True)
    }
    line |= {
        key: getattr(pair, key)
        for key in ("scaling", "throughput", "efficiency", "setup", "scaling_efficiency")
    }
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
    """Return a section with the speedups between all pairs of device counts.

    Returns None if no series has several device counts. Both results of a pair belong to the same
    series.

    Args:
        results: Results of a table.
        most: Maximum number of pairs.
    """
    of_frameworks = grouped(families(results), lambda family: family[0].framework)
    rows: list[Line] = []
    all_pairs: list[tuple[Result, Result]] = []
    for framework, group in of_frameworks.items():
        label_of = _labels(group)
        name = framework if len(of_frameworks) > 1 else ""
        pairs = [
            pair
            for family in group
            for series in series_of_family(family)
            for pair in itertools.combinations(series, 2)
        ]
        for pair in pairs[: most - len(rows)]:
            rows.append(_speedup(pair, {}) | {"differs_in": _joined(name, label_of[pair[0].key])})
        all_pairs += pairs
    if not rows:
        return None
    left_out = len(all_pairs) - most
    more = (
        (f"Not shown: {left_out} {'pair' if left_out == 1 else 'pairs'}.",) if left_out > 0 else ()
    )
    return replace(_pairs("", rows, more), of=tuple(all_pairs[:most]))


def _pairs(
    title: str, rows: Sequence[Line], more: tuple[str, ...] = (), above: tuple[str, ...] = ()
) -> Section:
    sentences = (
        f"{_joined(row['differs_in'], row['places'])} devices: {row['in_words']}" for row in rows
    )
    return _section(title, rows, _FACTORS, above, (*sentences, *more))


def _table_7(pairs: Sequence[Line], single: Sequence[tuple[str, Result]]) -> Iterator[Section]:
    """Yield the sections with the speedups of table 7.

    Speedups over the baseline of each series come first, followed by the speedups between all pairs
    of device counts. Results without a speedup come last.
    """
    from_baseline = [row for row in pairs if row["from_fewest"]]
    places = sorted({(row["devices_from"], row["devices_to"]) for row in from_baseline})
    headings = [f"{fewer} → {more}" for fewer, more in places]
    lines: dict[tuple[str, str], Line] = {}
    for row in from_baseline:
        shown = {"results": row["series"], "differs_in": row["differs_in"]}
        line = lines.setdefault(tuple(shown.values()), shown | dict.fromkeys(headings))
        line[f"{row['devices_from']} → {row['devices_to']}"] = row["speedup"]
    if lines:
        yield _section(
            f"Table {SUMMARY_TABLE}. Speedup over the fewest devices", lines.values(), list(line)
        )
    above: tuple[str, ...] = _EXPLAINED
    for name, members in itertools.groupby(pairs, key=lambda row: row["series"]):
        yield _pairs(f"Every pair of device counts: {name}", [*members], above=above)
        above = ()
    if single:
        only = tuple(f"{name}: {devices_text(row.device_count)} only" for name, row in single)
        commands = tuple(
            dict.fromkeys(command for _, row in single for command in next_commands(row))
        )
        then = (
            ("These results have one number of devices. To measure a speedup, run:",)
            if commands
            else ()
        )
        yield Section("Without a speedup", then, commands=commands, below=only)
