"""What a user can type and a hyperparameter set can give: fields of a workload's `Options`, with what is allowed."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from workloads.api.values import Json

if TYPE_CHECKING:
    from workloads.api.settings import Settings

Kind = TypeVar("Kind")

OPTION_GROUPS = ("data", "backbone")
"""Where options of workloads may be typed beside `workload`: `data.decode`, `backbone.weights`."""
NOT_OPTIONS = ("name", "dataset", "hyperparameter_set", "target")
"""Fields of a workload's `Options` that become settings of their own."""


def option(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    pattern: str = "",
    example: str = "",
    key: str = "",
) -> Any:
    """A dataclass field that a user can type, with its description and what is allowed.

    `pattern` is matched against the whole value. `key`: where it is typed, if that is not the place of the dataclass: an option
    of a workload is typed as `workload.NAME`, one with `key="data.decode"` as `data.decode`.
    """
    metadata = {"help": help, "choices": choices, "minimum": minimum, "maximum": maximum, "pattern": pattern}
    metadata |= {"example": example, "key": key}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def hyperparameter(
    help: str,
    *,
    default: Any = None,
    overridable: bool = True,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
) -> Any:
    """A field whose value a named set gives, with its description and what is allowed.

    default: what a set may leave out; None: every set gives it. overridable: whether `workload.NAME` overrides the set's value.
    """
    metadata = {"help": help, "choices": choices, "minimum": minimum, "maximum": maximum}
    return field(default=default, metadata={**metadata, "internal": not overridable, "of_set": True})


@dataclass(frozen=True)
class Hyperparameter:
    """Value of a hyperparameter set, with its source."""

    value: Json
    source: str
    """`published: …`, `derived: …`, `presumed: …` or `user`."""


@dataclass(frozen=True, kw_only=True)
class WorkloadOptions:
    """`workload.*` of every workload with data and named sets."""

    name: str = ""
    dataset: str = option("auto", "prepared data set; auto: the profile's")
    hyperparameter_set: str = option("auto", "named set; auto: the profile's")
    max_epochs: int = hyperparameter("give up after so many epochs", minimum=1)


def build_options(kind: type[Kind], settings: Settings) -> Kind:
    """The hyperparameters and options of a run that `kind`, a dataclass of some of them, has; defaults where there is none."""
    known = {item.name for item in fields(kind)}  # type: ignore[arg-type]
    values = {**settings.options, **settings.hyperparameters}
    return kind(**{name: value for name, value in values.items() if name in known})


def option_keys(kind: Any) -> dict[str, Field[Any]]:
    """What a user can type for a workload's `Options`: key (`workload.learning_rate`, `data.decode`) to the field."""
    settable = (item for item in fields(kind) if not item.metadata.get("internal"))
    return {item.metadata.get("key") or f"workload.{item.name}": item for item in settable}


def hyperparameter_fields(kind: Any) -> dict[str, Field[Any]]:
    """Name to field of the hyperparameters among a workload's `Options`: what its sets give."""
    return {item.name: item for item in fields(kind) if item.metadata.get("of_set")}


def default_values(kind: Any) -> dict[str, Json]:
    """Name of each field of `Options` to what it is where nothing is typed; None: what the set says."""
    return {**vars(kind()), **dict.fromkeys(hyperparameter_fields(kind))}


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}


def kind_of(item: Field[Any]) -> str:
    """The annotated type of a field as it is written, also where a plugin's module does not postpone annotations: `int`."""
    return item.type.__name__ if isinstance(item.type, type) else str(item.type)


def check_value(key: str, kind: str, metadata: Mapping[str, Any], value: object) -> None:
    """Raise ValueError with one line if `value` is not allowed for a field of the annotated type `kind`."""
    if value is None and ("None" in kind or kind == "Any"):
        return
    names = {"int": int, "float": float, "bool": bool, "str": str}
    wanted = next((names[part.strip()] for part in kind.split("|") if part.strip() in names), None)
    if kind.startswith("list") and not isinstance(value, list):
        raise ValueError(f"{key}={value}: a list is needed; type {key}=[a,b]")
    if kind.startswith("dict") and not isinstance(value, dict):  # what is typed is no mapping either
        raise ValueError(f"{key}={value}: a mapping is needed; write it into a file of yours (docs/environments.md)")
    minimum, pattern, choices = metadata.get("minimum"), metadata.get("pattern"), metadata.get("choices")
    example = f", for example {key}={metadata['example']}" if metadata.get("example") else ""
    if choices and (str(value).lower() if isinstance(value, bool) else str(value)) not in choices:
        raise invalid_choice(key, value, choices)
    if pattern and not re.fullmatch(pattern, str(value)):
        forms = pattern.replace(r"[1-9]\d*", "N").replace("|", " | ")
        raise ValueError(f"{key}={value}: allowed: {forms} with N a whole number of at least 1{example}")
    if wanted is not None and not _fits(value, wanted):
        least = f" of at least {minimum:g}" if minimum is not None else ""
        what = "a finite number" if wanted is float and isinstance(value, float) else _WORDS[wanted]
        raise ValueError(f"{key}={value}: {what}{least} is needed{example}")
    if minimum is not None and isinstance(value, (int, float)) and value < minimum:
        raise ValueError(f"{key}={value}: at least {minimum:g} is needed{example}")
    maximum = metadata.get("maximum")
    if maximum is not None and isinstance(value, (int, float)) and value > maximum:
        raise ValueError(f"{key}={value}: at most {maximum:g} is allowed{example}")


def _fits(value: object, wanted: type) -> bool:
    if wanted is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < math.inf
    if wanted is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, wanted) or (wanted is str and isinstance(value, (int, float)))


def suggestion(given: str, allowed: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the closest allowed name, whatever the case of its letters, or an empty string."""
    by_lower = {name.lower(): name for name in allowed}
    matches = difflib.get_close_matches(given.lower(), list(by_lower), n=1, cutoff=0.5)
    return f" (did you mean '{by_lower[matches[0]]}'?)" if matches else ""


def invalid_choice(what: str, given: object, allowed: Iterable[str]) -> ValueError:
    """The one line for a name that does not exist: what was given, what is allowed, the nearest match."""
    names = sorted(allowed)
    return ValueError(f"{what}={given}: allowed: {', '.join(names) or 'none'}{suggestion(str(given), names)}")
