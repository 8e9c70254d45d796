"""What trackers are given of a run: one plain record of scalars, hyperparameters, tags and files,
out of the one table.

All of it is what the log says; nothing is of the machine that exports. Every time is a time stamp
of the log.
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
from suite.results.columns import Run, kind_of, own_fields
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
"""A value of a hyperparameter."""
_TAGS = (
    "system", "device_name", "framework_version", "deviations", "round", "submitter", "division", "status", "reason",
    "machine_condition", *field_names(RunSettings, experiment_key=False),
)  # fmt: skip
"""Columns that say of whom, where and how, beside the labels; all that decides what a run computes
is a hyperparameter.
"""
_LONGEST_NAME, _LONGEST_VALUE = 100, 500


@dataclass(frozen=True, slots=True)
class Scalar:
    """A point of a curve."""

    name: str
    """`epoch/…`, `step/…` and `second/…` by what `at` counts; `result/…`: of the whole run, at its
    last step.
    """
    value: float
    at: int
    time_ms: int
    """Milliseconds since 1970."""

    @property
    def axis(self) -> str:
        """`epoch`, `step`, `second` or `result`."""
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class ExportedRun:
    """A run as trackers get it."""

    identity: str
    """The same for every copy of a log, from its first evaluation on, and for no other run."""
    name: str
    workload: str
    labels: tuple[str, ...]
    """What must stand beside its numbers: `demo`, `cpu`, `busy machine: …`."""
    start_ms: int
    end_ms: int | None
    """None: it goes on."""
    status: str
    """`success`, `running`, or how it ended."""
    hyperparameters: Mapping[str, Scale]
    tags: Mapping[str, str]
    scalars: tuple[Scalar, ...]
    files: Mapping[str, Path]
    """Its log, and what a run of ours has beside it, under their names in its folder; empty as long
    as it goes on.
    """

    @property
    def title(self) -> str:
        """The name with the labels, for wherever a tracker shows nothing else beside a curve."""
        return f"{self.name} ({', '.join(self.labels)})" if self.labels else self.name

    @property
    def labels_text(self) -> str:
        """The labels in one line, and who has not verified the numbers."""
        return "; ".join((*self.labels, NOT_VERIFIED))


class Tracker(Protocol):
    """Where runs are brought."""

    def add(self, run: ExportedRun) -> int:
        """Bring in what is new of a run; how many of its scalars were.

        Nothing that is there is written twice.
        """


def exported(paths: Sequence[Path]) -> tuple[list[ExportedRun], int]:
    """(the runs below `paths` in order of start, how many are left out: their logs hold no
    evaluation and no throughput yet, or are copies). Raises ValueError for a path without any log.
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
    """None of a run that has nothing to show: its settings need not be complete."""
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
    known = facts(row) | {"seed": row.seed}
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
            for name, known_value in known.items()
            if name not in (*_TAGS, "labels", "folder") and (value := _scale(known_value)) != ""
        },
        tags={name: text for name, text in tags.items() if text}
        | {"log": clean(str(log.path), _LONGEST_VALUE)},
        scalars=tuple(scalars),
        files={} if row.running else _files(log),
    )


def _identity(log: RunRecord) -> str:
    """Of what a log says before its first evaluation.

    Its digest changes as it grows, its path where it is moved, and two machines may have logs of
    one path. Runs without a seed may have begun in the same second (suite.results.logs.copies).
    """
    settings = [
        log.benchmark,
        log.platform,
        log.settings.rules,
        log.settings.framework,
        log.settings.devices,
    ]
    known = [*settings, log.start_ms, log.seed, sorted(log.hyperparameters.items())]
    if log.seed is None and (log.start_ms or 0) % 1000 == 0:
        known.append(log.digest)
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16]


def _curves(log: RunRecord, start_ms: float) -> Iterator[Scalar]:
    """Every figure by the steps and, where all are whole, by the epochs until then; by seconds
    where neither is logged.
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
    """The figures of a segment of training that its log tells."""
    names = ("samples_per_second", "train_seconds", "evaluation_seconds", "data_wait_seconds")
    figures = {"training_loss": block.loss} | {name: getattr(block, name) for name in names}
    known = {name: value for name, value in figures.items() if value is not None}
    return {f"{unit}_per_second": rate for unit, rate in block.rates.items()} | known


def _figures(row: Run) -> Iterator[tuple[str, float]]:
    """The columns of a run that are numbers; its length is a time to target where it reached one."""
    for item in own_fields(Run):
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
    """The log, and of a run of ours what docs/reference/log_format.md names beside it; no links there, which may
    lead anywhere.
    """
    folder, named = log.path.parent, list[Path]()
    if log.settings.profile:
        named += [folder / name for name in (RUN_FILE, STATUS_FILE, "metrics.jsonl", "server.log")]
        named += sorted(folder.glob("worker-*.log"))
        machines = machine_folders(folder)
        named += [
            machine / name for machine in machines for name in ("telemetry.jsonl", "topology.json")
        ]
    beside = {
        str(path.relative_to(folder)): path
        for path in named
        if path.is_file() and not path.is_symlink()
    }
    return {log.path.name: log.path, **beside}


def _name(text: str) -> str:
    """A name that every tracker takes: logs may hold any."""
    return re.sub(r"[^\w.-]+", "_", text).strip("._")[:_LONGEST_NAME] or "_"


def _scale(value: Any) -> Scale:
    """A number that any float holds, a truth value, or one printable line; empty: not known."""
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
