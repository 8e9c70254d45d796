"""List of runs on the page, as plain text.

The list contains a summary, the settings, and the environment of each run.

Logs and their folders are untrusted, so every text is sanitized and limited in length, and every
link is relative.
"""

from __future__ import annotations

import json
import os
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from suite.common.labels import LabelKind
from suite.launch.registered_frameworks import title_of
from suite.results.columns import Columns, Run
from suite.results.experiment_key import label
from suite.results.logs.quality import quality_text
from suite.results.logs.record import FACTS
from suite.results.logs.recorded_telemetry import json_object
from suite.results.names import short_title
from suite.results.targets import bleu_scale, metric_title, target_text
from suite.results.text import clean, devices_text, figure_text, percent_text, time_text
from suite.results.time_parts import TimeParts, time_parts
from workloads.api import Json

MAX_RUNS = 2_000
"""Maximum number of runs in the list. The tables include all runs."""
_MAX_RUNS_WITH_DETAILS = 100
"""Maximum number of runs whose settings are listed. The other runs usually have the same
settings.
"""
_MAX_LINES = 80
"""Maximum number of lines in a list of details. The limit is needed because a log may contain any
number of keys.
"""
_MAX_METRICS = 3
_ENVIRONMENT = ("environment", "versions", "hardware", "git", "cores", "cache_cleared")
"""Keys of run.json that the page displays (docs/reference/log_format.md)."""
PART_NAMES: Mapping[str, str] = {
    "setup": "setup",
    "training": "training",
    "data_wait": "waiting for data",
    "evaluation": "evaluation",
    "other": "other",
}
"""Display name of each field of TimeParts."""
Lines = Iterable[tuple[str, Any]]


@dataclass(frozen=True)
class RunView:
    """A run in the format that the template needs."""

    number: int
    """Number of the run on the page."""
    name: str
    status: str
    succeeded: bool
    summary: str
    details: Mapping[str, Sequence[tuple[str, str]]]
    """Maps the heading of each list of details to its lines. A line is a pair (name, value)."""
    files: Sequence[tuple[str, str]]
    """Pairs (name, relative link) for the log and for the log's folder."""


def run_views(runs: Sequence[Run], home: Path, number: Callable[[Run], int]) -> list[RunView]:
    """Convert the first MAX_RUNS runs to the format that the template needs.

    Args:
        runs: All runs of the page.
        home: Folder of the page. Links are relative to this folder.
        number: Function that returns the number of a run on the page.
    """
    shown = runs[:MAX_RUNS]
    return [
        _run_view(run, home, number(run), has_details=position < _MAX_RUNS_WITH_DETAILS)
        for position, run in enumerate(shown)
    ]


def _run_view(run: Run, home: Path, number: int, has_details: bool) -> RunView:
    path, folder = Path(run.path), _folder(run)
    files = {path: path.name or "folder", folder: folder.name or "folder"}
    return RunView(
        number=number,
        name=clean(run.run[-120:], 120),
        status=clean(run.status, 30) or "unknown",
        succeeded=run.succeeded,
        summary=_summary(run),
        details=_details(run, folder) if has_details else {},
        files=[(name, relative_link(target, home)) for target, name in files.items()],
    )


def _folder(run: Run) -> Path:
    path = Path(run.path)
    return path if run.record is None and path.is_dir() else path.parent


def relative_link(path: Path, home: Path) -> str:
    """Return a link to a file, relative to the page's folder `home`.

    The link has no URL scheme and no markup characters.
    """
    return "./" + urllib.parse.quote(os.fsencode(os.path.relpath(path.absolute(), home.absolute())))


# --- the summary
# ---------------------------------------------------------------------------------------------


def subject_text(row: Columns) -> str:
    """Describe workload, framework, and devices: `NCF with PyTorch on 2 devices`.

    Unknown values are omitted.
    """
    workload = short_title(clean(row.workload, 40))
    framework = f"with {clean(title_of(row.framework), 40)}" if row.framework else ""
    devices = f"on {devices_text(row.devices, row.nodes)}" if row.devices else ""
    return " ".join(part for part in (workload, framework, devices) if part)


def _summary(run: Run) -> str:
    """Return a summary of a run in one line.

    Example: `NCF with PyTorch on 2 devices: 5.6 s to target, 5 epochs, hit rate at 10 0.651`.
    """
    subject, measured = subject_text(run), ", ".join(_measured(run))
    texts = [f"{subject}: {measured}" if subject and measured else subject or measured]
    if not run.succeeded:
        texts.append(clean(run.reason, 120))
    return ". ".join(text for text in texts if text)


