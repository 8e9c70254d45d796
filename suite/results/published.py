"""Published results of rounds and of the DGX-1 scaling article, from the CSV files in `logs/published/` (columns: its README).

Users may add files of their own beside them: `results*.csv` with the same columns, any subset of the optional ones. The logs of
other programs get from here, or from the system description beside them, what they do not say themselves.
"""

from __future__ import annotations

import csv
import functools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.common.paths import shipped
from suite.results.columns import row_of
from suite.results.logs.collect import Run
from suite.results.logs.reader import LATER_ROUNDS
from suite.results.logs.record import RunSettings
from suite.results.names import framework_name, workload_name
from suite.results.targets import METRIC_NAMES
from suite.results.text import clean
from workloads.api import Json

FOLDER_VARIABLE = "SUITE_PUBLISHED_DIR"
"""Environment variable that names one more folder of such files."""
SHIPPED = shipped("logs/published")
"""Folder of the CSV files that come with the project."""
OWN_FILE_LABEL = "own file"
"""Label of results from files that do not come with the project: nobody has reviewed them."""
ARTICLE = "dgx1-article"
"""Round and `--to` name of the article's tables 1-6."""
REQUIRED_COLUMNS = ("round", "submitter", "system", "chips", "framework", "benchmark", "minutes")
_LARGEST_NUMBER = 1e15
"""Largest number accepted in a cell."""
_DESCRIPTION_BYTES = 1 << 20
"""Longer files are not read as system descriptions."""
_MOST_DEVICES = 1_000_000


# --- the files ----------------------------------------------------------------------------------------------------------


def published_folders() -> tuple[Path, ...]:
    """The folders with published results. Raises ValueError if the user's folder does not exist."""
    extra = os.environ.get(FOLDER_VARIABLE)
    if not extra:
        return (SHIPPED,)
    users_folder = Path(extra).expanduser()
    if not users_folder.is_dir():
        raise ValueError(f"{FOLDER_VARIABLE}={extra}: no such folder; name one with results*.csv files, or unset it")
    return (SHIPPED, users_folder)


@functools.cache
def published_rows(places: tuple[Path, ...] | None = None) -> tuple[dict[str, Any], ...]:
    """A row (suite.results.columns) for each published run, for each result of whose runs nothing is known, and for each row of
    the article. Raises ValueError (one line) for a file that does not fit."""
    places = places if places is not None else published_folders()
    runs: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for path in _files(places, "runs*.csv"):
        for line, row in _rows(path, ("round", "submitter", "system", "benchmark", "seconds", "status")):
            runs.setdefault(_key(row), []).append(_run_values(path, line, row))
    found = []
    for path in _files(places, "results*.csv"):
        for line, row in _rows(path, REQUIRED_COLUMNS):
            values = _result_values(path, line, row)
            own = runs.get(_key(row))
            found += [{**values, **run} for run in own] if own else [{**values, "single_figure": True}]
    for path in _files(places, "dgx1_scaling.csv"):
        for line, row in _rows(path, ("benchmark", "chips", "batch", "minutes_per_epoch", "epochs")):
            found.append(_article_values(path, line, row))
    return tuple(found)


def csv_rows(name: str, required: Sequence[str]) -> list[Mapping[str, str]]:
    """The rows of all files of a name such as `throughput*.csv`, as text."""
    return [row for path in _files(published_folders(), name) for _, row in _rows(path, required)]


def _files(places: Iterable[Path], pattern: str) -> Iterator[Path]:
    for folder in places:
        yield from sorted(folder.glob(pattern))


