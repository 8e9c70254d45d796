"""From the lines of a log to neutral events: one parser per line format, and no meaning given to anything yet.

`:::MLLOG` (v0.7 on, and ours), `:::MLL` (v0.6) and `:::MLPv0.5.0` all yield the same `Event`, in the vocabulary of
`:::MLLOG`. Only JSON is parsed; nothing in a log is ever evaluated.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from workloads.api import Json

MAX_PROBLEMS = 100
"""Problems kept of one file; more are counted in a last one."""
MAX_LINE_BYTES = 1 << 20
"""A line longer than this holds no record."""
_MAX_PROBLEMS_PER_LINE = 10


@dataclass(frozen=True)
class Event:
    """One record of a log."""

    line: int
    """Line in the file, from 1."""
    format: str
    """`MLLOG`, `MLL` or `MLPv0.5.0`."""
    time_ms: float
    """Milliseconds since 1970 by the writer's clock."""
    key: str
    value: Json
    metadata: Mapping[str, Json]
    text: str
    """The record from its token on: two records with the same text are one record written twice."""
    benchmark: str = ""
    """Benchmark that the record itself names (v0.5 only)."""


@dataclass(frozen=True)
class Problem:
    """Something in a file that could not be read, or does not fit."""

    line: int
    """Line in the file, from 1; 0: the file as a whole."""
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


_TOKEN = re.compile(r":::(MLLOG|MLL|MLPv0\.5\.0)(?=\s)")
_MLL_HEAD = re.compile(r"\s+([0-9]+(?:\.[0-9]+)?)\s+([^\s:{]+)\s*:\s*")
_V05_HEAD = re.compile(r"\s+(\S+)\s+([0-9]+(?:\.[0-9]+)?)\s+\(([^)]*)\)\s+([^\s:]+)[ \t]*(:(?!::)\s*)?")
_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_DECODER = json.JSONDecoder()


def number(value: Json) -> float | None:
    """`value` as a finite number, also where a log holds it as text; None if it is not one."""
    if isinstance(value, str) and len(value) < 64 and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer beyond any float
        return None


def read_events(path: Path) -> tuple[list[Event], list[Problem]]:
    """All records of a file in its order, and what could not be read.

    Raises ValueError (one line) if the file does not exist or cannot be opened. No content makes it fail.
    """
    events: list[Event] = []
    problems: list[Problem] = []
    found = dropped = 0
    try:
        with open(path, "rb") as stream:
            for line, raw in enumerate(stream, start=1):
                if b":::ML" not in raw:
                    continue
                for item in _records(raw, line):
                    if isinstance(item, Event):
                        events.append(item)
                    elif len(problems) < MAX_PROBLEMS:
                        problems.append(item)
                    else:
                        dropped += 1
                found += 1
            size = stream.tell()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror or error}); give the path of a log file") from error
    if dropped:
        problems.append(Problem(0, f"{dropped} more lines could not be read"))
    if not events:
        problems.insert(0, Problem(0, _why_empty(path, size, found)))
    return events, problems


def _why_empty(path: Path, size: int, found: int) -> str:
    if size == 0:
        return "the file is empty"
    if found:
        return "no record of the log can be read"
    with open(path, "rb") as stream:
        binary = b"\0" in stream.read(4096)
    return "not a log: binary data" if binary else "not a log: no line holds :::MLLOG, :::MLL or :::MLPv0.5.0"


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _records(raw: bytes, line: int) -> Iterator[Event | Problem]:
    """The records of one line: text before a token is skipped, a second record glued to the first is found."""
    if len(raw) > MAX_LINE_BYTES:
        yield Problem(line, f"a line of {len(raw)} bytes is no record (limit {MAX_LINE_BYTES})")
        return
    text = _decode(raw).rstrip()
    position = failures = 0
    after = ""
    while (token := _TOKEN.search(text, position)) is not None:
        try:
            event, position = _PARSERS[token[1]](text, token.start(), token.end(), line)
        except (ValueError, RecursionError, OverflowError) as error:
            yield Problem(line, f":::{token[1]} record cannot be read ({_reason(error)})")
            position, failures, after = token.end(), failures + 1, ""
            if failures == _MAX_PROBLEMS_PER_LINE:
                yield Problem(line, "the rest of the line was not read")
                return
        else:
            yield event
            after = event.format
    if after == "MLLOG" and text[position:].strip():
        yield Problem(line, "text behind the record")


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"broken JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}"
    return "JSON nested too deeply" if isinstance(error, RecursionError) else str(error)


