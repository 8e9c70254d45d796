"""Export runs to Weights & Biases as offline runs.

The user uploads an offline run with `wandb sync`.

The records have the format of the `wandb` library (`wandb.proto`). The module does not call
`wandb.init` for three reasons: `wandb.init` starts a program that may access the network, records
the time of the export as the time of the run, and adds the packages, the user, and the load of the
exporting machine.
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
"""Header of a `.wandb` file (wandb 0.31). After the header, the file has the log format of
LevelDB.
"""
_BLOCK, _FRAME = 32768, struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_LONGEST_TAG = 64
"""Maximum length of a W&B tag in characters."""


class WandB:
    """Offline W&B runs below `wandb/` in a folder."""

    def __init__(self, output: str) -> None:
        self._folder = Path(output, "wandb")

    def add(self, run: ExportedRun) -> int:
        """Write a run that has ended, and return the number of written scalars.

        Returns 0 for a run that is in progress or that was already written, because an offline run
        cannot be extended.
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
            # The folder is renamed last, so that a folder with the final name is always complete.
            written.rename(self._folder / written.name)
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
            # W&B displays the last value of each scalar as the summary.
            summary.summary.update.add(nested_key=[name], value_json=json.dumps(value))
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
    """Yield the rows of the run's W&B history, with the columns that W&B normally adds.

    A row contains all scalars that have the same time and axis.
    """
    points: dict[tuple[int, str, int], dict[str, float]] = {}
    for scalar in run.scalars:
        position: dict[str, float] = {} if scalar.axis == "result" else {scalar.axis: scalar.at}
        key = scalar.time_ms, scalar.axis, scalar.at
        points.setdefault(key, position)[scalar.name] = scalar.value
    for number, (time_ms, axis, at) in enumerate(sorted(points)):
        columns = {
            "_step": number,
            "_timestamp": time_ms / 1000,
            "_runtime": (time_ms - run.start_ms) / 1000,
        }
        yield {**points[time_ms, axis, at], **columns}


def _framed(records: Iterator[Record]) -> bytes:
    """Return the content of a `.wandb` file.

    Each record has a number. Records are split at the boundaries of 32 KiB blocks, and each
    fragment of a record has a checksum.
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
