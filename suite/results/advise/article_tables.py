"""Tables 1-7 of the DGX-1 scaling article, for our own results and for the article's.

Tables 1-6, one for each workload: devices, batch, time per epoch, epochs to target, total time, precision. Table 7: speedups
over the fewest devices, and the decomposition for every pair of device counts. Families (profile, hardware, batch rule, …)
never mix.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.results.advise.render import next_run_text
from suite.results.names import WORKLOAD_TITLES
from suite.results.published.csv_files import ARTICLE, load_published_results, published_folders
from suite.results.report.markdown import markdown_table, wrapped
from suite.results.report.report import NOT_VERIFIED
from suite.results.report.tables import DASH, Footnotes, two_decimals
from suite.results.score.condition import merged_labels
from suite.results.score.family_labels import differing_values, family_settings
from suite.results.score.measurement import Measurement, by_family
from suite.results.score.scaling import (
    PrintedSpeedup,
    ScalingPair,
    check_printed,
    interval_suffix,
    interval_text,
    scaling_pairs,
)
from suite.results.text import clean, devices_text, markdown_escape

TABLES: Mapping[str, int] = {"resnet50": 1, "maskrcnn": 2, "ssd": 3, "gnmt": 4, "transformer": 5, "ncf": 6}
"""The article's number of each workload's table."""
SUMMARY_TABLE = 7
PRINTED_SPEEDUPS_FILE = "dgx1_speedups.csv"


@dataclass(frozen=True)
class Family:
    """Measurements on different numbers of devices that share a table."""

    measurements: tuple[Measurement, ...]
    """In order of devices."""
    settings: str
    """Settings that distinguish it from other families with the same workload and series."""
    pairs: tuple[ScalingPair, ...]

    @property
    def first(self) -> Measurement:
        """The measurement on the fewest devices."""
        return self.measurements[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """The profile and the labels, to show beside every number."""
        profile = () if self.first.profile == "published" else (self.first.profile,)
        return merged_labels((*profile, *(label for item in self.measurements for label in item.labels)))

    @property
    def name(self) -> str:
        """Series and labels as text; `settings` must be shown near it."""
        labels = f" ({clean(', '.join(self.labels), 120)})" if self.labels else ""
        return clean(self.first.series, 80) + labels


@dataclass(frozen=True)
class ArticleTables:
    """The content of tables 1-7."""

    families: tuple[Family, ...]
    fixed_length: int
    """Measurements without a time to target, which these tables cannot hold."""
    printed: tuple[PrintedSpeedup, ...]
    """The article's own table 7 checked against its tables 1-6; empty unless requested."""


def article_tables(items: Sequence[Measurement], with_article: bool = False) -> ArticleTables:
    """The tables of `items`, in the article's order of workloads; `with_article` appends the article's own.

    Raises ValueError if there is no time to target at all.
    """
    timed = [item for item in items if item.score.seconds and item.devices > 0]
    families = _families(timed)
    printed: Sequence[PrintedSpeedup] = ()
    if with_article:
        article = [item.measurement for item in load_published_results() if item.round == ARTICLE]
        printed = check_printed(printed_speedups(), scaling_pairs(article, intervals=False))
        families += _families(article)
    if not families:
        raise ValueError(
            "no run was trained to a target, and these tables are of times to target; "
            "throughput of runs of fixed length: suite report DIR"
        )
    return ArticleTables(tuple(families), len(items) - len(timed), tuple(printed))


def _families(items: Sequence[Measurement]) -> list[Family]:
    groups = by_family(items)
    made = [
        Family(tuple(group), text, tuple(scaling_pairs(group)))
        for group, text in zip(groups, family_settings(groups), strict=True)
    ]
    return sorted(made, key=_order)


def _order(family: Family) -> tuple[object, ...]:
    first = family.first
    return (TABLES.get(first.workload, SUMMARY_TABLE), first.workload, first.profile, first.series, family.settings)


def printed_speedups(places: Iterable[Path] | None = None) -> dict[tuple[str, int, int], float]:
    """Table 7 as the article prints it: (workload, devices from, devices to) to speedup. Raises ValueError for another file."""
    speedups: dict[tuple[str, int, int], float] = {}
    for place in places if places is not None else published_folders():
        path = place / PRINTED_SPEEDUPS_FILE
        if not path.is_file():
            continue
        try:
            with open(path, newline="", encoding="utf-8") as stream:
                for row in csv.DictReader(stream):
                    key = (row["benchmark"], int(row["chips_from"]), int(row["chips_to"]))
                    speedups[key] = float(row["speedup_printed"])
        except (KeyError, ValueError, TypeError, OSError, csv.Error) as error:
            columns = "benchmark, chips_from, chips_to, speedup_printed"
            raise ValueError(f"{path}: not a table of speedups with the columns {columns} ({error})") from None
    return speedups


