"""`suite_run` out of a log, field by field: a value of the wrong type is a problem, not a crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields

from suite.results.logs.events import Event, Problem, number, whole_number
from suite.results.logs.plausible import odd_value
from suite.results.logs.record import RunSettings
from workloads.api import Json


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _integer(value: Json) -> int | None:
    return None if isinstance(value, str) else whole_number(value)


def _texts(value: Json) -> tuple[str, ...] | None:
    return tuple(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else None


def _numbers(value: Json) -> dict[str, float] | None:
    if not isinstance(value, dict):
        return None
    read = {str(name): number(item) for name, item in value.items()}
    kept = {name: item for name, item in read.items() if item is not None}
    return kept if len(kept) == len(read) else None


_READERS: Mapping[str, tuple[str, Callable[[Json], object]]] = {
    "str": ("text", _text),
    "int | None": ("a whole number", _integer),
    "int": ("a whole number", _integer),
    "tuple[str, ...]": ("a list of texts", _texts),
    "Mapping[str, float]": ("an object of numbers", _numbers),
}
"""Type of a field of RunSettings to (the type in words, its reader; None: not of that type)."""


def run_settings(event: Event | None, problems: list[Problem]) -> RunSettings:
    """The settings in a `suite_run` event; the defaults for what it lacks. What is of a wrong type, or no run can have, is
    added to `problems` and left out."""
    if event is None:
        return RunSettings()
    if not isinstance(event.value, dict):
        problems.append(Problem(event.line, "suite_run is not an object"))
        return RunSettings()
    values: dict[str, object] = {}
    for item in fields(RunSettings):
        given = event.value.get(item.name)
        if given is None:
            continue
        words, reader = _READERS[str(item.type)]
        value = reader(given)
        odd = odd_value(item.name, value, event.line) if isinstance(value, int) else None
        if value is None:
            problems.append(Problem(event.line, f"suite_run: {item.name} is not {words}"))
        elif odd is not None:
            problems.append(odd)
        else:
            values[item.name] = value
    return RunSettings(**values)  # type: ignore[arg-type]
