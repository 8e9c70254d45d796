"""Summary, speedups and published results on the page, as plain text: the template escapes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from suite.results.compare.differences import differences
from suite.results.compare.entries import Entry
from suite.results.html.labels import run_labels
from suite.results.logs.collect import Run
from suite.results.names import WORKLOAD_TITLES, workload_name
from suite.results.report.tables import DASH, Footnotes, Table, rate_text, row_cost_text, two_decimals
from suite.results.score.bootstrap import Interval
from suite.results.score.groups import Row
from suite.results.score.measurement import Measurement, measurements
from suite.results.score.price import Prices
from suite.results.score.scaling import ScalingPair, scaling_pairs
from suite.results.targets import targets_text
from suite.results.text import clean, devices_text, placed_text, time_text

MAX_PAIRS = 60
"""Most rows of a table of speedups."""
_MAX_INTERVALS = 40
"""Tables with more rows get no intervals: each pair takes milliseconds, and pairs grow with the square of the rows."""
_FOOTNOTE_PROPERTIES = (
    "profile",
    "target",
    "clock rule",
    "round",
    "precision",
    "hardware",
    "framework",
    "stop rule",
    "mode",
)
"""Differences (suite.results.compare.differences) that become footnotes of the table of published results."""
_YEAR_3000_MS = 32_503_680_000_000.0


@dataclass(frozen=True)
class Card:
    """The summary of one workload."""

    title: str
    labels: tuple[str, ...]
    value: str
    unit: str
    text: str
    """One sentence."""


def run_counts(runs: Sequence[Run]) -> list[str]:
    """What was run: counts of runs, workloads, frameworks, and the dates."""
    records = [run.reading.record for run in runs if run.reading is not None]
    settings = [run.settings for run in runs if run.settings is not None]
    succeeded, running = sum(run.succeeded for run in runs), sum(run.running for run in runs)
    texts = [_count(len(runs), "run"), f"{succeeded:,} finished as asked"]
    failed = len(runs) - succeeded - running
    texts += [f"{failed:,} without success"] if failed else []
    texts += [f"{running:,} still running or cut off"] if running else []
    workloads = {workload_name(item.workload) for item in settings if item.workload}
    frameworks = {item.framework for item in settings if item.framework}
    texts += [_count(len(workloads), "workload")] if workloads else []
    texts += [_names(frameworks)] if frameworks else []
    starts = [record.start_ms for record in records if record.start_ms and 0 < record.start_ms < _YEAR_3000_MS]
    return texts + ([_dates(min(starts), max(starts))] if starts else [])


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _names(names: Iterable[str]) -> str:
    known = sorted(clean(name, 30) for name in names)
    return ", ".join(known[:5]) + (f" and {len(known) - 5} more" if len(known) > 5 else "")


def _dates(first_ms: float, last_ms: float) -> str:
    days = [f"{datetime.fromtimestamp(time / 1000, timezone.utc):%Y-%m-%d}" for time in (first_ms, last_ms)]
    return days[0] if days[0] == days[1] else f"{days[0]} to {days[1]}"


# --- summary ------------------------------------------------------------------------------------------------------------


def cards(rows: Sequence[Row], prices: Prices | None = None) -> list[Card]:
    """One card for each workload of each profile, with its best result."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.group.profile, workload_name(row.group.workload)), []).append(row)
    return [_card(workload, members, prices) for (_, workload), members in groups.items()]


