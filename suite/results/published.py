"""Published results of rounds and of the DGX-1 scaling article, from the CSV files in `logs/published/` (columns: its README).

Users may add files of their own beside them: `results*.csv` with the same columns, any subset of the optional ones. The logs of
other programs get from here, or from the system description beside them, what they do not say themselves.
"""

from __future__ import annotations

import csv
import functools
import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.common.paths import expand_user, shipped
from suite.results.columns import RunRow
from suite.results.logs.collect import Run
from suite.results.logs.recorded_telemetry import json_object
from suite.results.names import UNKNOWN_ROUND, framework_name, round_like, round_of_folder, workload_name
from suite.results.targets import METRIC_NAMES
from suite.results.text import clean
from workloads import files
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
_MOST_DEVICES = 1_000_000


# --- the files ----------------------------------------------------------------------------------------------------------


def published_folders() -> tuple[Path, ...]:
    """The folders with published results. Raises ValueError if the user's folder does not exist."""
    extra = os.environ.get(FOLDER_VARIABLE)
    if not extra:
        return (SHIPPED,)
    users_folder = expand_user(extra)
    if not users_folder.is_dir():
        raise ValueError(f"{FOLDER_VARIABLE}={extra}: no such folder; name one with results*.csv files, or unset it")
    return (SHIPPED, users_folder)


@functools.cache
def published_rows(places: tuple[Path, ...]) -> tuple[RunRow, ...]:
    """A row (suite.results.columns) for each published run, for each result of whose runs nothing is known, and for each row of
    the article. Raises ValueError (one line) for a file that does not fit."""
    runs: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for line in _lines(places, "runs*.csv", ("round", "submitter", "system", "benchmark", "seconds", "status")):
        runs.setdefault(_key(line), []).append(_run_values(line))
    listed = []
    for line in _lines(places, "results*.csv", REQUIRED_COLUMNS):
        row = _result_row(line)
        listed += [replace(row, **run) for run in runs.get(_key(line), [{"single_figure": True}])]
    article = _lines(places, "dgx1_scaling.csv", ("benchmark", "chips", "batch", "minutes_per_epoch", "epochs"))
    return (*listed, *map(_article_row, article))


def csv_rows(name: str, required: Sequence[str]) -> list[Mapping[str, str]]:
    """The rows of all files of a name such as `throughput*.csv`, as text."""
    return list(_lines(published_folders(), name, required))


class _Line(dict[str, str]):
    """A row of a CSV file, as text; a column that the file lacks is empty."""

    path: Path
    number: int

    def __missing__(self, name: str) -> str:
        return ""

    def figure(self, name: str) -> float | None:
        """A cell as a number; None for an empty cell. Raises ValueError with file and line for other text."""
        text = self[name].strip()
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value <= _LARGEST_NUMBER:
            where = f"{self.path} line {self.number}"
            raise ValueError(f"{where}: {name} is {text[:40]!r}; give a number from 0 on, or leave it empty")
        return value

    def count(self, name: str) -> int | None:
        """The same as a whole number."""
        value = self.figure(name)
        return None if value is None else int(value)


