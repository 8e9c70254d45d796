"""Parse the fields of `suite_run`.

A field of the wrong type adds a problem to the record, and never raises an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace

from suite.catalog.deviations import Deviation, deviation_from_json, deviation_of_text
from suite.common.labels import Label, label_from_json
from suite.results.logs.events import Event, Problem, ProblemCode, numbers, whole_number
from suite.results.logs.limits import odd_value
from suite.results.logs.record import RunSettings
from workloads.api import Json


def _texts(value: Json) -> tuple[str, ...] | None:
    return (
        tuple(value)
        if isinstance(value, list) and all(isinstance(item, str) for item in value)
        else None
    )


def _numbers(value: Json) -> dict[str, float] | None:
    figures = numbers(value) if isinstance(value, dict) else {}
    return figures if isinstance(value, dict) and len(figures) == len(value) else None


def _named_texts(value: Json) -> dict[str, str] | None:
    is_named = isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    return dict(value) if is_named else None


def _labels(value: Json) -> tuple[Label, ...] | None:
    labels = [label_from_json(item) for item in value] if isinstance(value, list) else [None]
    return tuple(label for label in labels if label is not None) if None not in labels else None


def _deviations(value: Json) -> tuple[Deviation, ...] | None:
    deviations = (
        [deviation_from_json(item) for item in value] if isinstance(value, list) else [None]
    )
    return (
        tuple(item for item in deviations if item is not None) if None not in deviations else None
    )


_READERS: Mapping[str, tuple[str, Callable[[Json], object]]] = {
    "str": ("a string", lambda value: value if isinstance(value, str) else None),
    "int": ("an integer", lambda value: None if isinstance(value, str) else whole_number(value)),
    "tuple[str, ...]": ("a list of strings", _texts),
    "tuple[Label, ...]": ("a list of labels", _labels),
    "tuple[Deviation, ...]": ("a list of deviations", _deviations),
    "Mapping[str, float]": ("an object of numbers", _numbers),
    "Mapping[str, str]": ("an object of strings", _named_texts),
}
"""Display name and parser of each field type in RunSettings.

A parser returns None for a value of a different type.
"""


def run_settings(event: Event | None, problems: list[Problem]) -> RunSettings:
    """Return the settings in a `suite_run` event, with defaults for missing fields.

    Values that have the wrong type or exceed their limits are omitted, and a problem is appended to
    `problems`.
    """
    if event is None:
        return RunSettings()
    if not isinstance(event.value, dict):
        problems.append(Problem(event.line, ProblemCode.SETTING, "suite_run is not an object"))
        return RunSettings()
    values: dict[str, object] = {}
    for item in fields(RunSettings):
        logged = event.value.get(item.name)
        if logged is None:
            continue
        type_name, reader = _READERS[str(item.type).removesuffix(" | None")]
        value = reader(logged)
        odd = odd_value(item.name, value, event.line) if isinstance(value, int) else None
        if value is None:
            odd = Problem(
                event.line, ProblemCode.SETTING, f"suite_run: {item.name} is not {type_name}"
            )
        if odd is None:
            values[item.name] = value
        else:
            problems.append(odd)
    return RunSettings(**values)  # type: ignore[arg-type]


def with_open_reasons(settings: RunSettings, value: Json) -> RunSettings:
    """Add the deviations of a `suite_open` record to the settings.

    The controller appends the `suite_open` record at the end of a run.

    Args:
        settings: Settings of the `suite_run` record.
        value: Value of the `suite_open` record.
    """
    content = value if isinstance(value, dict) else {}
    reasons = content.get("reasons")
    texts = (
        [text for text in reasons[:8] if isinstance(text, str)] if isinstance(reasons, list) else []
    )
    texts = texts or ["a suite_open line without reasons"]
    facts = _deviations(content.get("deviation_facts")) or ()
    added = facts if len(facts) == len(texts) else tuple(map(deviation_of_text, texts))
    return replace(
        settings,
        deviations=(*settings.deviations, *texts),
        deviation_facts=(*settings.parsed_deviations, *added),
    )
