"""Weights & Biases: an offline run for each run, which `wandb sync` uploads where its user wants
that.

The records are the library's own (`wandb.proto`). `wandb.init` is not called: it starts a program
that may go online, takes the time of the export for that of the run, and adds packages, user and
load of the machine that exports.
"""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from wandb.proto.wandb_internal_pb2 import FilesItem, Record

from suite.trackers.exported import ExportedRun
from workloads.held_folder import held_folder

_HEAD = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
"""How a `.wandb` file begins (wandb 0.31); its records follow as in a log of LevelDB."""
_BLOCK, _FRAME = 32768, struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_LONGEST_TAG = 64
"""Characters that W&B takes."""


class WandB:
    """Runs below `wandb/` in a folder."""

    def __init__(self, output: str) -> None:
        self._folder = Path(output, "wandb")

    def add(self, run: ExportedRun) -> int:
        """Write a run that has ended, once: an offline run cannot be gone on with.

        How many scalars it has.
        """
        if run.end_ms is None or any(self._folder.glob(f"offline-run-*-{run.identity}")):
            return 0
        self._folder.mkdir(parents=True, exist_ok=True)
        start = datetime.fromtimestamp(run.start_ms / 1000, timezone.utc)
        with held_folder(self._folder, ".suite-") as folder:
            written = Path(folder, f"offline-run-{start:%Y%m%d_%H%M%S}-{run.identity}")
            (written / "files").mkdir(parents=True)
            for name, file in run.files.items():
                copy = written / "files" / name
                copy.parent.mkdir(exist_ok=True)
                shutil.copyfile(file, copy)
            (written / f"run-{run.identity}.wandb").write_bytes(_framed(_records(run, run.end_ms)))
            written.rename(
                self._folder / written.name
            )  # so that a run which is there is a whole one
        return len(run.scalars)


def _records(run: ExportedRun, end_ms: int) -> Iterator[Record]:
    yield _head(run)
    for axis in ("epoch", "step", "second"):
        record = Record()
        record.metric.glob_name, record.metric.step_metric = f"{axis}/*", axis
        record.metric.options.step_sync = record.metric.options.defined = True
        yield record
    summary, files, last = Record(), Record(), Record()
    for row in _rows(run):
        record = Record()
        record.history.step.num = int(row["_step"])
        for name, value in row.items():
            record.history.item.add(nested_key=[name], value_json=json.dumps(value))
            summary.summary.update.add(
                nested_key=[name], value_json=json.dumps(value)
            )  # the last one counts
        yield record
    seconds = (end_ms - run.start_ms) // 1000
    summary.summary.update.add(nested_key=["_wandb", "runtime"], value_json=json.dumps(seconds))
    yield summary
    for name in run.files:
        files.files.files.add(path=name, policy=FilesItem.PolicyType.END)
    yield files
    last.exit.exit_code, last.exit.runtime = 0 if run.status == "success" else 1, seconds
    yield last


def _head(run: ExportedRun) -> Record:
    head = Record()
    head.run.run_id, head.run.project, head.run.run_group = (
        run.identity,
        "time-to-target",
        run.workload,
    )
    head.run.display_name, head.run.notes = run.title, run.labels_text
    head.run.tags.extend(dict.fromkeys(label[:_LONGEST_TAG] for label in run.labels))
    head.run.start_time.FromMilliseconds(run.start_ms)
    for key, value in {**run.tags, **run.hyperparameters, "labels": run.labels_text}.items():
        head.run.config.update.add(key=key, value_json=json.dumps(value))
    return head


def _rows(run: ExportedRun) -> Iterator[dict[str, float]]:
    """The scalars of one time and axis as a row of the run's history, with the columns that W&B
    makes itself otherwise.
    """
    points: dict[tuple[int, str, int], dict[str, float]] = {}
    for one in run.scalars:
        where = {} if one.axis == "result" else {one.axis: one.at}
        points.setdefault((one.time_ms, one.axis, one.at), dict(where))[one.name] = one.value
    for number, (time_ms, axis, at) in enumerate(sorted(points)):
        own = {
            "_step": number,
            "_timestamp": time_ms / 1000,
            "_runtime": (time_ms - run.start_ms) / 1000,
        }
        yield {**points[time_ms, axis, at], **own}


def _framed(records: Iterator[Record]) -> bytes:
    """A `.wandb` file: each record numbered, cut where a block of 32 KiB ends, every piece with its
    checksum.
    """
    data = bytearray(_HEAD)
    for number, record in enumerate(records, start=1):
        record.num = number
        rest, first = record.SerializeToString(), True
        while first or rest:
            room = _BLOCK - len(data) % _BLOCK
            if room < _FRAME.size:
                data += bytes(room)
                continue
            piece, rest = rest[: room - _FRAME.size], rest[room - _FRAME.size :]
            kind = (_FIRST if rest else _FULL) if first else (_MIDDLE if rest else _LAST)
            data += (
                _FRAME.pack(zlib.crc32(piece, zlib.crc32(bytes([kind]))), len(piece), kind) + piece
            )
            first = False
    return bytes(data)
