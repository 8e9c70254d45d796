"""The list of runs on the page, with settings and environment, as plain text. Logs and their folders are not trusted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from suite.results.identity import Row
from suite.results.logs.record import RunRecord
from suite.results.logs.recorded_telemetry import json_object
from suite.results.scores import BUSY
from suite.results.targets import bleu_scale
from suite.results.text import clean, devices_text, time_text
from workloads.api import Json

MAX_RUNS = 400
"""Runs shown with their settings; the tables count all."""
_MAX_LINES = 80
"""Lines of one list: a log may hold any number of keys."""
_ENVIRONMENT = ("environment", "versions", "hardware", "git", "cores", "cache_cleared")
"""Keys of `run.json` (docs/logs.md) about the environment of the run."""
Lines = list[tuple[str, str]]
"""(name, value), both clean."""


def run_views(runs: Sequence[Row]) -> list[dict[str, Any]]:
    """The first MAX_RUNS runs, prepared for the page: a summary line, and lists that open below it."""
    return [_view(run) for run in runs[:MAX_RUNS]]


def _view(run: Row) -> dict[str, Any]:
    settings, record, path = run.source.settings if run.source else None, run.record, Path(run.path)
    told = [] if settings is None else [(item.name, getattr(settings, item.name)) for item in fields(settings)]
    condition = record.condition if record is not None else None
    folder = path if record is None and path.is_dir() else path.parent
    lists = {
        "Settings": _bounded(told),
        "Logged values": _bounded(_logged(run, record) if record is not None else ()),
        "Machine during the run": _bounded(
            [] if condition is None else [("busy", condition.busy or ("no",)), *condition.figures.items()]
        ),
        "Environment": _bounded(_environment(folder)),
    }
    return {
        "name": clean(run.run[-120:], 120),
        "status": clean(run.status, 30) or "unknown",
        "succeeded": run.succeeded,
        "facts": list(_facts(run)) or [clean(run.reason, 120)],
        "lists": {title: lines for title, lines in lists.items() if lines},
    }


def _facts(run: Row) -> Iterator[str]:
    yield from (clean(text, 40) for text in (run.workload, run.framework) if text)
    if run.devices is not None:
        yield devices_text(run.devices, run.nodes)
    if run.seconds is not None:
        yield time_text(run.seconds)
    if run.epochs is not None:
        yield f"{run.epochs:g} epochs"
    for name, value in list(run.record.quality.items())[:3] if run.record is not None else ():
        yield f"{clean(name, 20)} {value * bleu_scale(name, run.targets.get(name), [value]):.4g}"
    if run.condition is not None and run.condition.busy:
        yield clean(f"{BUSY}: {' and '.join(run.condition.busy)}", 120)
    if run.data_wait_seconds is not None and run.timed_seconds:
        yield f"data wait {100 * run.data_wait_seconds / run.timed_seconds:.2g} %"
    if run.evaluation_seconds is not None and run.timed_seconds:
        yield f"evaluation {100 * run.evaluation_seconds / (run.evaluation_seconds + run.timed_seconds):.2g} %"


def _logged(run: Row, record: RunRecord) -> Iterator[tuple[str, object]]:
    yield from (("log", str(record.path)), ("format", record.format), ("seed", record.seed))
    yield from ((name, getattr(record, name)) for name in ("benchmark", "org", "division", "platform"))
    rates = [item.samples_per_second for item in record.throughput if item.samples_per_second is not None]
    if rates:
        yield "throughput of the last block", f"{rates[-1]:.4g} {run.sample_unit or 'samples'}/s"
    yield from record.hyperparameters.items()


def _environment(folder: Path) -> Iterator[tuple[str, object]]:
    stored = json_object(folder / "run.json")
    for name in _ENVIRONMENT:
        yield from _flat(name, stored.get(name), 4)
    settings = stored.get("settings")
    sources = settings.get("hyperparameter_sources") if isinstance(settings, dict) else None
    yield from _flat("source of", sources if isinstance(sources, dict) else {}, 1)


def _flat(name: str, value: Json, depth: int) -> Iterator[tuple[str, Json]]:
    """Nested objects as (`versions numpy`, value) pairs; lists, and objects deeper than `depth`, stay as they are."""
    if isinstance(value, Mapping) and depth > 0:
        for key, inner in list(value.items())[:_MAX_LINES]:
            yield from _flat(f"{name} {key}", inner, depth - 1)
    else:
        yield name, value


def _bounded(lines: Iterable[tuple[str, object]]) -> Lines:
    """The first lines of those that say something."""
    every = [(clean(str(name), 60), _text(value)) for name, value in lines if value not in (None, "", (), [], {})]
    return every[:_MAX_LINES] + ([("…", f"and {len(every) - _MAX_LINES:,} more")] if len(every) > _MAX_LINES else [])


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:.12g}"
    if isinstance(value, Mapping):
        return clean(", ".join(f"{key} {inner}" for key, inner in list(value.items())[:20]), 200)
    if isinstance(value, tuple):
        return clean("; ".join(map(str, value)), 4000)
    try:
        return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 200)
    except (RecursionError, ValueError):
        return "–"
