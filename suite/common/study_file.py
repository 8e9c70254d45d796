"""Read the description of a study, which is a named experiment of one or more jobs.

A description is a file in `conf/study/`, or comes from a plugin:

    sentence: Samples per second over the batch per device.
    set: {workload: zoo, profile: synthetic}  # settings of all jobs; overrides replace them
    axes: {batch: [per_device:16, per_device:32]}  # all combinations of these values
    points: [{gpus: 1, precision: fp32}]  # settings that belong together, for each combination
    ci: {set: {}, axes: {}, points: []}  # study.size=ci: merges set, replaces axes and points
    table: {columns: [samples/s, GPU %], fit: true}  # suite/results/views/study_columns.py
    figure: {y: samples/s, kind: lines}  # over the first axis, or over `x`

Only `sentence` is required. If a study has no `table`, its jobs are not cells of a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.catalog.yaml_files import read_yaml
from suite.common import conf, registry
from suite.common.registry import invalid_choice
from workloads.api import Json

SIZES = ("full", "ci")
_KEYS = ("sentence", "set", "axes", "points", "ci", "table", "figure")
_FORM = "See conf/study/batch_size.yaml for an example"

Point = Mapping[str, str]
"""Command-line overrides, as a mapping of keys to values."""


@dataclass(frozen=True)
class Study:
    """A study in one of its sizes (`full` or `ci`)."""

    name: str
    sentence: str
    size: str
    settings: Point = field(default_factory=dict)
    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    table: Mapping[str, Json] = field(default_factory=dict)
    figure: Mapping[str, Json] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the configuration keys that differ between cells. Keys of the axes come first."""
        return tuple(dict.fromkeys([*self.axes, *(key for point in self.points for key in point)]))


@dataclass(frozen=True)
class StudyCell:
    """A job of a study, which is a cell of the study's table."""

    study: Study
    values: Point
    """Overrides that identify this cell. Their keys are the configuration keys that differ between
    cells.
    """

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the overrides of the cell as `key=value` strings, as in the log."""
        return tuple(f"{key}={value}" for key, value in self.values.items())


def study_names() -> list[str]:
    """Return the sorted names of all studies.

    Studies are defined in conf/study/, in the user's configuration folders, and by plugins.
    """
    return sorted({*conf.files("study"), *registry.names(registry.STUDIES)})


def load_study(name: str, size: str = "full") -> Study:
    """Return a study by name.

    Args:
        name: Name of the study.
        size: A size in `SIZES`.

    Raises:
        ValueError: The study or the size does not exist, or the description is invalid.
    """
    if name not in study_names():
        raise invalid_choice("study", name, study_names())
    if size not in SIZES:
        raise invalid_choice("study.size", size, SIZES)
    return read_study(name, size, _described(name))


def read_study(name: str, size: str, described: Mapping[str, Any]) -> Study:
    """Build a study from its description.

    Args:
        name: Name of the study.
        size: A size in `SIZES`.
        described: The parsed description.

    Raises:
        ValueError: The description is invalid. The error message is a single line.
    """
    unknown = set(described) - set(_KEYS)
    if unknown or not isinstance(described.get("sentence"), str):
        problem = (
            f"has unknown keys: {', '.join(sorted(unknown))}" if unknown else "has no sentence"
        )
        raise ValueError(f"study={name}: its description {problem}. {_FORM}")
    small = _mapping(name, "ci", described.get("ci")) if size == "ci" else {}
    settings = {
        **_mapping(name, "set", described.get("set")),
        **_mapping(name, "set", small.get("set")),
    }
    if "axes" in small or "points" in small:
        axes, points = small.get("axes"), small.get("points")
    else:
        axes, points = described.get("axes"), described.get("points")
    return Study(
        name,
        described["sentence"],
        size,
        {str(key): to_override_text(value) for key, value in settings.items()},
        {
            str(key): _values(name, key, value)
            for key, value in _mapping(name, "axes", axes).items()
        },
        tuple(
            {
                str(key): to_override_text(value)
                for key, value in _mapping(name, "points", point).items()
            }
            for point in _list(name, "points", points)
        ),
        _mapping(name, "table", described.get("table")),
        _mapping(name, "figure", described.get("figure")),
    )


def to_override_text(value: Json) -> str:
    """Format a value from a study file as the value of a command-line override."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _described(name: str) -> Mapping[str, Any]:
    """Return the description of a study, from its file or from a plugin.

    A plugin registers either the description or the path of a file with the description.
    """
    source = conf.files("study").get(name) or registry.load_study(name)
    if not isinstance(source, str | Path):
        return _mapping(name, "the description", source)
    try:
        return _mapping(name, "the file", read_yaml(Path(source)))
    except OSError as error:
        raise ValueError(f"study={name}: {source}: {error.strerror}") from None


def _mapping(name: str, what: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping | None):
        raise ValueError(f"study={name}: {what} is not a mapping (key: value). {_FORM}")
    return value or {}


def _list(name: str, what: str, value: object) -> Sequence[Any]:
    if not isinstance(value, list | None):
        raise ValueError(f"study={name}: {what} is not a list. {_FORM}")
    return value or ()


def _values(name: str, key: object, value: object) -> tuple[str, ...]:
    values = tuple(to_override_text(item) for item in _list(name, f"the axis {key}", value))
    if not values:
        raise ValueError(f"study={name}: the axis {key} has no values. {_FORM}")
    return values
