"""The list of runs on the page, with settings and environment, as plain text. Logs and their folders are not trusted."""

from __future__ import annotations

import json
import os
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from suite.results.columns import BUSY, RunRow
from suite.results.identity import label
from suite.results.logs.quality import quality_text
from suite.results.logs.record import FACTS
from suite.results.logs.recorded_telemetry import json_object
from suite.results.targets import bleu_scale, metric_title, targets_told
from suite.results.text import clean, devices_text, figure_text, time_text
from workloads.api import Json

MAX_RUNS = 2_000  # Runs that are listed; the tables count all
_WITH_SETTINGS = 100  # The first of them have their settings: those of runs of one result are the same
_MAX_LINES = 80  # Lines of one list: a log may hold any number of keys
_ENVIRONMENT = ("environment", "versions", "hardware", "git", "cores", "cache_cleared")  # of run.json, docs/logs.md
Lines = Iterable[tuple[str, Any]]


def run_views(runs: Sequence[RunRow], home: Path, number: Callable[[RunRow], int]) -> list[dict[str, Any]]:
    """The first MAX_RUNS runs, prepared for the page in the folder `home`: a summary line, and what opens below it. `number`:
    of a run on the page."""
    return [_view(run, home, at < _WITH_SETTINGS) | {"of": number(run)} for at, run in enumerate(runs[:MAX_RUNS])]


def _view(run: RunRow, home: Path, with_settings: bool) -> dict[str, Any]:
    settings, path = run.source.settings if run.source else None, Path(run.path)
    condition = {"busy": run.condition.busy or ("no",), **run.condition.figures} if run.condition is not None else {}
    lists: dict[str, Lines] = {
        "Settings": [
            (label(name), _setting(name, value, run)) for name, value in vars(settings).items() if name not in FACTS
        ]
        if settings
        else [],
        "Logged values": _logged(run),
        "Machine during the run": condition.items(),
        "Environment": _environment(_folder(run)),
    }
    shown = {title: _bounded(lines) for title, lines in lists.items() if with_settings}
    return {
        "name": clean(run.run[-120:], 120),
        "status": clean(run.status, 30) or "unknown",
        "succeeded": run.succeeded,
        "facts": list(filter(None, _facts(run))) or [clean(run.reason, 120)],
        "lists": {title: lines for title, lines in shown.items() if lines},
        "files": [(one.name or "folder", link(one, home)) for one in dict.fromkeys((path, _folder(run)))],
    }


def _setting(name: str, value: Any, run: RunRow) -> Any:
    return targets_told(value, run.workload) if name == "targets" else value


def _folder(run: RunRow) -> Path:
    path = Path(run.path)
    return path if run.record is None and path.is_dir() else path.parent


def link(path: Path, home: Path) -> str:
    """A file as seen from the page: no scheme, and nothing that a browser takes for one or for markup."""
    return "./" + urllib.parse.quote(os.fsencode(os.path.relpath(path.absolute(), home.absolute())))


def _facts(run: RunRow) -> Iterator[str]:
    yield from (clean(run.workload, 40), clean(run.framework, 40))
    yield "" if run.devices is None else devices_text(run.devices, run.nodes)
    yield "" if run.seconds is None else time_text(run.seconds)
    yield "" if run.epochs is None else f"{run.epochs:g} epochs"
    for name, value in list(run.record.quality.items())[:3] if run.record is not None else ():
        shown = quality_text(value * bleu_scale(name, run.targets.get(name), [value]))
        yield f"{metric_title(clean(name, 20))} {shown}"
    if run.condition is not None and run.condition.busy:
        yield clean(f"{BUSY}: {' and '.join(run.condition.busy)}", 120)
    if timed := run.timed_seconds:
        yield "" if run.data_wait_seconds is None else f"data wait {100 * run.data_wait_seconds / timed:.2g} %"
        evaluated = run.evaluation_seconds
        yield "" if evaluated is None else f"evaluation {100 * evaluated / (evaluated + timed):.2g} %"


def _logged(run: RunRow) -> Iterator[tuple[str, Any]]:
    for name in ("path", "format", "seed", "benchmark", "org", "division", "platform"):
        yield name, getattr(run.record, name, None)
    if run.samples and run.train_seconds:
        yield "throughput", f"{figure_text(run.samples / run.train_seconds)} {run.sample_unit or 'samples'}/s"
    yield from run.record.hyperparameters.items() if run.record is not None else ()


def _environment(folder: Path) -> Iterator[tuple[str, Any]]:
    stored = json_object(folder / "run.json")
    for name in _ENVIRONMENT:
        yield from _flat(name, stored.get(name), 4)
    settings = stored.get("settings")
    yield from _flat("source of", settings.get("hyperparameter_sources") if isinstance(settings, dict) else None, 1)


def _flat(name: str, value: Json, depth: int) -> Iterator[tuple[str, Json]]:
    """Nested objects as (`versions numpy`, value) pairs; lists, and objects deeper than `depth`, stay as they are."""
    if isinstance(value, Mapping) and depth > 0:
        for key, inner in list(value.items())[:_MAX_LINES]:
            yield from _flat(f"{name} {key}", inner, depth - 1)
    else:
        yield name, value


def _bounded(lines: Lines) -> list[tuple[str, str]]:
    """The first lines of those that say something, clean."""
    every = [(clean(str(name), 60), _text(value)) for name, value in lines if value not in (None, "", (), [], {})]
    return every[:_MAX_LINES] + ([("…", f"and {len(every) - _MAX_LINES:,} more")] if len(every) > _MAX_LINES else [])


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return clean("; ".join(map(str, value)), 4000)
    if isinstance(value, Mapping):
        value = ", ".join(f"{key} {inner}" for key, inner in list(value.items())[:20])
    try:
        if isinstance(value, int | float):
            return f"{value:.12g}"
        return clean(json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value), 200)
    except (RecursionError, OverflowError, ValueError):
        return "–"
