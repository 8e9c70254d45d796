"""The list of runs on the page, with settings and environment, as plain text. Logs and their folders are not trusted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from suite.results.logs.collect import Run
from suite.results.logs.record import RunRecord, RunSettings
from suite.results.logs.recorded_telemetry import json_object
from suite.results.report.tables import DASH, MAX_DEVIATIONS, rate_text
from suite.results.report.time_fractions import time_fractions
from suite.results.score.condition import BUSY
from suite.results.targets import bleu_scale
from suite.results.text import clean, devices_text, time_text
from workloads.api import Json

MAX_RUNS = 400
"""Runs shown with their settings; the tables count all."""
_MAX_LINES = 80
"""Lines of one list: a log may hold any number of keys."""
_ENVIRONMENT = ("environment", "versions", "hardware", "git", "cores", "cache_cleared")
"""Keys of `run.json` (docs/logs.md) about the environment of the run."""
Lines = tuple[tuple[str, str], ...]
"""(name, value), both clean."""


@dataclass(frozen=True)
class RunView:
    """One run on the page: a summary line and lists that open below it."""

    name: str
    status: str
    succeeded: bool
    facts: tuple[str, ...]
    lists: tuple[tuple[str, Lines], ...]
    """(title, lines), empty ones left out."""


def run_views(runs: Sequence[Run]) -> list[RunView]:
    """The first MAX_RUNS runs, prepared for the page."""
    return [_view(run) for run in runs[:MAX_RUNS]]


def _view(run: Run) -> RunView:
    record = run.reading.record if run.reading is not None else None
    folder = run.path if record is None and run.path.is_dir() else run.path.parent
    lists = (
        ("Settings", _settings(run.settings)),
        ("Logged values", _bounded(_logged(record))),
        ("Machine during the run", _machine(record)),
        ("Environment", _bounded(_environment(folder))),
    )
    return RunView(
        name=clean(run.name[-120:], 120),
        status=clean(run.status, 30) or "unknown",
        succeeded=run.succeeded,
        facts=tuple(_facts(run.settings, record)) or ((clean(run.reason, 120),) if run.reason else ()),
        lists=tuple((title, lines) for title, lines in lists if lines),
    )


def _facts(settings: RunSettings | None, record: RunRecord | None) -> Iterator[str]:
    if settings is not None:
        yield from (clean(text, 40) for text in (settings.workload, settings.framework) if text)
        if settings.devices is not None:
            yield devices_text(settings.devices, settings.nodes)
    if record is None:
        return
    if record.seconds is not None:
        yield time_text(record.seconds)
    if record.epochs_to_target is not None:
        yield f"{record.epochs_to_target:g} epochs"
    for name, value in list(record.quality.items())[:3]:
        yield f"{clean(name, 20)} {value * bleu_scale(name, record.targets.get(name), [value]):.4g}"
    if record.condition is not None and record.condition.busy:
        yield clean(f"{BUSY}: {' and '.join(record.condition.busy)}", 120)
    yield from (f"{part} %" for part in _time_fractions(record))


def _time_fractions(record: RunRecord) -> Iterator[str]:
    """Percentages of the training time spent waiting for data, and of the time spent in evaluations."""
    fractions = time_fractions(record.throughput)
    if fractions.data_wait is not None:
        yield f"data wait {100 * fractions.data_wait:.2g}"
    if fractions.evaluation is not None:
        yield f"evaluation {100 * fractions.evaluation:.2g}"


def _settings(settings: RunSettings | None) -> Lines:
    if settings is None:
        return ()
    values = ((item.name, getattr(settings, item.name)) for item in fields(RunSettings))
    return _bounded(((name, value) for name, value in values if value not in (None, "", (), {})), MAX_DEVIATIONS)


def _logged(record: RunRecord | None) -> Iterator[tuple[str, object]]:
    if record is None:
        return
    yield "log", str(record.path)
    yield "format", record.format
    if record.seed is not None:
        yield "seed", record.seed
    identity = (("benchmark", record.benchmark), ("org", record.org), ("division", record.division))
    yield from ((name, value) for name, value in (*identity, ("platform", record.platform)) if value)
    rates = [item.samples_per_second for item in record.throughput if item.samples_per_second is not None]
    if rates:
        yield "throughput of the last block", f"{rate_text(rates[-1])} samples/s"
    yield from record.hyperparameters.items()


def _machine(record: RunRecord | None) -> Lines:
    """`suite_condition`, line by line."""
    if record is None or record.condition is None:
        return ()
    busy = record.condition.busy or ("no",)
    return _bounded([("busy", busy), *record.condition.figures.items()])


def _environment(folder: Path) -> Iterator[tuple[str, object]]:
    stored = json_object(folder / "run.json")
    for name in _ENVIRONMENT:
        if name in stored:
            yield from _flat(name, stored[name], 4)
    settings = stored.get("settings")
    sources = settings.get("hyperparameter_sources") if isinstance(settings, dict) else None
    yield from _flat("source of", sources if isinstance(sources, dict) else {}, 1)


def _flat(name: str, value: Json, depth: int) -> Iterator[tuple[str, Json]]:
    """Nested objects as (`versions numpy`, value) pairs; lists, and objects deeper than `depth`, stay as they are."""
    if isinstance(value, Mapping) and depth > 0:
        for key, inner in list(value.items())[:_MAX_LINES]:
            yield from _flat(f"{name} {key}", inner, depth - 1)
    elif value not in (None, "", [], {}):
        yield name, value


def _bounded(lines: Iterator[tuple[str, object]] | Sequence[tuple[str, object]], limit: int = 200) -> Lines:
    """The first lines; of lists of texts `limit` characters, of other values 200."""
    every = [(clean(str(name), 60), _text(value, limit)) for name, value in lines]
    more = [("…", f"and {len(every) - _MAX_LINES:,} more")] if len(every) > _MAX_LINES else []
    return tuple(every[:_MAX_LINES] + more)


def _text(value: object, limit: int = 200) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:.12g}"
    if isinstance(value, str):
        return clean(value, 200) or DASH
    if isinstance(value, Mapping):
        return clean(", ".join(f"{key} {inner}" for key, inner in list(value.items())[:20]), 200)
    if isinstance(value, tuple):
        return clean("; ".join(map(str, value)), limit)
    try:
        return clean(json.dumps(value, ensure_ascii=False), 200)
    except (RecursionError, ValueError):
        return DASH