# --- Markdown -----------------------------------------------------------------------------------------------------------


def tables_markdown(tables: ArticleTables) -> str:
    """All tables as one Markdown document."""
    profiles = {family.first.profile for family in tables.families}
    parts = ["# Time to target and speedup", NOT_VERIFIED]
    if len(profiles - {"published"}) > 1:
        parts.append("Several profiles were given; each has tables of its own, and no speedup is taken across them.")
    if tables.fixed_length:
        parts.append(
            f"Left out: {tables.fixed_length} results of fixed length, without a time to target (suite report)."
        )
    for family in tables.families:
        parts += _workload_table(family)
    parts += _summary(tables)
    return wrapped("\n\n".join(parts)) + "\n"


def _title(family: Family) -> str:
    name = WORKLOAD_TITLES.get(family.first.workload) or clean(family.first.workload, 40) or "unknown workload"
    return f"{name}: {family.name}"


def _workload_table(family: Family) -> list[str]:
    footnotes = Footnotes()
    own = [_own_settings(item, family.measurements) for item in family.measurements]
    header = ["devices", "batch", "time per epoch", "epochs to target", "total time", "precision", "runs"]
    right = [True, False, True, True, True, False, False]
    body = [_workload_cells(item, footnotes) for item in family.measurements]
    if any(own):
        header, right = [header[0], "differs in", *header[1:]], [right[0], False, *right[1:]]
        body = [[cells[0], markdown_escape(text) or DASH, *cells[1:]] for cells, text in zip(body, own, strict=True)]
    table = markdown_table(header, body, right, keys=2 if any(own) else 1)
    below = [markdown_escape(line) for line in footnotes.lines()]
    number = TABLES.get(family.first.workload)
    heading = f"## {f'Table {number}. ' if number else ''}{markdown_escape(_title(family))}"
    settings = [markdown_escape(text) for text in (family.settings, _batch_unit(family)) if text]
    return [heading, *settings, "\n".join([table, *([""] if below else []), *below])]


def _workload_cells(item: Measurement, footnotes: Footnotes) -> list[str]:
    score = item.score
    notes = score.notes if item.profile not in ("demo", "synthetic") else ()
    texts = [*(label for label in item.labels if label == "oversubscribed"), *notes]
    marks = "".join(f" {footnotes.mark(clean(text))}" for text in texts)
    epochs = DASH if score.epochs is None else f"{score.epochs:.4g}"
    cells = [str(item.devices) + marks, _batch(item), _time(score.seconds_per_epoch), epochs, _time(score.seconds)]
    return [*cells, markdown_escape(clean(item.precision, 20)) or DASH, _runs(item)]


def _own_settings(item: Measurement, others: Sequence[Measurement]) -> str:
    """Logged hyperparameters that distinguish `item` from other measurements on the same number of devices."""
    twins = [other for other in others if other.devices == item.devices]
    return differing_values(item.hyperparameters, [twin.hyperparameters for twin in twins])


def _batch(item: Measurement) -> str:
    """Global batch and batch per device: `16,384 (2,048 per device)`."""
    size = item.batch_size_global
    return f"{size:,} ({size / item.devices:,.10g} per device)" if size else "unknown"


def _batch_unit(family: Family) -> str:
    units = {item.batch_unit for item in family.measurements} - {"", "samples"}
    return clean(f"batch in {' or '.join(sorted(units))}", 80) if units else ""


def _runs(item: Measurement) -> str:
    if not item.runs:
        return "figure"
    score = item.score
    text = f"{score.runs_successful} of {score.runs_required}" if score.runs_required else f"{score.runs_successful}"
    failed = f", {score.runs_failed} failed" if score.runs_failed else ""
    return f"{text}{failed}" + (f" ({score.method} of {score.runs_retained})" if score.runs_successful > 1 else "")


def _time(seconds: float | None) -> str:
    """Seconds below two minutes, else minutes, with four significant digits: the article's times are that exact."""
    if seconds is None:
        return DASH
    if seconds < 120:
        return f"{seconds:.4g} s"
    value = seconds / 60.0
    return f"{value:,.1f} min" if value >= 1000 else f"{value:.4g} min"


