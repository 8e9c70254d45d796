"""Options and hyperparameters of a workload.

Options and hyperparameters are fields of the workload's `Options` dataclass. The fields define the
allowed values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from workloads.api.messages import TYPE_NAMES, invalid_choice, invalid_value
from workloads.api.values import Json

if TYPE_CHECKING:
    from workloads.api.settings import Settings

Kind = TypeVar("Kind")

OPTION_GROUPS = ("data", "backbone")
"""Groups of options in addition to `workload`, as in `data.decode` and `backbone.weights`."""
NOT_OPTIONS = ("name", "dataset", "hyperparameter_set", "target")
"""Fields of `Options` that are separate settings. Planning does not store these fields in
`Settings.options`.
"""


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
    """Return a dataclass field for a user option, with its description and allowed values.

    Args:
        default: Default value, or a function without arguments that returns the default.
        help: Description of the option.
        choices: Allowed values. If empty, all values of the type are allowed.
        minimum: Minimum of a number.
        maximum: Maximum of a number.
        pattern: Regular expression that must match the whole value.
        example: Valid value for error messages.
        key: Key on the command line, such as `data.decode`. If empty, the key consists of the group
            of the dataclass and the name of the field, such as `workload.NAME`.
    """
    metadata = {
        "help": help,
        "choices": choices,
        "minimum": minimum,
        "maximum": maximum,
        "pattern": pattern,
    }
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
    """Return a dataclass field whose value a hyperparameter set defines.

    The metadata of the field contain a description and the allowed values.

    Args:
        help: Description of the hyperparameter.
        default: Value for sets that do not define the hyperparameter. With None, every set must
            define the hyperparameter.
        overridable: True if the user can override the set's value of the hyperparameter with
            `workload.NAME`.
        choices: Allowed values. If empty, all values of the type are allowed.
        minimum: Minimum of a number.
        maximum: Maximum of a number.
    """
    metadata = {"help": help, "choices": choices, "minimum": minimum, "maximum": maximum}
    return field(
        default=default, metadata={**metadata, "internal": not overridable, "of_set": True}
    )


@dataclass(frozen=True)
class Hyperparameter:
    """Value in a hyperparameter set, with the source of the value."""

    value: Json
    source: str
    """Source of the value: `published: …`, `derived: …`, `presumed: …`, or `user`."""


@dataclass(frozen=True, kw_only=True)
class WorkloadOptions:
    """Options `workload.*` of every workload that has data and hyperparameter sets."""

    name: str = ""
    dataset: str = option("auto", "prepared data set; auto: the profile's")
    hyperparameter_set: str = option("auto", "named set; auto: the profile's")
    max_epochs: int = hyperparameter("give up after so many epochs", minimum=1)


def build_options(kind: type[Kind], settings: Settings) -> Kind:
    """Return an instance of the options dataclass `kind` with the values of a run.

    Options that `settings` does not contain are set to their defaults.
    """
    names = {item.name for item in fields(kind)}  # type: ignore[arg-type]
    values = {**settings.options, **settings.hyperparameters}
    return kind(**{name: value for name, value in values.items() if name in names})


def option_keys(kind: Any) -> dict[str, Field[Any]]:
    """Return the user-settable fields of a workload's `Options` by key.

    Examples of keys: `workload.learning_rate`, `data.decode`.
    """
    settable = (item for item in fields(kind) if not item.metadata.get("internal"))
    return {item.metadata.get("key") or f"workload.{item.name}": item for item in settable}


def hyperparameter_fields(kind: Any) -> dict[str, Field[Any]]:
    """Return the hyperparameter fields of a workload's `Options` by name."""
    return {item.name: item for item in fields(kind) if item.metadata.get("of_set")}


def default_values(kind: Any) -> dict[str, Json]:
    """Return the default of each field of `Options` by name.

    Hyperparameters have the default None, because the hyperparameter set defines their values.
    """
    return {**vars(kind()), **dict.fromkeys(hyperparameter_fields(kind))}


def kind_of(item: Field[Any]) -> str:
    """Return the annotated type of a field as a string, such as `int`.

    The string does not depend on whether the module uses `from __future__ import annotations`.
    """
    return item.type.__name__ if isinstance(item.type, type) else str(item.type)


def check_value(key: str, kind: str, metadata: Mapping[str, Any], value: object) -> None:
    """Raise ValueError if `value` is not allowed for a field of type `kind`.

    The error message is a single line.
    """
    if value is None and ("None" in kind or kind == "Any"):
        return
    names = {"int": int, "float": float, "bool": bool, "str": str}
    expected = next(
        (names[part.strip()] for part in kind.split("|") if part.strip() in names), None
    )
    if kind.startswith("list") and not isinstance(value, list):
        raise invalid_value(key, value, "a list", f". Set {key}=[a,b]")
    if kind.startswith("dict") and not isinstance(value, dict):
        # The command line cannot express mappings.
        remedy = ". Write it into a file (docs/how-to/configure_a_run.md)"
        raise invalid_value(key, value, "a mapping", remedy)
    minimum, pattern, choices = (
        metadata.get("minimum"),
        metadata.get("pattern"),
        metadata.get("choices"),
    )
    example = f", for example {key}={metadata['example']}" if metadata.get("example") else ""
    if choices and (str(value).lower() if isinstance(value, bool) else str(value)) not in choices:
        raise invalid_choice(key, value, choices)
    if pattern and not re.fullmatch(pattern, str(value)):
        forms = pattern.replace(r"[1-9]\d*", "N").replace("|", " | ")
        raise ValueError(
            f"{key}={value}: allowed: {forms}, with an integer N of at least 1{example}"
        )
    if expected is not None and not _fits(value, expected):
        least = f" of at least {minimum:g}" if minimum is not None else ""
        name = (
            "a finite number"
            if expected is float and isinstance(value, float)
            else TYPE_NAMES[expected]
        )
        raise invalid_value(key, value, f"{name}{least}", example)
    if minimum is not None and isinstance(value, (int, float)) and value < minimum:
        raise invalid_value(key, value, f"at least {minimum:g}", example)
    maximum = metadata.get("maximum")
    if maximum is not None and isinstance(value, (int, float)) and value > maximum:
        raise invalid_value(key, value, f"at most {maximum:g}", example)


def _fits(value: object, expected: type) -> bool:
    if expected is float:
        return (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and abs(value) < math.inf
        )
    if expected is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, expected) or (expected is str and isinstance(value, (int, float)))
