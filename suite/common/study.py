"""A study: a named experiment of one job or several, as its file in `conf/study/` or a package from outside describes it.

sentence: Samples per second over the batch of one device.
set: {workload: zoo, profile: synthetic}          what every job has, unless the command line says otherwise
axes: {batch: [per_device:16, per_device:32]}     crossed with each other and with the points
points: [{gpus: 1, precision: fp32}, …]           settings that go together
ci: {set: …, axes: …, points: …}                  what `study.size=ci` puts in their place
table: {columns: [samples/s, GPU %], fit: true}   names of columns: suite/results/views/study_columns.py; none: no cells
figure: {y: samples/s, kind: lines}               over the first axis, or over `x`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.common import conf, registry
from suite.common.registry import not_allowed
from workloads.api import Json
from workloads.api.yaml_files import read_yaml

SIZES = ("full", "ci")
_KEYS = ("sentence", "set", "axes", "points", "ci", "table", "figure")
_FORM = "conf/study/batch_size.yaml shows the form"

Point = Mapping[str, str]
"""Key of the command line to its value, as typed."""


@dataclass(frozen=True)
class Study:
    """One experiment in one of its sizes."""

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
        """Everything that differs between its cells: keys of the axes, then of the points."""
        return tuple(dict.fromkeys([*self.axes, *(key for point in self.points for key in point)]))


@dataclass(frozen=True)
class StudyCell:
    """One job of a study."""

    study: Study
    values: Point
    """The keys in which cells differ, with this one's values."""

    @property
    def texts(self) -> tuple[str, ...]:
        """`key=value` each, as the log has them."""
        return tuple(f"{key}={value}" for key, value in self.values.items())


def study_names() -> list[str]:
    """The studies that there are: files in conf/study/ or folders of the user's own, and those of packages from outside."""
    return sorted({*conf.files("study"), *registry.names(registry.STUDIES)})


def load_study(name: str, size: str = "full") -> Study:
    """The study called `name`. Raises ValueError for one that does not exist, or is not of the form."""
    if name not in study_names():
        raise not_allowed("study", name, study_names())
    if size not in SIZES:
        raise not_allowed("study.size", size, SIZES)
    return read_study(name, size, _described(name))


def read_study(name: str, size: str, described: Mapping[str, Any]) -> Study:
    """A study from its description. Raises ValueError, in one line, for what is not of the form."""
    unknown = set(described) - set(_KEYS)
    if unknown or not isinstance(described.get("sentence"), str):
        what = f"does not know {', '.join(sorted(unknown))}" if unknown else "has no sentence"
        raise ValueError(f"study={name}: its description {what}; {_FORM}")
    small = _mapping(name, "ci", described.get("ci")) if size == "ci" else {}
    settings = {**_mapping(name, "set", described.get("set")), **_mapping(name, "set", small.get("set"))}
    if "axes" in small or "points" in small:
        axes, points = small.get("axes"), small.get("points")
    else:
        axes, points = described.get("axes"), described.get("points")
    return Study(
        name,
        described["sentence"],
        size,
        {str(key): as_typed(value) for key, value in settings.items()},
        {str(key): _values(name, key, value) for key, value in _mapping(name, "axes", axes).items()},
        tuple(
            {str(key): as_typed(value) for key, value in _mapping(name, "points", one).items()}
            for one in _list(name, "points", points)
        ),
        _mapping(name, "table", described.get("table")),
        _mapping(name, "figure", described.get("figure")),
    )


def as_typed(value: Json) -> str:
    """A value of a file as it is typed on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _described(name: str) -> Mapping[str, Any]:
    """What a file says, or a package's entry point: such a description, or the path of a file that holds one."""
    found = conf.files("study").get(name) or registry.load_study(name)
    if not isinstance(found, str | Path):
        return _mapping(name, "the description", found)
    try:
        return _mapping(name, "the file", read_yaml(Path(found)))
    except OSError as error:
        raise ValueError(f"study={name}: {found}: {error.strerror}") from None


def _mapping(name: str, what: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping | None):
        raise ValueError(f"study={name}: {what} is not of the form key: value; {_FORM}")
    return value or {}


def _list(name: str, what: str, value: object) -> Sequence[Any]:
    if not isinstance(value, list | None):
        raise ValueError(f"study={name}: {what} is no list; {_FORM}")
    return value or ()


def _values(name: str, key: object, value: object) -> tuple[str, ...]:
    values = tuple(as_typed(item) for item in _list(name, f"the axis {key}", value))
    if not values:
        raise ValueError(f"study={name}: the axis {key} has no values; {_FORM}")
    return values
