"""Data of a run for experiment trackers: scalars, hyperparameters, tags, and files.

All data come from the log of the run, and all times are time stamps of the log. The export adds no
data about the exporting machine.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from suite.common.run_folder import RUN_FILE, STATUS_FILE
from suite.results.columns import Run, declared_fields, kind_of
from suite.results.curves import paired
from suite.results.experiment_key import facts
from suite.results.logs.record import RunRecord, RunSettings, Throughput
from suite.results.logs.recorded_telemetry import machine_folders
from suite.results.scores import labels
from suite.results.table import read_runs
from suite.results.text import clean
from workloads.api import field_names

NOT_VERIFIED = "Not verified by MLCommons Association"
Scale = str | int | float | bool
"""Type of a hyperparameter's value."""
_TAGS = (
    "system", "device_name", "framework_version", "deviations", "round", "submitter", "division",
    "status", "reason", "machine_condition", *field_names(RunSettings, experiment_key=False),
)  # fmt: skip
"""Columns that describe the origin and the conditions of a run. Trackers store these columns and
the labels as tags.

Settings that affect the computation of a run are stored as hyperparameters instead.
"""
_LONGEST_NAME, _LONGEST_VALUE = 100, 500


@dataclass(frozen=True, slots=True)
class Scalar:
    """A point of a curve in a tracker."""

    name: str
    """Name of the curve. The prefix is the unit of `at`: `epoch/…`, `step/…`, or `second/…`.

    The prefix `result/…` marks a value of the whole run, which is stored at the last step.
    """
    value: float
    at: int
    time_ms: int
    """Time of the point in milliseconds since 1970."""

    @property
    def axis(self) -> str:
        """Return the prefix of the name: `epoch`, `step`, `second`, or `result`."""
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class ExportedRun:
    """A run in the format that all trackers receive."""

    identity: str
    """Identifier of the run. From the first evaluation on, all copies of a log have the same
    identifier.
    """
    name: str
    workload: str
    labels: tuple[str, ...]
    """Labels that must be displayed with the results: `demo`, `cpu`, `busy machine: …`."""
    start_ms: int
    end_ms: int | None
    """End time in ms since 1970. None while the run is in progress."""
    status: str
    """`success`, `running`, or the status of a run that ended without success."""
    hyperparameters: Mapping[str, Scale]
    tags: Mapping[str, str]
    scalars: tuple[Scalar, ...]
    files: Mapping[str, Path]
    """Maps the name of each file in the run's folder to its path.

    The files are the log and all other files that this suite wrote for the run. The mapping is
    empty while the run is in progress.
    """

    @property
    def title(self) -> str:
        """Return the run's name with its labels, for displays that show only a name."""
        return f"{self.name} ({', '.join(self.labels)})" if self.labels else self.name

    @property
    def labels_text(self) -> str:
        """Return the labels in one line, with a note that the results are not verified."""
        return "; ".join((*self.labels, NOT_VERIFIED))


class Tracker(Protocol):
    """Destination of exported runs, such as a TensorBoard folder."""

    def add(self, run: ExportedRun) -> int:
        """Write the new data of a run, and return the number of new scalars.

        Data that the tracker already contains are not written again.
        """


def exported(paths: Sequence[Path]) -> tuple[list[ExportedRun], int]:
    """Return the runs below `paths` by start time, and the number of skipped runs.

    A run is skipped if its log contains neither an evaluation nor a throughput, or if the log is a
    copy.

    Raises:
        ValueError: A path contains no log.
    """
    every = read_runs(paths)
    runs = [
        run
        for row in every
        if row.record is not None and not row.copy_of
        if (run := _exported(row, row.record))
    ]
    return sorted(runs, key=lambda run: run.start_ms), len(every) - len(runs)


def _exported(row: Run, log: RunRecord) -> ExportedRun | None:
    """Convert a run to the exported format.

    Returns None if the log contains no data to display. The settings of the run may be incomplete.
    """
    if log.start_ms is None or not (log.evaluations or log.throughput):
        return None
    scalars = [*_curves(log, log.start_ms)]
    last_ms = max(scalar.time_ms for scalar in scalars)
    end_ms = last_ms if log.seconds is None else round(log.start_ms + 1000 * log.seconds)
    if not row.running:
        steps = [block.step for block in log.throughput if block.step is not None]
        scalars += [
            Scalar(f"result/{name}", value, max(steps, default=0), end_ms)
            for name, value in _figures(row)
        ]
    recorded = facts(row) | {"seed": row.seed}
    tags = {name: _text(getattr(row, name)) for name in _TAGS}
    return ExportedRun(
        identity=_identity(log),
        name=clean(row.run, _LONGEST_NAME) or "run",
        workload=_name(row.workload or log.benchmark),
        labels=tuple(clean(label, _LONGEST_NAME) for label in labels(row)),
        start_ms=round(log.start_ms),
        end_ms=None if row.running else end_ms,
        status=row.status,
        hyperparameters={
            _name(name): value
            for name, recorded_value in recorded.items()
            if name not in (*_TAGS, "labels", "folder") and (value := _scale(recorded_value)) != ""
        },
        tags={name: text for name, text in tags.items() if text}
        | {"log": clean(str(log.path), _LONGEST_VALUE)},
        scalars=tuple(scalars),
        files={} if row.running else _files(log),
    )