def _summary(tables: ArticleTables) -> list[str]:
    single = [family for family in tables.families if not family.pairs]
    paired = [family for family in tables.families if family.pairs]
    parts = [f"## Table {SUMMARY_TABLE}. Speedup"]
    if paired:
        parts += [
            _speedups(paired, tables.printed),
            "### Decomposition: every pair of device counts",
            *_decompositions(paired),
        ]
    for family in single:
        name = ", ".join(text for text in (_title(family), family.settings) if text)
        only = f"measured on {devices_text(family.first.devices)} only, so there is no speedup."
        parts.append(markdown_escape(f"{name}: {only} {next_run_text(family.first)}"))
    return parts


def _speedups(families: Sequence[Family], printed: Sequence[PrintedSpeedup]) -> str:
    """One row for each family, one column for each pair that begins with its fewest devices."""
    footnotes = Footnotes()
    printed_flags = {(one.workload, one.devices_from, one.devices_to): one.flag for one in printed}
    columns = sorted({(pair.devices_from, pair.devices_to) for family in families for pair in _from_fewest(family)})
    body = []
    for family in families:
        cells: dict[tuple[int, int], str] = {}
        for pair in _from_fewest(family):
            key = (pair.devices_from, pair.devices_to)
            flag = printed_flags.get((pair.workload, *key)) if family.first.origin == ARTICLE else None
            texts = [*([flag] if flag else []), *(() if pair.settings else pair.flags)]
            own = f" ({markdown_escape(pair.settings)})" if pair.settings else ""
            text = two_decimals(pair.total) + own + "".join(f" {footnotes.mark(clean(one, 300))}" for one in texts)
            cells[key] = f"{cells[key]}; {text}" if key in cells else text
        body.append([_row_name(family), *(cells.get(column, DASH) for column in columns)])
    header = ["workload", *(f"{one} → {other}" for one, other in columns)]
    below = [markdown_escape(line) for line in footnotes.lines()]
    table = markdown_table(header, body, [False, *(True for _ in columns)])
    return "\n".join([table, *([""] if below else []), *below])


def _from_fewest(family: Family) -> list[ScalingPair]:
    return [pair for pair in family.pairs if pair.devices_from == family.first.devices]


def _row_name(family: Family) -> str:
    settings = f", {family.settings}" if family.settings else ""
    return markdown_escape(f"{clean(family.first.workload, 40)}: {family.name}{settings}")


def _decompositions(families: Sequence[Family]) -> list[str]:
    """The table of every pair of device counts with its footnotes, and the speedups in words."""
    header = ("workload", "devices", "batch", "scaling", "speedup", "= throughput", "× efficiency", "per device")
    footnotes = Footnotes()
    body, verdicts = [], []
    for family in families:
        name = _row_name(family)
        for pair in family.pairs:
            body.append([name, *_pair_cells(pair, footnotes)])
            verdicts.append(
                f"- {name}, {markdown_escape(_devices(pair))}: {markdown_escape(pair.verdict)}{interval_suffix(pair)}"
            )
    explained = [
        "speedup = throughput (time per epoch) × efficiency (epochs to target); per device: throughput for each device.",
        "batch: global; scaling: strong = same global batch, weak = same batch per device, mixed = neither.",
        *footnotes.lines(),
    ]
    table = markdown_table([*header, "95 % interval"], body, [False] * 4 + [True] * 4 + [False], keys=2)
    return ["\n".join([table, "", *(markdown_escape(line) for line in explained)]), "\n".join(verdicts)]


def _pair_cells(pair: ScalingPair, footnotes: Footnotes) -> list[str]:
    sizes = [f"{size:,}" if size else DASH for size in (pair.before.batch_size_global, pair.after.batch_size_global)]
    flags = "".join(f" {footnotes.mark(clean(flag, 300))}" for flag in pair.flags if not pair.settings)
    mark = f" {footnotes.mark(pair.no_interval)}" if pair.interval is None else ""
    ratios = [pair.total, pair.throughput, pair.efficiency, pair.scaling_efficiency]
    first = [markdown_escape(_devices(pair)) + flags, " → ".join(sizes), pair.scaling_kind]
    return [*first, *map(two_decimals, ratios), interval_text(pair) + mark]


def _devices(pair: ScalingPair) -> str:
    """Device counts of a pair, `1 → 8`, and its own settings if there are several results on one count."""
    return pair.places + (f", {pair.settings}" if pair.settings else "")
