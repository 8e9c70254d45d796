"""Published results of rounds and of the DGX-1 scaling article, from the CSV files in `logs/published/` (columns: its README).

Users may add files of their own beside them: `results*.csv` with the same columns, any subset of the optional ones.
"""

from __future__ import annotations

import csv
import difflib
import functools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from suite.common.paths import shipped
from suite.results.names import framework_name, workload_name
from suite.results.score.measurement import Measurement
from suite.results.score.scores import FIRST_CONVERGED, Score, TimedRun, score
from suite.results.targets import METRIC_NAMES

FOLDER_VARIABLE = "SUITE_PUBLISHED_DIR"
"""Environment variable that names one more folder of such files."""
SHIPPED = shipped("logs/published")
"""Folder of the CSV files that come with the project."""
OWN_FILE_LABEL = "own file"
"""Label of results from files that do not come with the project: nobody has reviewed them."""
ARTICLE = "dgx1-article"
"""Origin and `--to` name of the article's tables 1-6."""
REQUIRED_COLUMNS = ("round", "submitter", "system", "chips", "framework", "benchmark", "minutes")
_LARGEST_NUMBER = 1e15
"""Largest number accepted in a cell."""


@dataclass(frozen=True)
class PublishedResult:
    """One row of a results file."""

    round: str
    submitter: str
    system: str
    benchmark: str
    """The suite's name of the workload."""
    row: Mapping[str, str]
    """All columns as text."""
    measurement: Measurement
    attempts: tuple[tuple[float, float | None], ...] = ()
    """(start in milliseconds since 1970, seconds) of every run whose log has a start, also of those that failed."""

    @property
    def name(self) -> str:
        """The name that `--to` takes: `ROUND/SUBMITTER/SYSTEM`."""
        return f"{self.round}/{self.submitter}/{self.system}"


def published_folders() -> list[Path]:
    """The folders with published results. Raises ValueError if the user's folder does not exist."""
    extra = os.environ.get(FOLDER_VARIABLE)
    if not extra:
        return [SHIPPED]
    users_folder = Path(extra).expanduser()
    if not users_folder.is_dir():
        raise ValueError(f"{FOLDER_VARIABLE}={extra}: no such folder; name one with results*.csv files, or unset it")
    return [SHIPPED, users_folder]


def load_published_results(places: Sequence[Path] | None = None) -> list[PublishedResult]:
    """All rows of all `results*.csv`, then the article's. Raises ValueError (one line) for a file that does not fit."""
    return list(_load(tuple(places if places is not None else published_folders())))


@functools.cache
def _load(places: tuple[Path, ...]) -> tuple[PublishedResult, ...]:
    runs: dict[tuple[str, ...], list[TimedRun]] = {}
    attempts: dict[tuple[str, ...], list[tuple[float, float | None]]] = {}
    for path in _files(places, "runs*.csv"):
        for line, row in _rows(path, ("round", "submitter", "system", "benchmark", "seconds", "status")):
            seconds = _number(path, line, row, "seconds")
            started = _number(path, line, row, "run_start_unix_seconds") or 0.0
            if started:
                attempts.setdefault(_key(row), []).append((started * 1e3, seconds))
            if row["status"] == "success" and seconds:
                timed = TimedRun(seconds, _number(path, line, row, "epochs"), started * 1e3)
                runs.setdefault(_key(row), []).append(timed)
    results = [
        replace(_round_result(path, line, row, runs.get(_key(row), [])), attempts=tuple(attempts.get(_key(row), [])))
        for path in _files(places, "results*.csv")
        for line, row in _rows(path, REQUIRED_COLUMNS)
    ]
    results += [
        _article_result(path, line, row)
        for path in _files(places, "dgx1_scaling.csv")
        for line, row in _rows(path, ("benchmark", "chips", "batch", "minutes_per_epoch", "epochs"))
    ]
    return tuple(results)


def throughput_rows() -> list[Mapping[str, str]]:
    """The rows of all `throughput*.csv`, as text."""
    required = ("source", "system", "framework", "model", "chips", "metric", "value", "unit")
    return [row for path in _files(published_folders(), "throughput*.csv") for _, row in _rows(path, required)]


def speedup_rows() -> list[Mapping[str, str]]:
    """The article's table 7, as text."""
    required = ("benchmark", "chips_from", "chips_to", "speedup_printed")
    return [row for _, row in _rows(SHIPPED / "dgx1_speedups.csv", required)]


def _files(places: Iterable[Path], pattern: str) -> Iterator[Path]:
    for place in places:
        yield from sorted(place.glob(pattern))


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