def _card(workload: str, rows: Sequence[Row], prices: Prices | None) -> Card:
    title = WORKLOAD_TITLES.get(workload, clean(workload, 60) or "unknown workload")
    timed = [row for row in rows if row.group.to_target and row.score.seconds is not None]
    rated = [row for row in rows if row.score.samples_per_second is not None and row.score.runs_successful]
    attempts = sum(len(row.attempts) for row in rows)
    failed = sum(row.score.runs_failed for row in rows)
    attempts_text = f" {_count(attempts, 'run')}" + (f", {failed:,} without success." if failed else ".")
    if len({row.group.targets for row in timed}) > 1:
        attempts_text += " Other targets: see the tables."
    if timed:
        best = min(timed, key=lambda row: row.score.seconds or math.inf)
        value, unit = time_text(best.score.seconds or 0.0).split(" ")
        return Card(
            title, _labels([best]), value, unit, _best_time_text(best) + cost_sentence(best, prices) + attempts_text
        )
    if rated:
        best = max(rated, key=lambda row: row.score.samples_per_second or 0.0)
        text = f"Best throughput, {_setup_text(best)}{_speedup_text(best)}."
        unit = clean(f"{best.group.sample_unit or 'samples'}/s", 30)
        return Card(title, _labels([best]), rate_text(best.score.samples_per_second or 0.0), unit, text + attempts_text)
    return Card(title, _labels(rows), DASH, "", "No run did what was asked." + attempts_text)


def _labels(shown: Sequence[Row]) -> tuple[str, ...]:
    """The labels of the rows whose number a card shows."""
    return run_labels(shown) if shown[0].group.profile else ("logs of other programs",)


def cost_sentence(row: Row, prices: Prices | None) -> str:
    """` Cost 0.12.` for a row with a price; else empty."""
    cost = row_cost_text(row, prices)
    return "" if cost == DASH else f" Cost {cost}."


def _best_time_text(best: Row) -> str:
    targets = clean(targets_text(dict(list(best.group.targets.items())[:3]), workload_name(best.group.workload)), 90)
    count = best.score.epochs
    epochs = "" if count is None else f", in {count:.3g} epoch{'' if count == 1 else 's'}"
    mean = f"{best.score.method} of {best.score.runs_retained}" if best.score.runs_successful > 1 else "one run"
    return f"Fastest to {targets or 'the target'}: {_setup_text(best)}{epochs} ({mean}){_speedup_text(best)}."


def _setup_text(row: Row) -> str:
    group = row.group
    parts = [
        f"on {devices_text(group.devices, group.nodes)}" if group.devices is not None else "",
        f"with {clean(group.framework, 30)}" if group.framework else "",
        f"on {clean(group.system, 50)}" if group.system else "",
    ]
    return " ".join(part for part in parts if part) or "settings unknown"


def _speedup_text(row: Row) -> str:
    speedup = row.compared
    if speedup is None:
        return ""
    ratio = speedup.total if row.group.to_target else speedup.throughput
    base = devices_text(speedup.baseline_devices, speedup.baseline_nodes)
    return "" if ratio is None else f", {two_decimals(ratio)} times the speed of {base}"


# --- speedups -----------------------------------------------------------------------------------------------------------


def speedups(rows: Sequence[Row]) -> Table | None:
    """Speedup = throughput x efficiency for every pair of device counts; None if there is no pair."""
    all_pairs = scaling_pairs(measurements(rows), intervals=len(rows) <= _MAX_INTERVALS)
    known_pairs = [pair for pair in all_pairs if pair.total is not None or pair.throughput is not None]
    if not known_pairs:
        return None
    footnotes = Footnotes()
    header = ("series", "devices", "speedup", "= throughput", "× efficiency", "of linear", "scaling", "in words")
    body = tuple(tuple(_pair(pair, footnotes)) for pair in known_pairs[:MAX_PAIRS])
    footer = [
        "speedup = throughput scaling (time per epoch) × statistical efficiency (epochs to target); in brackets 95 % "
        "bootstrap intervals over runs. Of linear: throughput scaling over the ratio of devices. Strong scaling: same global "
        "batch; weak: same batch per device; mixed: neither."
    ]
    footer += footnotes.lines()
    footer += [f"and {len(known_pairs) - MAX_PAIRS} more pairs"] if len(known_pairs) > MAX_PAIRS else []
    return without_empty(Table(header, body, (False, True, True, True, True, True, False, False), tuple(footer)))


