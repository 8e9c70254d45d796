"""Write the log of a run as mllog lines through the mlperf-logging package.

Each line is flushed immediately.

If a line cannot be written, the run ends. Python's logging module hides write errors, so the log
handler stores the error and `RunLog` raises it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO

from mlperf_logging.mllog import mllog

from suite.common.paths import PROJECT
from workloads import files
from workloads.api import Json

LOG_BYTES = 1 << 30
"""Maximum size in bytes of a log that is read."""
LAST_BYTES = 1 << 16
"""Number of bytes at the end of a log in which the last record is searched."""


SEARCHED_TEXTS = (
    "global_batch_size",
    "submission_benchmark",
    "eval_accuracy",
    "eval_error",
    "run_stop",
)
"""Texts that mlperf-logging's RCP checker searches in whole lines (rcp_checker.py,
`read_submission_file`).

The checker uses the value or the metadata of each line that contains such a text, even if the text
is not the key of the line.
"""


class _LineHandler(logging.Handler):
    """Writes and flushes each log record as a line, and stores the first write error."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__()
        self.stream = stream
        self.key = ""
        """Key of the next line."""
        self.failure: Exception | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a log record as a line.

        A record with a level above INFO counts as a failure, because mllog reports encoding
        failures at such levels.
        """
        try:
            if record.levelno > logging.INFO:
                raise ValueError(record.getMessage())
            self.stream.write(escape_searched_texts(record.getMessage(), self.key) + "\n")
            self.stream.flush()
        except (OSError, ValueError) as error:
            self.failure = self.failure or error


class RunLog:
    """Log of a run, `result_N.txt`.

    A time stamp is the wall-clock time at the start of the log plus the elapsed time of a monotonic
    clock.
    """

    def __init__(self, path: Path | None, append: bool = False) -> None:
        """Open the log.

        Args:
            path: Path of the log. None creates a log that discards all lines, for all ranks except
                rank 0.
            append: True to append to the log of an earlier attempt. False to create a new file.

        Raises:
            FileExistsError: The file exists, and `append` is False.
            FileNotFoundError: The file does not exist, and `append` is True.
        """
        self._start_ms = time.time() * 1e3
        self._start = time.monotonic()
        self._last_ms = _last_time(path) if append and path is not None else 0
        self._path = path
        self._handler: _LineHandler | None = None
        if path is None:
            return
        self._handler = _LineHandler(_end_of(path) if append else open(path, "x", encoding="utf-8"))  # noqa: SIM115
        logger = logging.Logger("suite.worker.runlog", logging.INFO)
        logger.addHandler(self._handler)
        self._mllog = mllog.MLLogger(logger=logger, default_stack_offset=3, root_dir=str(PROJECT))

    def written(self) -> bytes:
        """Flush the log to disk, and return all lines that have been written."""
        if self._path is None or self._handler is None:
            return b""
        os.fsync(self._handler.stream.fileno())
        return files.read_bytes(self._path, LOG_BYTES)

    def seconds_since(self, key: str) -> float:
        """Return the seconds since the first log line with a key.

        Returns 0 if no line has the key. Only lines that existed when the log was opened are
        searched.
        """
        if self._path is None:
            return 0.0
        first_ms = _first_time(self._path, key)
        return 0.0 if first_ms is None else max(0.0, self._time_ms() - first_ms) / 1e3

    def start(self, key: str, value: Json = None, **metadata: Json) -> None:
        """Write an INTERVAL_START line.

        Raises OSError if the line cannot be written.
        """
        self._write("start", key, value, metadata)

    def end(self, key: str, value: Json = None, **metadata: Json) -> None:
        """Write an INTERVAL_END line.

        Raises OSError if the line cannot be written.
        """
        self._write("end", key, value, metadata)

    def event(self, key: str, value: Json = None, **metadata: Json) -> None:
        """Write a POINT_IN_TIME line.

        Raises OSError if the line cannot be written.
        """
        self._write("event", key, value, metadata)

    def close(self) -> None:
        if self._handler is not None:
            self._handler.stream.close()

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, kind: str, key: str, value: Json, metadata: Mapping[str, Json]) -> None:
        if self._handler is None:
            return
        write = getattr(self._mllog, kind)
        self._handler.key = key
        write(
            key=key, value=finite(value), metadata=finite(dict(metadata)), time_ms=self._time_ms()
        )
        if self._handler.failure is not None:
            raise OSError(
                f"the log cannot be written: {self._handler.failure}"
            ) from self._handler.failure

    def _time_ms(self) -> int:
        """Return the current time in milliseconds since 1970.

        The time never decreases within a log.
        """
        self._last_ms = max(
            self._last_ms, int(self._start_ms + (time.monotonic() - self._start) * 1e3)
        )
        return self._last_ms


def escape_searched_texts(line: str, key: str) -> str:
    """Return a line in which no text of `SEARCHED_TEXTS` occurs except the key of the line.

    The underscores of other occurrences are replaced by their JSON escape, so that the content of
    the line does not change.
    """
    for text in SEARCHED_TEXTS:
        if text != key and text in line:
            line = line.replace(text, text.replace("_", "\\u005f"))
    return line


def _end_of(path: Path) -> IO[str]:
    """Open an existing log to append lines.

    If a killed run left an incomplete last line, the function first appends a line break.
    """
    with open(path, "rb") as log:
        whole = not log.seek(0, os.SEEK_END) or (log.seek(-1, os.SEEK_END), log.read(1))[1] == b"\n"
    stream = open(path, "a", encoding="utf-8")  # noqa: SIM115 - closed by the log's close()
    if not whole:
        stream.write("\n")
    return stream


def _first_time(path: Path, key: str) -> int | None:
    """Return the time stamp in milliseconds of a log's first record with a key.

    Returns None if no record has the key.
    """
    for line in files.read_bytes(path, LOG_BYTES).splitlines():
        if json.dumps(key).encode() in line:
            record = json.loads(line.partition(b" ")[2])
            if record["key"] == key:
                return int(record["time_ms"])
    return None


def _last_time(path: Path) -> int:
    """Return the time stamp in milliseconds of a log's last record, or 0 without records.

    The time stamp may be later than the current time if the wall clock was set back.
    """
    with open(path, "rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - LAST_BYTES))
        times = re.findall(rb'"time_ms": (\d{1,15})', log.read())
    return max(map(int, times), default=0)


def finite(value: Json) -> Json:
    """Replace NaN and infinities in `value` by None.

    JSON cannot represent NaN and infinities.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


class JsonLines:
    """Appends JSON objects to a file, one object per line."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def write(self, row: Mapping[str, Json]) -> None:
        """Append an object as a line, with a single system call.

        Raises OSError if the line cannot be written.
        """
        if self._path is None:
            return
        line = (json.dumps(finite(row), ensure_ascii=False) + "\n").encode()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            if os.write(descriptor, line) != len(line):
                raise OSError(
                    f"{self._path}: only a part of the line was written (is the disk full?)"
                )
        finally:
            os.close(descriptor)