def _round_result(path: Path, line: int, row: Mapping[str, str], runs: Sequence[TimedRun]) -> PublishedResult:
    benchmark = workload_name(row["benchmark"])
    framework, hardware = framework_name(row["framework"], row["system"]), row.get("accelerator", "")
    minutes, epochs = _number(path, line, row, "minutes"), _number(path, line, row, "epochs")
    seconds = _number(path, line, row, "seconds")
    if seconds is None and minutes is not None:
        seconds = minutes * 60
    attempts, successful = _count(path, line, row, "runs"), _count(path, line, row, "runs_successful")
    timed = tuple(sorted(runs, key=lambda run: run.start_ms))
    times = [run.seconds for run in timed]
    failed = (attempts or 0) - (successful if successful is not None else attempts or 0)
    rescored = score(timed, failed, attempts, FIRST_CONVERGED if benchmark == "ncf" else None)
    if rescored.epochs is not None:
        epochs = rescored.epochs  # of the runs that the mean of seconds is over; the column has the mean of all runs
    target = _number(path, line, row, "target")
    measurement = Measurement(
        origin=row["round"],
        series=f"{row['submitter']} {row['system']}",
        family=(row["submitter"], framework, hardware, row.get("division", "")),
        workload=benchmark,
        framework=framework,
        submitter=row["submitter"],
        system=row["system"],
        hardware=hardware,
        devices=_count(path, line, row, "chips") or 0,
        batch_size_global=_count(path, line, row, "batch"),
        batch_unit=row.get("batch_unit", ""),
        batch_rule="",
        precision="",
        rules=row["round"],
        clock="v0.5" if row["round"] == "v0.5" else "v0.7",
        targets={} if target is None else _targets(benchmark, target, _number(path, line, row, "target_mask")),
        profile="published",
        labels=() if path == SHIPPED / "results.csv" else (OWN_FILE_LABEL,),
        score=Score(
            runs_successful=successful if successful is not None else attempts or 1,
            runs_failed=failed,
            runs_required=attempts,
            method="olympic mean" if (attempts or 0) >= 3 else "plain mean",
            runs_retained=_count(path, line, row, "runs_used") or 1,
            notes=(),
            seconds=seconds,
            epochs=epochs,
            seconds_minimum=min(times, default=None),
            seconds_maximum=max(times, default=None),
            seconds_standard_deviation=None,
            samples_per_second=_number(path, line, row, "throughput"),
        ),
        runs=timed,
        note=row.get("note", ""),
        division=row.get("division", ""),
        nodes=_count(path, line, row, "nodes") or 1,
    )
    return PublishedResult(row["round"], row["submitter"], row["system"], benchmark, row, measurement)


def _targets(benchmark: str, target: float, mask: float | None) -> dict[str, float]:
    targets = {METRIC_NAMES.get(benchmark, "quality"): target}
    return {**targets, "SEGM": mask} if mask is not None else targets


def _article_result(path: Path, line: int, row: Mapping[str, str]) -> PublishedResult:
    """A row of the article's tables 1-6: one time per epoch and one count of epochs, no single runs."""
    benchmark, devices = workload_name(row["benchmark"]), _count(path, line, row, "chips") or 0
    batch, epochs = _count(path, line, row, "batch"), _number(path, line, row, "epochs") or 0.0
    per_device = row.get("batch_basis", "") == "per device"
    target, mask = _number(path, line, row, "target"), _number(path, line, row, "target_mask")
    known = batch is not None and row.get("batch_basis", "") != "unknown"
    measurement = Measurement(
        origin=ARTICLE,
        series="DGX-1 article",
        family=(ARTICLE,),
        workload=benchmark,
        framework="mxnet" if benchmark == "resnet50" else "pytorch",
        submitter="Microway",
        system="dgx1",
        hardware="Tesla V100-SXM2",
        devices=devices,
        batch_size_global=batch * (devices if per_device else 1) if known and batch is not None else None,
        batch_unit="tokens" if benchmark == "transformer" else "samples",
        batch_rule="",
        precision=row.get("precision", ""),
        rules="v0.5",
        clock="unknown",
        targets={} if target is None else _targets(benchmark, target, mask),
        profile="published",
        labels=("article",),
        score=Score(
            runs_successful=1,
            runs_failed=0,
            runs_required=None,
            method="single figure",
            runs_retained=1,
            notes=("time per epoch times epochs, as the article prints them",),
            seconds=60 * epochs * (_number(path, line, row, "minutes_per_epoch") or 0.0),
            epochs=epochs,
            seconds_minimum=None,
            seconds_maximum=None,
            seconds_standard_deviation=None,
            samples_per_second=None,
        ),
    )
    return PublishedResult(ARTICLE, "Microway", "dgx1", benchmark, row, measurement)


def find_published_results(name: str, results: Sequence[PublishedResult] | None = None) -> list[PublishedResult]:
    """The results named by `ROUND/SUBMITTER/SYSTEM`, ignoring case; ROUND or ROUND/SUBMITTER alone name all their systems.

    A system may be given by the beginning of its name (`v0.5/NVIDIA/dgx1` is every `dgx1_…` of one node, not `dgx1_n24_…` or
    `dgx1_multi_…`). Raises ValueError with the nearest names for one that does not exist.
    """
    known = load_published_results() if results is None else list(results)
    parts = [part for part in name.strip().strip("/").lower().split("/") if part]
    chosen = [item for item in known if _matches_name(item, parts)]
    if chosen and parts:
        return chosen
    names = sorted({item.name for item in known} | {item.round for item in known})
    near = difflib.get_close_matches(name.lower(), [known_name.lower() for known_name in names], n=3, cutoff=0.4)
    offered = [known_name for known_name in names if known_name.lower() in near] or sorted(
        {item.round for item in known}
    )
    raise ValueError(
        f"--to {name}: no such published result; nearest: {', '.join(offered[:3])} (all of them: suite published list)"
    )


def _matches_name(item: PublishedResult, parts: Sequence[str]) -> bool:
    name_parts = [item.round.lower(), item.submitter.lower(), item.system.lower()]
    if len(parts) > 3 or parts[:2] != name_parts[: len(parts[:2])]:
        return False
    if len(parts) < 3 or parts[2] == name_parts[2]:
        return True
    rest = name_parts[2].removeprefix(parts[2])
    return rest != name_parts[2] and rest.startswith(("_", "-", " ")) and not _several_nodes(rest)


def _several_nodes(rest: str) -> bool:
    """True for name endings such as `_n24_ngc19.05` and `_multi_ngc18.11`: clusters of the named system."""
    word = rest[1:].split("_")[0]
    return word == "multi" or (word[:1] == "n" and word[1:].isdigit())