def _identity(log: RunRecord) -> str:
    """Return a hash of the log's content before its first evaluation.

    The digest of the whole log is not used, because it changes while the log grows. The path is not
    used, because a log may be moved, and logs on two machines may have the same path. Two runs
    without a seed may have started in the same second (suite.results.logs.copies), so the function
    returns the digest for these runs.
    """
    settings = [
        log.benchmark,
        log.platform,
        log.settings.rules,
        log.settings.framework,
        log.settings.devices,
    ]
    parts = [*settings, log.start_ms, log.seed, sorted(log.hyperparameters.items())]
    if log.seed is None and (log.start_ms or 0) % 1000 == 0:
        parts.append(log.digest)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _curves(log: RunRecord, start_ms: float) -> Iterator[Scalar]:
    """Yield the measurements by step, and those of evaluations also by epoch.

    Measurements are given by epoch only if all evaluations are at whole epochs. If the log has
    neither steps nor whole epochs, the measurements are given by second.
    """
    epochs = [log.epochs_at(evaluation) for evaluation in log.evaluations]
    whole = all(epoch is not None and epoch.is_integer() for epoch in epochs)
    for evaluation, block in paired(log):
        seconds = (
            evaluation.seconds
            if evaluation is not None
            else block.seconds
            if block is not None
            else None
        )
        epoch = log.epochs_at(evaluation) if evaluation is not None else None
        values = {} if block is None else _of_block(block)
        values |= {} if evaluation is None else evaluation.values
        axes = {"epoch": int(epoch)} if whole and epoch is not None else {}
        if block is not None and block.step is not None:
            axes["step"] = block.step
        for axis, at in (axes or {"second": round(seconds or 0.0)}).items():
            for name, value in values.items():
                yield Scalar(
                    f"{axis}/{_name(name)}", value, at, round(start_ms + 1000 * (seconds or 0.0))
                )


def _of_block(block: Throughput) -> dict[str, float]:
    """Return the measurements that the log contains for a training block."""
    names = ("samples_per_second", "train_seconds", "evaluation_seconds", "data_wait_seconds")
    figures = {"training_loss": block.loss} | {name: getattr(block, name) for name in names}
    logged = {name: value for name, value in figures.items() if value is not None}
    return {f"{unit}_per_second": rate for unit, rate in block.rates.items()} | logged


def _figures(row: Run) -> Iterator[tuple[str, float]]:
    """Yield the name and value of each numeric column of a run.

    If the run reached its target, the duration has the name `time to target`.
    """
    for item in declared_fields(Run):
        value = getattr(row, item.name)
        if kind_of(item) in ("number", "count") and item.name != "start_ms" and value is not None:
            to_target = row.succeeded and row.to_target
            yield (
                {"seconds": "seconds_to_target" if to_target else "run_seconds"}.get(
                    item.name, item.name
                ),
                value,
            )


def _files(log: RunRecord) -> dict[str, Path]:
    """Return the files of a run by name.

    docs/reference/run_folder.md lists these files. Only runs of this suite have such files.
    Symbolic links are omitted, because they may point outside of the run's folder.
    """
    folder, named = log.path.parent, list[Path]()
    if log.settings.profile:
        named += [folder / name for name in (RUN_FILE, STATUS_FILE, "metrics.jsonl", "server.log")]
        named += sorted(folder.glob("worker-*.log"))
        machines = machine_folders(folder)
        named += [
            machine / name for machine in machines for name in ("telemetry.jsonl", "topology.json")
        ]
    recorded_files = {
        str(path.relative_to(folder)): path
        for path in named
        if path.is_file() and not path.is_symlink()
    }
    return {log.path.name: log.path, **recorded_files}


def _name(text: str) -> str:
    """Convert a name to a name that every tracker accepts.

    Names in logs may contain any characters.
    """
    return re.sub(r"[^\w.-]+", "_", text).strip("._")[:_LONGEST_NAME] or "_"


def _scale(value: Any) -> Scale:
    """Convert a value to a hyperparameter value for trackers.

    The result is a boolean, a number that a float can represent exactly, or a printable line. A
    missing value becomes an empty string.
    """
    return (
        value if isinstance(value, (int, float)) and -(2.0**53) < value < 2.0**53 else _text(value)
    )


def _text(value: Any) -> str:
    if value is None or value in ("", (), {}):
        return ""
    if isinstance(value, tuple):
        value = "; ".join(map(str, value))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return clean(text, _LONGEST_VALUE)
