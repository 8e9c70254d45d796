"""One parser per line format: `:::MLLOG` (v0.7 on, and ours), `:::MLL` (v0.6), `:::MLPv0.5.0`, and dated `MLPerf:` lines.

All yield the same `Event`, in the vocabulary of `:::MLLOG`. A parser gets (text, position of the token, position after it,
line) and returns (event, position after the record), or raises ValueError or RecursionError.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timezone

from suite.results.logs.events import NO_TIME, TIME_AS_TEXT, Event, number
from suite.results.logs.lenient_json import read_lenient_json
from workloads.api import Json

RECORD_START = re.compile(r":::(MLLOG|MLL|MLPv0\.5\.0)(?=\s)|(MLPerf): (?=[a-z_]+ \[[0-9])")
"""Where a record begins; group 1 or 2 is its format."""
LINE_MARKS = (b":::ML", b"MLPerf: ")
"""Bytes of which every line with a record contains at least one."""
_MLL_HEAD = re.compile(r"\s+([0-9]+(?:\.[0-9]+)?)\s+([^\s:{]+)\s*:\s*")
_V05_HEAD = re.compile(r"\s+(\S+)\s+([0-9]+(?:\.[0-9]+)?)\s+\(([^)]*)\)\s+([^\s:]+)[ \t]*(:(?!::)\s*)?")
_DATED = re.compile(r"([a-z_]+) \[([0-9]{2}/[0-9]{2}/[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})\], (\w+)(?::\s*|(?=,|\s*$))")
_SPACE = re.compile(r"\s*")
_SCAN: Callable[[str, int], tuple[Json, int]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
"""What `raw_decode` calls; it raises StopIteration where no value begins."""
_NO_METADATA: Mapping[str, Json] = {}


def _lenient_value(text: str, start: int) -> tuple[Json, int, str]:
    """(value at `start` after white space, position after it, what was tolerated; empty: it is JSON)."""
    begin = _SPACE.match(text, start).end()  # type: ignore[union-attr]
    try:
        return *_SCAN(text, begin), ""
    except (json.JSONDecodeError, StopIteration) as broken:
        try:
            return read_lenient_json(text, begin)
        except ValueError:
            if isinstance(broken, ValueError):
                raise broken from None
            raise json.JSONDecodeError("Expecting value", text, broken.value) from None


def _metadata(value: Json) -> Mapping[str, Json]:
    if value is None:
        return _NO_METADATA
    if not isinstance(value, dict):
        raise ValueError("metadata is not an object")
    value.pop("file", None)  # the place in the program that wrote the record: nothing reads it
    value.pop("lineno", None)
    return value or _NO_METADATA


def _joined(*remarks: str) -> str:
    return "; ".join(filter(None, remarks))


def parse_mllog(text: str, token: int, start: int, line: int) -> tuple[Event, int]:
    """Parse `:::MLLOG {"namespace", "time_ms", "event_type", "key", "value", "metadata"}`; `time_s` (seconds) is tolerated."""
    record, end, remark = _lenient_value(text, start)
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    if "time_ms" not in record and (seconds := number(record.get("time_s"))) is not None:
        record["time_ms"] = seconds * 1000.0
        remark = _joined(remark, "time_s (seconds) in place of time_ms")
    try:
        time, key, value, metadata = record["time_ms"], record["key"], record["value"], record["metadata"]
    except KeyError:
        missing = [name for name in ("time_ms", "key", "value", "metadata") if name not in record]
        raise ValueError(f"without {', '.join(missing)}") from None
    time_ms = number(time)
    if time_ms is None or not isinstance(key, str):
        raise ValueError("time_ms is not a number" if time_ms is None else "key is not text")
    if remark or not time_ms or isinstance(time, str):
        remark = _joined(remark, TIME_AS_TEXT if isinstance(time, str) else "", "" if time_ms else NO_TIME)
    mark, key = hash(text[token:end]), sys.intern(key)
    return Event(line, "MLLOG", time_ms, key, value, _metadata(metadata), mark, "", remark), end


def parse_mll(text: str, token: int, start: int, line: int) -> tuple[Event, int]:
    """Parse `:::MLL <seconds> <key>: {"value": …, "metadata": {…}}`."""
    head = _MLL_HEAD.match(text, start)
    if head is None:
        raise ValueError("not of the form: seconds key: {…}")
    body, end, remark = _lenient_value(text, head.end())
    if not isinstance(body, dict) or "value" not in body:
        raise ValueError("without a value")
    time_ms, key, metadata = _milliseconds(head[1]), sys.intern(head[2]), _metadata(body.get("metadata"))
    remark = _joined(remark, "" if time_ms else NO_TIME)
    return Event(line, "MLL", time_ms, key, body["value"], metadata, hash(text[token:end]), "", remark), end


def _v05_event(tag: str, value: Json) -> tuple[str, Json, dict[str, Json]]:
    """A v0.5 tag and its value as (key, value, metadata) in the vocabulary of `:::MLLOG`."""
    if tag == "train_epoch":
        return "epoch_start", None, {"epoch_num": value}
    key = {"run_set_random_seed": "seed", "run_clear_caches": "cache_clear", "eval_target": "quality_target"}.get(
        tag, tag
    )
    if tag in ("eval_accuracy", "eval_target") and isinstance(value, dict) and "value" in value:
        return key, value["value"], {"epoch_num": value.get("epoch")}
    return key, value, {}


def parse_v05(text: str, token: int, start: int, line: int) -> tuple[Event, int]:
    """Parse `:::MLPv0.5.0 <benchmark> <seconds> (<file>:<line>) <tag>[: <json>]`."""
    head = _V05_HEAD.match(text, start)
    if head is None:
        raise ValueError("not of the form: benchmark seconds (file:line) tag: value")
    value, end, remark = _lenient_value(text, head.end()) if head[5] else (None, head.end(), "")
    time_ms, mark = _milliseconds(head[2]), hash(text[token:end].rstrip())
    remark = _joined(remark, "" if time_ms else NO_TIME)
    return Event(line, "MLPv0.5.0", time_ms, *_v05_event(head[4], value), mark, head[1], remark), end


def parse_dated(text: str, token: int, start: int, line: int) -> tuple[Event, int]:
    """Parse `MLPerf: <benchmark> [mm/dd/yy hh:mm:ss], <v0.5 tag>[: <value>]` (Alibaba, v0.6).

    The value ends with the line: JSON, almost JSON, or plain text such as `(224, 224, 3) -> (112, 112, 64)`.
    """
    head = _DATED.match(text, start)
    if head is None:
        raise ValueError("not of the form: benchmark [date time], tag: value")
    moment = datetime.strptime(head[2], "%m/%d/%y %H:%M:%S").replace(tzinfo=timezone.utc)
    value, end, tolerated = None, head.end(), ""
    if head[0].rstrip().endswith(":"):
        try:
            value, end, tolerated = _lenient_value(text, head.end())
        except ValueError:
            end = token
        if text[end:].strip():
            value, end, tolerated = text[head.end() :].strip(), len(text), ""
    remark = _joined("dates without a time zone, in whole seconds, read as UTC", tolerated)
    time_ms, mark = moment.timestamp() * 1000.0, hash(text[token:end])
    return Event(line, "MLPerf", time_ms, *_v05_event(head[3], value), mark, head[1], remark), end


def _milliseconds(seconds: str) -> float:
    """Milliseconds from decimal seconds; the fraction is converted separately so that no digit is lost to rounding."""
    whole, _, fraction = seconds.partition(".")
    return int(whole) * 1000.0 + float(f"0.{fraction or 0}") * 1000.0


PARSERS: Mapping[str, Callable[[str, int, int, int], tuple[Event, int]]] = {
    "MLLOG": parse_mllog,
    "MLL": parse_mll,
    "MLPv0.5.0": parse_v05,
    "MLPerf": parse_dated,
}
"""Line format to its parser."""
