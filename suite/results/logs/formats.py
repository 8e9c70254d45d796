"""Parsers of the log line formats.

The formats are `:::MLLOG` (since v0.7, and in this suite), `:::MLL` (v0.6), `:::MLPv0.5.0`, and
dated `MLPerf:` lines.

A parser is called with a line and the position after the format's token. Each parser returns the
fields of an `Event` with the key names of `:::MLLOG`, and raises ValueError or RecursionError for
an invalid line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timezone

from suite.results.logs.events import TIME_AS_TEXT, ProblemCode, Remark, number
from suite.results.logs.lenient_json import read_lenient_json
from workloads.api import Json

RECORD_START = re.compile(r":::(MLLOG|MLL|MLPv0\.5\.0)(?=\s)|(MLPerf): (?=[a-z_]+ \[[0-9])")
"""Regular expression that matches the start of a record. Group 1 or group 2 contains the line
format.
"""
LINE_MARKS = (b":::ML", b"MLPerf: ")
"""Byte strings of which every line with a record contains at least one."""
_MLL_HEAD = re.compile(r"\s+([0-9]+(?:\.[0-9]+)?)\s+([^\s:{]+)\s*:\s*")
_V05_HEAD = re.compile(
    r"\s+(\S+)\s+([0-9]+(?:\.[0-9]+)?)\s+\(([^)]*)\)\s+([^\s:]+)[ \t]*(:(?!::)\s*)?"
)
_DATED = re.compile(
    r"([a-z_]+) \[([0-9]{2}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})\],"
    r" (\w+)(?::\s*|(?=,|\s*$))"
)
_SPACE = re.compile(r"\s*")
_SCAN: Callable[[str, int], tuple[Json, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
"""JSON parser function that `raw_decode` calls internally.