def without_empty(table: Table) -> Table:
    """The table without columns that are empty in every row."""
    kept = [index for index in range(len(table.header)) if any(cells[index] != DASH for cells in table.body)]
    return Table(
        header=tuple(table.header[index] for index in kept),
        body=tuple(tuple(cells[index] for index in kept) for cells in table.body),
        right_aligned=tuple(table.right_aligned[index] for index in kept),
        footer=table.footer,
    )


def _pair(pair: ScalingPair, footnotes: Footnotes) -> Iterator[str]:
    marks = [f"no interval: {pair.no_interval}"] if pair.no_interval else []
    marks += [text for text in pair.flags if text]
    marks += [text for text in pair.notes if text]
    yield clean(pair.series + (f", {pair.settings}" if pair.settings else ""), 160) + "".join(
        f" {footnotes.mark(clean(text, 160))}" for text in marks
    )
    yield pair.places
    yield _ratio(pair.total, pair.interval if pair.total is not None else None)
    yield _ratio(pair.throughput, pair.interval_throughput)
    yield _ratio(pair.efficiency, pair.interval_efficiency)
    yield DASH if pair.scaling_efficiency is None else f"{100 * pair.scaling_efficiency:.0f} %"
    yield pair.scaling_kind
    yield clean(pair.verdict, 200)


def _ratio(value: float | None, interval: Interval | None) -> str:
    if value is None or interval is None:
        return two_decimals(value)
    return f"{value:.2f} [{interval.low:.2f}–{interval.high:.2f}]"


# --- published results --------------------------------------------------------------------------------------------------


def published_table(ours: Sequence[Measurement], published: Sequence[Measurement]) -> Table | None:
    """Our scores beside published ones of the same workloads, with differences; None without a common workload."""
    shared = {item.workload for item in ours} & {item.workload for item in published}
    if not shared:
        return None
    footnotes = Footnotes()
    lines: list[tuple[str, ...]] = []
    for workload in sorted(shared):
        theirs = _sorted(item for item in published if item.workload == workload)
        mine = _sorted(item for item in ours if item.workload == workload)
        lines += [_published_row(item, "") for item in theirs]
        lines += [_published_row(item, _mark(_differences_text(item, theirs), footnotes)) for item in mine]
    header = ("workload", "result", "devices", "time", "epochs", "target", "global batch", "clock", "device")
    right = (False, False, True, True, True, False, True, False, False)
    return Table(header, tuple(lines), right, tuple(footnotes.lines()))


def _mark(text: str, footnotes: Footnotes) -> str:
    return footnotes.mark(text) if text else ""


def _sorted(items: Iterable[Measurement]) -> list[Measurement]:
    return sorted(items, key=lambda item: (item.origin, item.series, item.devices, item.score.seconds or 0.0))


def _published_row(item: Measurement, mark: str) -> tuple[str, ...]:
    labels = [item.profile, *(label for label in item.labels if label != item.profile)]
    theirs = item.series if "article" in item.labels else f"{item.series}, {item.origin}"
    whose = f"ours ({', '.join(labels)}): {item.series}" if item.origin == "ours" else theirs
    return (
        clean(item.workload, 40),
        f"{clean(whose, 120)} {mark}".strip(),
        placed_text(item.devices, item.nodes),
        DASH if item.score.seconds is None else time_text(item.score.seconds),
        DASH if item.score.epochs is None else f"{item.score.epochs:.3g}",
        clean(targets_text(item.targets, item.workload), 60) or DASH,
        DASH if item.batch_size_global is None else f"{item.batch_size_global:,}",
        clean(item.clock, 20) or DASH,
        clean(item.hardware, 60) or DASH,
    )


def _differences_text(mine: Measurement, theirs: Sequence[Measurement]) -> str:
    """Known differences from the published result with the nearest number of devices, as far as no column shows them."""
    nearest = min(theirs, key=lambda item: abs(math.log((item.devices or 1) / (mine.devices or 1))))
    known = differences(Entry(mine, ""), Entry(nearest, "")).known
    return "; ".join(
        clean(f"{item.name} {item.ours}, theirs {item.theirs}", 160)
        for item in known
        if item.name in _FOOTNOTE_PROPERTIES
    )
