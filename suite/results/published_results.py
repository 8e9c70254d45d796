"""Published results of MLPerf rounds and of the DGX-1 scaling article.

The results are in the CSV files in `logs/published/`. `logs/published/README.md` describes the
columns.

A user may add a folder with files `results*.csv` that have the required columns and any of the
optional columns. Settings that a foreign log does not contain come from the system description in
the log's folder or from the published results.
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

from suite.common.labels import Label, LabelKind
from suite.common.paths import expand_user, shipped
from suite.results.columns import Run
from suite.results.entry import Entry, is_submission_log, log_folder, read_entry
from suite.results.logs.record import RunRecord, RunSettings
from suite.results.names import (
    PLACEHOLDER,
    UNKNOWN_ROUND,
    framework_name,
    round_like,
    workload_name,
)
from suite.results.targets import (
    METRIC_NAMES,
    SECOND_METRIC_NAMES,
    TOKENS_PER_SAMPLE,
    epoch_unit,
)
from workloads import files

FOLDER_VARIABLE = "SUITE_PUBLISHED_DIR"
"""Environment variable with the path of a user's folder of published results."""
SHIPPED = shipped("logs/published")
"""Folder of the CSV files that are shipped with the project."""
ARTICLE = "dgx1-article"
"""Value of `round` for the results in tables 1-6 of the article, which `--to` also accepts."""
REQUIRED_COLUMNS = ("round", "submitter", "system", "chips", "framework", "benchmark", "minutes")
_LARGEST_NUMBER = 1e15
"""Largest number that is accepted in a cell."""


# --- the files
# --------------------------------------------------------------------------------------------------


def published_folders() -> tuple[Path, ...]:
    """Return the folders that contain published results.

    Raises:
        ValueError: The user's folder does not exist.
    """
    extra = os.environ.get(FOLDER_VARIABLE)
    if not extra:
        return (SHIPPED,)
    users_folder = expand_user(extra)
    if not users_folder.is_dir():
        raise ValueError(
            f"{FOLDER_VARIABLE}={extra}: no such folder. Set it to a folder with results*.csv"
            " files, or unset it"
        )
    return (SHIPPED, users_folder)


@functools.cache
def published_rows(places: tuple[Path, ...]) -> tuple[Run, ...]:
    """Return the published runs, and results that were published without runs.

    Args:
        places: Folders that contain published results.

    Raises:
        ValueError: A file is invalid.
    """
    values_of_runs: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for line in _lines(
        places, "runs*.csv", ("round", "submitter", "system", "benchmark", "seconds", "status")
    ):
        values_of_runs.setdefault(_key(line), []).append(_run_values(line))
    runs = []
    for line in _lines(places, "results*.csv", REQUIRED_COLUMNS):
        result = _result_row(line)
        runs += [
            replace(result, **values)
            for values in values_of_runs.get(_key(line), [{"single_figure": True}])
        ]
    article = _lines(
        places, "dgx1_scaling.csv", ("benchmark", "chips", "batch", "minutes_per_epoch", "epochs")
    )
    return (*runs, *map(_article_row, article))


def csv_rows(name: str, required: Sequence[str]) -> list[Mapping[str, str]]:
    """Return the rows of all published files whose name matches a pattern, as strings.

    Args:
        name: Name or pattern of the files, such as `throughput*.csv`.
        required: Columns that each file must have.

    Raises:
        ValueError: A file is invalid or lacks a required column.
    """
    return list(_lines(published_folders(), name, required))


class _Line(dict[str, str]):
    """Row of a CSV file as strings. Missing columns have an empty string."""

    path: Path
    number: int

    def __missing__(self, name: str) -> str:
        return ""

    def figure(self, name: str) -> float | None:
        """Return a cell as a number, or None for an empty cell.

        Raises:
            ValueError: The cell is not a number from 0 to `_LARGEST_NUMBER`.
        """
        text = self[name].strip()
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value <= _LARGEST_NUMBER:
            where = f"{self.path} line {self.number}"
            raise ValueError(
                f"{where}: {name} is {text[:40]!r}. Expected a number from 0 on, or an empty cell"
            )
        return value

    def count(self, name: str) -> int | None:
        """Return a cell as an integer, or None for an empty cell."""
        value = self.figure(name)
        return None if value is None else int(value)