The function raises StopIteration if no JSON value begins at the given position.
"""
_NO_METADATA: Mapping[str, Json] = {}
Parsed = tuple[int, tuple[Remark, ...], str, float, str, Json, Mapping[str, Json]]
"""The position after the record, followed by the `Event` fields (remarks, benchmark, time in ms,
key, value, metadata).
"""
_NO_REMARKS: tuple[Remark, ...] = ()
_SECONDS = Remark(ProblemCode.TIME_IN_SECONDS, "time_s (seconds) in place of time_ms")
_DATES = Remark(ProblemCode.DATED_LINE, "dates without a time zone, in whole seconds, read as UTC")


def _lenient_value(text: str, start: int) -> tuple[Json, int, tuple[Remark, ...]]:
    """Parse the JSON value that follows optional white space at `start`.

    Returns the value, the position after the value, and remarks. There are remarks only if the
    value is not valid JSON.
    """
    begin = _SPACE.match(text, start).end()  # type: ignore[union-attr]
    try:
        return *_SCAN(text, begin), _NO_REMARKS
    except (json.JSONDecodeError, StopIteration) as broken:
        try:
            value, end, tolerated = read_lenient_json(text, begin)
        except ValueError:
            if isinstance(broken, ValueError):
                raise broken from None
            raise json.JSONDecodeError("Expecting value", text, broken.value) from None
        return value, end, (Remark(ProblemCode.NOT_JSON, tolerated),)


def _metadata(value: Json) -> Mapping[str, Json]:
    if value is None:
        return _NO_METADATA
    if not isinstance(value, dict):
        raise ValueError("metadata is not an object")
    value.pop("file", None)  # the suite does not use the source location of a record
    value.pop("lineno", None)
    return value or _NO_METADATA


def parse_mllog(text: str, start: int) -> Parsed:
    """Parse `:::MLLOG {"namespace", "time_ms", "event_type", "key", "value", "metadata"}`.

    A time in seconds (`time_s`) is also accepted.
    """
    record, end, remarks = _lenient_value(text, start)
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    if "time_ms" not in record and (seconds := number(record.get("time_s"))) is not None:
        record["time_ms"] = seconds * 1000.0
        remarks += (_SECONDS,)
    try:
        time, key, value, metadata = (
            record["time_ms"],
            record["key"],
            record["value"],
            record["metadata"],
        )
    except KeyError:
        missing = [name for name in ("time_ms", "key", "value", "metadata") if name not in record]
        raise ValueError(f"without {', '.join(missing)}") from None
    time_ms = number(time)
    if time_ms is None or not isinstance(key, str):
        raise ValueError("time_ms is not a number" if time_ms is None else "key is not text")
    if isinstance(time, str):
        remarks += (TIME_AS_TEXT,)
    return end, remarks, "", time_ms, key, value, _metadata(metadata)


def parse_mll(text: str, start: int) -> Parsed:
    """Parse `:::MLL <seconds> <key>: {"value": …, "metadata": {…}}`."""
    head = _MLL_HEAD.match(text, start)
    if head is None:
        raise ValueError("not of the form: seconds key: {…}")
    body, end, remarks = _lenient_value(text, head.end())
    if not isinstance(body, dict) or "value" not in body:
        raise ValueError("without a value")
    return (
        end,
        remarks,
        "",
        _milliseconds(head[1]),
        head[2],
        body["value"],
        _metadata(body.get("metadata")),
    )


def _v05_event(tag: str, value: Json) -> tuple[str, Json, Mapping[str, Json]]:
    """Convert a v0.5 tag and its value to (key, value, metadata) as in `:::MLLOG`."""
    if tag == "train_epoch":
        return "epoch_start", None, {"epoch_num": value}
    names = {
        "run_set_random_seed": "seed",
        "run_clear_caches": "cache_clear",
        "eval_target": "quality_target",
    }
    if tag in ("eval_accuracy", "eval_target") and isinstance(value, dict) and "value" in value:
        return names.get(tag, tag), value["value"], {"epoch_num": value.get("epoch")}
    return names.get(tag, tag), value, _NO_METADATA


def parse_v05(text: str, start: int) -> Parsed:
    """Parse `:::MLPv0.5.0 <benchmark> <seconds> (<file>:<line>) <tag>[: <json>]`."""
    head = _V05_HEAD.match(text, start)
    if head is None:
        raise ValueError("not of the form: benchmark seconds (file:line) tag: value")
    value, end, remarks = (
        _lenient_value(text, head.end()) if head[5] else (None, head.end(), _NO_REMARKS)
    )
    return end, remarks, head[1], _milliseconds(head[2]), *_v05_event(head[4], value)


def parse_dated(text: str, start: int) -> Parsed:
    """Parse a dated line of Alibaba's v0.6 logs.

    The format is `MLPerf: <benchmark> [mm/dd/yy hh:mm:ss], <v0.5 tag>[: <value>]`. The value
    extends to the end of the line. The value is JSON, almost valid JSON, or plain text such as
    `(224, 224, 3) -> (112, 112, 64)`.
    """
    head = _DATED.match(text, start)
    if head is None:
        raise ValueError("not of the form: benchmark [date time], tag: value")
    moment = datetime.strptime(head[2], "%m/%d/%y %H:%M:%S").replace(tzinfo=timezone.utc)
    value, end, remarks = None, head.end(), _NO_REMARKS
    if head[0].rstrip().endswith(":"):
        try:
            value, end, remarks = _lenient_value(text, head.end())
        except ValueError:
            end = start
        if text[end:].strip():
            value, end, remarks = text[head.end() :].strip(), len(text), _NO_REMARKS
    return (
        end,
        (_DATES, *remarks),
        head[1],
        moment.timestamp() * 1000.0,
        *_v05_event(head[3], value),
    )


def _milliseconds(seconds: str) -> float:
    """Convert decimal seconds to milliseconds.

    The fraction is converted separately from the whole seconds, so that no digits are lost by
    rounding.
    """
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 1000.0 + float(f"0.{fraction or 0}") * 1000.0


PARSERS: Mapping[str, Callable[[str, int], Parsed]] = {
    "MLLOG": parse_mllog,
    "MLL": parse_mll,
    "MLPv0.5.0": parse_v05,
    "MLPerf": parse_dated,
}
"""Parser of each line format."""