def _lines(places: Iterable[Path], pattern: str, required: Sequence[str]) -> Iterator[_Line]:
    """The rows of all files of that name. Raises ValueError for a missing column or a file that is no CSV."""
    for path in (path for folder in places for path in sorted(folder.glob(pattern))):
        try:
            with io.TextIOWrapper(files.open_stream(path), encoding="utf-8", newline="") as stream:
                reader = csv.DictReader(stream)
                missing = [name for name in required if name not in (reader.fieldnames or ())]
                if missing:
                    raise ValueError(f"{path}: no column {', '.join(missing)}; it needs {', '.join(required)}")
                for row in reader:
                    line = _Line({name: value or "" for name, value in row.items() if name})
                    line.path, line.number = path, reader.line_num
                    yield line
        except (OSError, csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: cannot be read as a CSV file ({error})") from error


def _key(line: _Line) -> tuple[str, ...]:
    return (line["round"], line["submitter"], line["system"], workload_name(line["benchmark"]))


def _run_values(line: _Line) -> dict[str, Any]:
    """What a run has of its own."""
    started, seconds = line.figure("run_start_unix_seconds"), line.figure("seconds")
    return {
        "seconds": seconds,
        "epochs": line.figure("epochs"),
        "start_ms": started * 1e3 if started else None,
        "status": line["status"],
        "succeeded": line["status"] == "success" and bool(seconds),
    }


def _result_row(line: _Line) -> RunRow:
    workload, seconds, minutes = workload_name(line["benchmark"]), line.figure("seconds"), line.figure("minutes")
    targets = {METRIC_NAMES.get(workload, "quality"): line.figure("target"), "SEGM": line.figure("target_mask")}
    return RunRow(
        round=line["round"],
        submitter=line["submitter"],
        system=line["system"],
        benchmark=line["benchmark"],
        division=line["division"],
        note=line["note"],
        batch_unit=line["batch_unit"],
        run=f"{line['round']}/{line['submitter']}/{line['system']}",
        published=True,
        workload=workload,
        framework=framework_name(line["framework"], line["system"]),
        device_name=line["accelerator"],
        devices=line.count("chips") or None,
        nodes=line.count("nodes") or 1,
        batch_size_global=line.count("batch"),
        sample_unit=line["batch_unit"],
        rules=line["round"],
        clock=round_like(line["round"]).clock,
        targets={name: value for name, value in targets.items() if value is not None},
        labels=() if line.path == SHIPPED / "results.csv" else (OWN_FILE_LABEL,),
        seconds=minutes * 60 if seconds is None and minutes is not None else seconds,
        epochs=line.figure("epochs"),
        published_rate=line.figure("throughput"),
        printed=line,
    )


def _article_row(line: _Line) -> RunRow:
    """A row of the article's tables 1-6: one time per epoch and one count of epochs, no single runs."""
    row = _result_row(line)
    batch, epochs = row.batch_size_global, row.epochs or 0.0
    times = {"per device": row.devices, "unknown": None}.get(line["batch_basis"], 1)
    return replace(
        row,
        round=ARTICLE,
        submitter="Microway",
        system="dgx1",
        run=f"{ARTICLE}/Microway/dgx1",
        framework="mxnet" if row.workload == "resnet50" else "pytorch",
        device_name="Tesla V100-SXM2",
        batch_size_global=batch * times if batch and times else None,
        batch_unit="tokens" if row.workload == "transformer" else "samples",
        precision=line["precision"],
        rules="v0.5",
        clock="unknown",
        labels=("article",),
        seconds=60 * epochs * (line.figure("minutes_per_epoch") or 0.0),
        epochs=epochs,
        single_figure=True,
        note="time per epoch times epochs, as the article prints them",
    )


# --- logs of other programs ---------------------------------------------------------------------------------------------


def with_system_details(runs: Sequence[Run]) -> list[Run]:
    """The runs; those of other programs with devices, hardware, framework and round added where they are known.

    A log that is one of the published runs gets the details published with it; any other those of its system description, and
    the round that a folder above it is called by.
    """
    beside = functools.cache(_details_beside)
    return [
        _fill_in(run, _published_details(run) or beside(run.path.parent)) if _is_foreign(run) else run for run in runs
    ]


def _is_foreign(run: Run) -> bool:
    return run.settings is not None and not run.settings.profile and run.settings.devices is None


def _fill_in(run: Run, values: Mapping[str, Any]) -> Run:
    assert run.settings is not None
    kept = {name: value for name, value in values.items() if getattr(run.settings, name) in (None, "", UNKNOWN_ROUND)}
    return replace(run, settings=replace(run.settings, **kept))


def _published_details(run: Run) -> dict[str, Any]:
    """What is published of this very run; empty if it is not among the published ones."""
    if run.reading is None or run.settings is None:
        return {}
    record = run.reading.record
    row = _by_start().get(_identity(workload_name(run.settings.workload), record.start_ms, record.seconds))
    names = ("devices", "nodes", "device_name", "framework", "batch_size_global", "batch_unit", "sample_unit", "rules")
    return {} if row is None else {name: getattr(row, name) for name in names}


def _identity(workload: str, start_ms: float | None, seconds: float | None) -> tuple[str, int, int]:
    """Key that identifies a run: its workload, the second it started, and its length in hundredths of a second; of a log that
    was cut off the millisecond it started."""
    if not seconds:
        return workload, round(start_ms or 0.0), 0
    return workload, round((start_ms or 0.0) / 1e3), round(seconds * 100)


@functools.cache
def _by_start() -> dict[tuple[str, int, int], RunRow]:
    """Each published run, failed ones too; of logs submitted in two rounds the first."""
    by_identity: dict[tuple[str, int, int], RunRow] = {}
    for row in published_rows(published_folders()):
        for length in (row.seconds, None) if row.start_ms else ():
            by_identity.setdefault(_identity(row.workload, row.start_ms, length), row)
    return by_identity


def _details_beside(folder: Path) -> dict[str, Any]:
    """Devices, hardware and framework from the system description above a folder: `system.json` (v0.6 on) or `entry.json`
    (v0.5); the round from the name of a folder; empty without."""
    system, named = folder.absolute().parent, round_of_folder(folder / "log")
    rules = {"rules": named} if named > "v0.6" else {}  # earlier rounds have formats of their own
    described = system.parent.parent / "systems" / f"{system.name}.json"
    files = [path for path in (system / "system.json", system / "entry.json", described) if path.is_file()]
    return rules | next((details for path in files if (details := _details_in(json_object(path)))), {})


def _details_in(value: Mapping[str, Json]) -> dict[str, Any]:
    nodes = value.get("nodes")
    listed = [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
    if listed:
        counts = [(_count(node.get("num_nodes")), _count(node.get("num_accelerators"))) for node in listed]
        hardware = listed[0].get("accelerator")
    else:
        counts = [(_count(value.get("number_of_nodes")), _count(value.get("accelerators_per_node")))]
        hardware = value.get("accelerator_model_name")
    devices = sum(machines * each for machines, each in counts)
    if not 0 < devices <= _MOST_DEVICES:
        return {}
    framework = value.get("framework")
    return {
        "devices": devices,
        "nodes": sum(machines for machines, _ in counts),
        "device_name": clean(hardware) if isinstance(hardware, str) else "",
        "framework": framework_name(clean(framework)) if isinstance(framework, str) else "",
    }


def _count(value: Json) -> int:
    """A count, also if written as text or as `1.0`; 0 for anything else."""
    text = str(value).strip().removesuffix(".0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0