def _lines(places: Iterable[Path], pattern: str, required: Sequence[str]) -> Iterator[_Line]:
    """Yield the rows of all files whose name matches a pattern.

    Raises:
        ValueError: A required column is missing, or a file is not a CSV file.
    """
    paths = [path for folder in places for path in sorted(folder.glob(pattern))]
    for path in paths:
        try:
            with io.TextIOWrapper(
                files.open_stream(path), encoding="utf-8-sig", newline=""
            ) as stream:
                reader = csv.DictReader(stream)
                missing = [name for name in required if name not in (reader.fieldnames or ())]
                if missing:
                    raise ValueError(
                        f"{path}: no column {', '.join(missing)}; required: {', '.join(required)}"
                    )
                for row in reader:
                    line = _Line({name: value or "" for name, value in row.items() if name})
                    line.path, line.number = path, reader.line_num
                    yield line
        except (OSError, csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: cannot be read as a CSV file ({error})") from error


def _key(line: _Line) -> tuple[str, ...]:
    """Return round, submitter, system, and workload.

    These values are equal for a result and its runs.
    """
    return (line["round"], line["submitter"], line["system"], workload_name(line["benchmark"]))


def _run_values(line: _Line) -> dict[str, Any]:
    """Return the columns that differ between the runs of a result."""
    started, seconds = line.figure("run_start_unix_seconds"), line.figure("seconds")
    return {
        "seconds": seconds,
        "epochs": line.figure("epochs"),
        "start_ms": started * 1e3 if started else None,
        "status": line["status"],
        "succeeded": line["status"] == "success" and bool(seconds),
    }


def _result_row(line: _Line) -> Run:
    """Return a published result as a run."""
    workload, seconds, minutes = (
        workload_name(line["benchmark"]),
        line.figure("seconds"),
        line.figure("minutes"),
    )
    targets = {
        METRIC_NAMES.get(workload, "quality"): line.figure("target"),
        SECOND_METRIC_NAMES.get(workload, "SEGM"): line.figure("target_mask"),
    }
    labels = () if line.path == SHIPPED / "results.csv" else (Label(LabelKind.USER_FILE),)
    return Run(
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
        framework=framework_name(line["framework"], line["system"], workload),
        device_name=line["accelerator"],
        devices=line.count("chips") or None,
        nodes=line.count("nodes") or 1,
        global_batch_size=line.count("batch"),
        sample_unit=line["batch_unit"],
        rules=line["round"],
        clock=round_like(line["round"]).clock,
        targets={name: value for name, value in targets.items() if value is not None},
        labels=tuple(label.text for label in labels),
        label_facts=labels,
        seconds=minutes * 60 if seconds is None and minutes is not None else seconds,
        epochs=line.figure("epochs"),
        scaling_factor=line.figure("scaling_factor"),
        published_rate=_samples_per_second(line, workload),
        epoch_unit=epoch_unit(workload),
        printed=line,
        published_line=f"{line.path}:{line.number}",
    )


def _samples_per_second(line: _Line, workload: str) -> float | None:
    """Return the training throughput of a published result in samples per second."""
    rate = line.figure("throughput")
    tokens = TOKENS_PER_SAMPLE.get(workload) if line["throughput_unit"] == "tokens/s" else None
    return rate / tokens if rate is not None and tokens is not None else rate


def _article_row(line: _Line) -> Run:
    """Return a result from tables 1-6 of the article.

    The tables contain a time per epoch and a number of epochs, but no individual runs.
    """
    result = _result_row(line)
    batch, epochs = result.global_batch_size, result.epochs or 0.0
    replicas = {"per device": result.devices, "unknown": None}.get(line["batch_basis"], 1)
    return replace(
        result,
        round=ARTICLE,
        submitter="Microway",
        system="dgx1",
        run=f"{ARTICLE}/Microway/dgx1",
        framework="mxnet" if result.workload == "resnet50" else "pytorch",
        device_name="Tesla V100-SXM2",
        global_batch_size=batch * replicas if batch and replicas else None,
        batch_unit="tokens" if result.workload == "transformer" else "samples",
        precision=line["precision"],
        rules="v0.5",
        clock="unknown",
        labels=(LabelKind.ARTICLE.value,),
        label_facts=(Label(LabelKind.ARTICLE),),
        seconds=60 * epochs * (line.figure("minutes_per_epoch") or 0.0),
        epochs=epochs,
        single_figure=True,
        note="time per epoch times epochs, as the article prints them",
    )


# --- foreign logs
# ---------------------------------------------------------------------------------------------


def with_system_details(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the runs with their entries and missing settings.

    The missing settings of foreign runs are devices, hardware, framework, system, and round.

    For each setting, the first source with a value is used: the folders and the system description
    of a submission, then the published result of the run, then the log. If the published result has
    the name of the entry, the published result has priority, because its settings were checked.
    """
    entry_of_folder = functools.cache(read_entry)
    described = []
    for run in runs:
        if not run.has_log:
            described.append(run)
            continue
        entry = entry_of_folder(log_folder(run.path))
        run = replace(run, entry=entry)
        if (
            run.described_settings is None
            and entry.is_submission
            and is_submission_log(run.path.name)
        ):
            run = replace(
                run, described_settings=RunSettings(workload=entry.benchmark)
            )  # The log ended before the name of its benchmark.
        described.append(_describe(run, entry) if _is_foreign(run) else run)
    return described


def _is_foreign(run: RunRecord) -> bool:
    settings = run.described_settings
    return settings is not None and not settings.profile and settings.devices is None


def _describe(run: RunRecord, entry: Entry) -> RunRecord:
    """Return a foreign run with additional settings from its entry and published results."""
    logged = run.described_settings
    assert logged is not None
    published = _find_published_run(run)
    is_same_entry = published is not None and _is_entry_of(published, entry)
    sources = [_entry_settings(entry, workload_name(logged.workload))]
    if published is not None and (is_same_entry or not entry.is_submission):
        sources.insert(0 if is_same_entry else 1, _published_settings(published))
    settings: dict[str, Any] = {}
    for source in sources:
        settings |= {name: value for name, value in source.items() if not settings.get(name)}
    if logged.rules not in ("", UNKNOWN_ROUND):
        settings.pop("rules", None)  # The line format identifies the round for v0.5 and v0.6.
    decided = {name: value for name, value in settings.items() if value not in (None, "")}
    if PLACEHOLDER in logged.system:
        decided.setdefault("system", "")
    return replace(run, described_settings=replace(logged, **decided))


def _entry_settings(entry: Entry, workload: str) -> dict[str, Any]:
    """Return the settings from the folders and the system description of an entry.

    Unknown settings have empty values.
    """
    description = entry.description
    return {
        "devices": description.devices,
        "nodes": description.nodes,
        "device_name": description.accelerator,
        "framework": (
            framework_name(description.framework, entry.system, workload)
            if description.framework
            else ""
        ),
        "system": entry.system,
        "rules": (
            entry.round if entry.round > "v0.6" else ""
        ),  # In earlier rounds, the line format identifies the round.
    }


def _published_settings(published: Run) -> dict[str, Any]:
    names = (
        "devices",
        "nodes",
        "device_name",
        "framework",
        "global_batch_size",
        "batch_unit",
        "sample_unit",
        "rules",
    )
    return {name: getattr(published, name) for name in names}


def _is_entry_of(published: Run, entry: Entry) -> bool:
    """Check whether a published run has the same round, submitter, and system as an entry."""
    names = (entry.round, entry.submitter, entry.system)
    return [name.lower() for name in names] == [
        name.lower() for name in (published.round, published.submitter, published.system)
    ]


def _find_published_run(run: RunRecord) -> Run | None:
    """Return the published run with the workload, start, and length of a log.

    The function returns None if the log is not published.
    """
    if not run.has_log or run.described_settings is None:
        return None
    identity = _identity(workload_name(run.described_settings.workload), run.start_ms, run.seconds)
    candidates = _by_start().get(identity, ())
    if run.entry is not None:
        for candidate in candidates:
            if _is_entry_of(candidate, run.entry):
                return candidate
    return candidates[0] if candidates else None


def _identity(workload: str, start_ms: float | None, seconds: float | None) -> tuple[str, int, int]:
    """Return a key that identifies a run.

    The key has the workload, the start in seconds, and the length in hundredths of a second.

    For a log that was cut off, the key has the start in milliseconds and no length.
    """
    if not seconds:
        return workload, round(start_ms or 0.0), 0
    return workload, round((start_ms or 0.0) / 1e3), round(seconds * 100)


@functools.cache
def _by_start() -> dict[tuple[str, int, int], tuple[Run, ...]]:
    """Return the published runs by their identity, including failed runs.

    If several rounds contain the same log, all runs are listed in order of round.
    """
    by_identity: dict[tuple[str, int, int], tuple[Run, ...]] = {}
    for run in published_rows(published_folders()):
        if not run.start_ms:
            continue
        for length in (run.seconds, None):
            identity = _identity(run.workload, run.start_ms, length)
            by_identity[identity] = (*by_identity.get(identity, ()), run)
    return by_identity