def _json(text: str, start: int) -> tuple[Json, int]:
    """The JSON value at `start` (after white space) and the position behind it."""
    match = _SPACE.match(text, start)
    return _DECODER.raw_decode(text, match.end() if match else start)


def _metadata(value: Json) -> Mapping[str, Json]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("metadata is not an object")
    return value


def _parse_mllog(text: str, token: int, start: int, line: int) -> tuple[Event, int]:
    """`:::MLLOG {"namespace", "time_ms", "event_type", "key", "value", "metadata"}`."""
    record, end = _json(text, start)
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    missing = [name for name in ("time_ms", "key", "value", "metadata") if name not in record]
    if missing:
        raise ValueError(f"without {', '.join(missing)}")
    time_ms, key = number(record["time_ms"]), record["key"]
    if time_ms is None or not isinstance(key, str):
        raise ValueError("time_ms is not a number" if time_ms is None else "key is not text")
    event = Event(line, "MLLOG", time_ms, key, record["value"], _metadata(record["metadata"]), text[token:end])
    return event, end


def _parse_mll(text: str, token: int, start: int, line: int) -> tuple[Event, int]:
    """`:::MLL <seconds> <key>: {"value": …, "metadata": {…}}`."""
    head = _MLL_HEAD.match(text, start)
    if head is None:
        raise ValueError("not of the form: seconds key: {…}")
    body, end = _json(text, head.end())
    if not isinstance(body, dict) or "value" not in body:
        raise ValueError("without a value")
    time_ms, metadata = _milliseconds(head[1]), _metadata(body.get("metadata"))
    return Event(line, "MLL", time_ms, head[2], body["value"], metadata, text[token:end]), end


_V05_KEYS = {
    "run_clear_caches": "cache_clear",
    "run_set_random_seed": "seed",
    "train_epoch": "epoch_start",
    "eval_target": "quality_target",
}
"""Tags of v0.5 that mean the same as a key of today."""


def _parse_v05(text: str, token: int, start: int, line: int) -> tuple[Event, int]:
    """`:::MLPv0.5.0 <benchmark> <seconds> (<file>:<line>) <tag>[: <json>]`."""
    head = _V05_HEAD.match(text, start)
    if head is None:
        raise ValueError("not of the form: benchmark seconds (file:line) tag: value")
    value, end = _json(text, head.end()) if head[5] else (None, head.end())
    time_ms, tag = _milliseconds(head[2]), head[4]
    metadata: dict[str, Json] = {}
    if tag in ("eval_accuracy", "eval_target") and isinstance(value, dict) and "value" in value:
        metadata["epoch_num"], value = value.get("epoch"), value["value"]
    elif tag == "train_epoch":
        metadata["epoch_num"], value = value, None
    elif tag == "run_stop" and isinstance(value, dict) and "success" in value:
        success = str(value["success"]).lower() == "true"
        metadata["status"], value = "success" if success else "failed", None
    key = _V05_KEYS.get(tag, tag)
    event = Event(line, "MLPv0.5.0", time_ms, key, value, metadata, text[token:end].rstrip(), benchmark=head[1])
    return event, end


def _milliseconds(seconds: str) -> float:
    """Milliseconds from decimal seconds; the digits behind the point are kept apart so that none is lost early."""
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 1000.0 + float(f"0.{fraction or 0}") * 1000.0


_PARSERS: Mapping[str, Callable[[str, int, int, int], tuple[Event, int]]] = {
    "MLLOG": _parse_mllog,
    "MLL": _parse_mll,
    "MLPv0.5.0": _parse_v05,
}