def _rows(path: Path, required: Sequence[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """(line, row) for each row of a CSV file. Raises ValueError for a missing column or a file that is no CSV."""
    try:
        with open(path, newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in required if name not in (reader.fieldnames or ())]
            if missing:
                raise ValueError(f"{path}: no column {', '.join(missing)}; it needs {', '.join(required)}")
            for row in reader:
                yield reader.line_num, {name: value or "" for name, value in row.items() if name}
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read as a CSV file ({error})") from error


def _key(row: Mapping[str, str]) -> tuple[str, ...]:
    return (row["round"], row["submitter"], row["system"], workload_name(row["benchmark"]))


def _number(path: Path, line: int, row: Mapping[str, str], name: str) -> float | None:
    """A cell as a number; None for an empty cell. Raises ValueError with file and line for other text."""
    text = row.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _LARGEST_NUMBER:
        raise ValueError(f"{path} line {line}: {name} is {text[:40]!r}; give a number from 0 on, or leave it empty")
    return value


def _count(path: Path, line: int, row: Mapping[str, str], name: str) -> int | None:
    value = _number(path, line, row, name)
    return None if value is None else int(value)


@functools.cache
def _blank() -> dict[str, Any]:
    return row_of(Run(Path(), "", None, RunSettings(), "success", "")) | {"published": True, "path": ""}


def _run_values(path: Path, line: int, row: Mapping[str, str]) -> dict[str, Any]:
    """What a run has of its own."""
    started = _number(path, line, row, "run_start_unix_seconds")
    seconds = _number(path, line, row, "seconds")
    return {
        "seconds": seconds,
        "epochs": _number(path, line, row, "epochs"),
        "start_ms": started * 1e3 if started else None,
        "status": row["status"],
        "succeeded": row["status"] == "success" and bool(seconds),
    }


def _result_values(path: Path, line: int, row: Mapping[str, str]) -> dict[str, Any]:
    workload, seconds = workload_name(row["benchmark"]), _number(path, line, row, "seconds")
    minutes, target = _number(path, line, row, "minutes"), _number(path, line, row, "target")
    unit = row.get("batch_unit", "")
    return {
        **_blank(),
        **{name: row[name] for name in ("round", "submitter", "system")},
        "run": f"{row['round']}/{row['submitter']}/{row['system']}",
        "workload": workload,
        "benchmark": row["benchmark"],
        "division": row.get("division", ""),
        "framework": framework_name(row["framework"], row["system"]),
        "device_name": row.get("accelerator", ""),
        "devices": _count(path, line, row, "chips") or None,
        "nodes": _count(path, line, row, "nodes") or 1,
        "batch_size_global": _count(path, line, row, "batch"),
        "batch_unit": unit,
        "sample_unit": unit,
        "rules": row["round"],
        "clock": "v0.5" if row["round"] == "v0.5" else "v0.7",
        "targets": {} if target is None else _targets(workload, target, _number(path, line, row, "target_mask")),
        "labels": () if path == SHIPPED / "results.csv" else (OWN_FILE_LABEL,),
        "seconds": minutes * 60 if seconds is None and minutes is not None else seconds,
        "epochs": _number(path, line, row, "epochs"),
        "published_rate": _number(path, line, row, "throughput"),
        "note": row.get("note", ""),
        "source": row,
    }


def _targets(workload: str, target: float, mask: float | None) -> dict[str, float]:
    targets = {METRIC_NAMES.get(workload, "quality"): target}
    return {**targets, "SEGM": mask} if mask is not None else targets


def _article_values(path: Path, line: int, row: Mapping[str, str]) -> dict[str, Any]:
    """A row of the article's tables 1-6: one time per epoch and one count of epochs, no single runs."""
    workload, devices = workload_name(row["benchmark"]), _count(path, line, row, "chips") or 0
    batch, epochs = _count(path, line, row, "batch"), _number(path, line, row, "epochs") or 0.0
    target, mask = _number(path, line, row, "target"), _number(path, line, row, "target_mask")
    per_device = row.get("batch_basis", "") == "per device"
    known = batch is not None and row.get("batch_basis", "") != "unknown"
    return {
        **_blank(),
        "round": ARTICLE,
        "submitter": "Microway",
        "system": "dgx1",
        "run": f"{ARTICLE}/Microway/dgx1",
        "workload": workload,
        "benchmark": row["benchmark"],
        "framework": "mxnet" if workload == "resnet50" else "pytorch",
        "device_name": "Tesla V100-SXM2",
        "devices": devices,
        "nodes": 1,
        "batch_size_global": batch * (devices if per_device else 1) if known and batch is not None else None,
        "batch_unit": "tokens" if workload == "transformer" else "samples",
        "precision": row.get("precision", ""),
        "rules": "v0.5",
        "clock": "unknown",
        "targets": {} if target is None else _targets(workload, target, mask),
        "labels": ("article",),
        "seconds": 60 * epochs * (_number(path, line, row, "minutes_per_epoch") or 0.0),
        "epochs": epochs,
        "single_figure": True,
        "note": "time per epoch times epochs, as the article prints them",
        "source": row,
    }


# --- logs of other programs ---------------------------------------------------------------------------------------------


def with_system_details(runs: Sequence[Run]) -> list[Run]:
    """The runs; those of other programs with devices, hardware and framework added where they are known.

    A log that is one of the published runs gets the details published with it; any other those of its system description.
    """
    folders = {run.path.parent for run in runs if _is_foreign(run)}
    known = _by_start() if folders else {}
    described = {folder: _details_beside(folder) for folder in folders}
    return [
        _fill_in(run, _published_details(run, known) or described[run.path.parent]) if _is_foreign(run) else run
        for run in runs
    ]


def _is_foreign(run: Run) -> bool:
    return run.settings is not None and not run.settings.profile and run.settings.devices is None


def _fill_in(run: Run, values: Mapping[str, Any]) -> Run:
    assert run.settings is not None
    unknown = {"rules": (LATER_ROUNDS, "")}
    kept = {
        name: value
        for name, value in values.items()
        if getattr(run.settings, name) in unknown.get(name, ()) or not getattr(run.settings, name)
    }
    return replace(run, settings=replace(run.settings, **kept))


def _published_details(run: Run, known: Mapping[tuple[str, int, int], Mapping[str, Any]]) -> dict[str, Any]:
    """What is published of this very run; empty if it is not among the published ones."""
    if run.reading is None or run.settings is None:
        return {}
    record = run.reading.record
    row = known.get(_identity(workload_name(run.settings.workload), record.start_ms, record.seconds))
    names = ("devices", "nodes", "device_name", "framework", "batch_size_global", "batch_unit", "sample_unit", "rules")
    return {} if row is None else {name: row[name] for name in names}


def _identity(workload: str, start_ms: float | None, seconds: float | None) -> tuple[str, int, int]:
    """Key that identifies a run: its workload, the second it started, and its length in hundredths of a second; of a log that
    was cut off the millisecond it started."""
    if not seconds:
        return workload, round(start_ms or 0.0), 0
    return workload, round((start_ms or 0.0) / 1e3), round(seconds * 100)


@functools.cache
def _by_start() -> dict[tuple[str, int, int], Mapping[str, Any]]:
    """Each published run, failed ones too; of logs submitted in two rounds the first."""
    found: dict[tuple[str, int, int], Mapping[str, Any]] = {}
    for row in published_rows():
        for length in (row["seconds"], None) if row["start_ms"] else ():
            found.setdefault(_identity(row["workload"], row["start_ms"], length), row)
    return found


def _details_beside(folder: Path) -> dict[str, Any]:
    """What the system description above a folder says of the logs in it; empty without one."""
    system = folder.absolute().parent
    places = (
        system / "system.json",
        system / "entry.json",
        system.parent.parent / "systems" / f"{system.name}.json",
    )
    return next((details for path in places if (details := _details_from_json(path))), {})


def _details_from_json(path: Path) -> dict[str, Any]:
    """Devices, hardware and framework from `system.json` (v0.6 on) or `entry.json` (v0.5); empty without such a file."""
    try:
        if not path.is_file() or path.stat().st_size > _DESCRIPTION_BYTES:
            return {}
        value = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    nodes = value.get("nodes")
    listed = [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
    if listed:
        machines = sum(_described_count(node.get("num_nodes")) for node in listed)
        counts = ((node.get("num_nodes"), node.get("num_accelerators")) for node in listed)
        devices = sum(_described_count(one) * _described_count(each) for one, each in counts)
        hardware = listed[0].get("accelerator")
    else:
        machines = _described_count(value.get("number_of_nodes"))
        devices = machines * _described_count(value.get("accelerators_per_node"))
        hardware = value.get("accelerator_model_name")
    if not 0 < devices <= _MOST_DEVICES:
        return {}
    framework = value.get("framework")
    return {
        "devices": devices,
        "nodes": machines,
        "device_name": clean(hardware) if isinstance(hardware, str) else "",
        "framework": framework_name(clean(framework)) if isinstance(framework, str) else "",
    }


def _described_count(value: Json) -> int:
    """A count, also if written as text or as `1.0`; 0 for anything else."""
    text = str(value).strip().removesuffix(".0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0