def _measured(run: Run) -> Iterator[str]:
    if run.seconds is not None:
        yield f"{time_text(run.seconds)}{' to target' if run.to_target and run.succeeded else ''}"
    if run.epochs is not None:
        unit = run.epoch_unit.removesuffix("s") if run.epochs == 1 else run.epoch_unit
        yield f"{run.epochs:g} {unit}" if run.epochs < 1e6 else f"{run.epochs:,.0f} {unit}"
    if run.record is not None:
        for name, value in list(run.record.quality.items())[:_MAX_METRICS]:
            text = quality_text(value * bleu_scale(name, run.targets.get(name), [value]))
            yield f"{metric_title(clean(name, 20))} {text}"
    if run.condition is not None and run.condition.busy:
        yield clean(f"{LabelKind.BUSY.value}: {' and '.join(run.condition.busy)}", 120)


def parts_lines(parts: TimeParts | None) -> Iterator[tuple[str, str]]:
    """Yield the components of a run time with their fractions.

    Example: `("setup", "1.7 s (20 %)")`. Components of zero seconds are omitted.
    """
    if parts is None or not parts.total:
        return
    for name, title in PART_NAMES.items():
        seconds = getattr(parts, name)
        if seconds:
            yield title, f"{time_text(seconds)} ({percent_text(seconds / parts.total)})"


# --- the details
# ---------------------------------------------------------------------------------------------


def _details(run: Run, folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the details of a run as a mapping from heading to lines, without empty lists."""
    lists: dict[str, Lines] = {
        "Parts of the time": parts_lines(None if run.record is None else time_parts(run.record)),
        "Settings": _settings(run),
        "Values in the log": _logged(run),
        "Machine during the run": _condition(run),
        "Environment": _environment(folder),
    }
    bounded = {title: _bounded(lines) for title, lines in lists.items()}
    return {title: lines for title, lines in bounded.items() if lines}


def _settings(run: Run) -> Iterator[tuple[str, Any]]:
    settings = run.source.described_settings if run.source is not None else None
    if settings is None:
        return
    for item in fields(settings):
        if item.name not in FACTS:
            value = getattr(settings, item.name)
            yield (
                label(item.name),
                target_text(value, run.workload, run.falling_metrics)
                if item.name == "targets"
                else value,
            )


def _condition(run: Run) -> Iterator[tuple[str, Any]]:
    if run.condition is not None:
        yield "busy", run.condition.busy or ("no",)
        yield from run.condition.figures.items()


def _logged(run: Run) -> Iterator[tuple[str, Any]]:
    if run.record is None:
        return
    record = run.record
    for name in ("format", "seed", "benchmark", "org", "division", "platform"):
        yield name, getattr(record, name)
    if run.samples and run.train_seconds:
        yield (
            "throughput",
            f"{figure_text(run.samples / run.train_seconds)} {run.sample_unit or 'samples'}/s",
        )
    yield from record.hyperparameters.items()


def _environment(folder: Path) -> Iterator[tuple[str, Any]]:
    stored = json_object(folder / "run.json")
    for name in _ENVIRONMENT:
        yield from _flat(name, stored.get(name), 4)
    settings = stored.get("settings")
    yield from _flat(
        "source of",
        settings.get("hyperparameter_sources") if isinstance(settings, dict) else None,
        1,
    )


def _flat(name: str, value: Json, depth: int) -> Iterator[tuple[str, Json]]:
    """Flatten nested objects to pairs such as (`versions numpy`, value).

    Lists, and objects below the given depth, are not flattened.
    """
    if isinstance(value, Mapping) and depth > 0:
        for key, inner in list(value.items())[:_MAX_LINES]:
            yield from _flat(f"{name} {key}", inner, depth - 1)
    else:
        yield name, value


def _bounded(lines: Lines) -> list[tuple[str, str]]:
    """Return the first lines that have a value, sanitized.

    If lines are omitted, a final line contains their number.
    """
    lines_with_value = [
        (clean(str(name), 60), _text(value))
        for name, value in lines
        if value not in (None, "", (), [], {})
    ]
    hidden = len(lines_with_value) - _MAX_LINES
    if hidden <= 0:
        return lines_with_value
    return [*lines_with_value[:_MAX_LINES], ("…", f"and {hidden:,} more")]


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
        return clean(
            json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value), 200
        )
    except (RecursionError, OverflowError, ValueError):
        return "–"
