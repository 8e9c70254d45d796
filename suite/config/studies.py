"""Expand `study=NAME` to the overrides of each job of the study.

The remaining command-line overrides are added to the overrides of each job.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from suite.common import registry
from suite.common.study_file import Point, Study, StudyCell, load_study
from suite.config import overrides
from suite.config.key_suggestions import workload_keys
from workloads.api import OPTION_GROUPS

KEYS = ("study", "study.size")
_WHOLE = ("plugins", "output", "resume")
"""Keys that apply to the whole command and therefore cannot be an axis of a study."""


class CellOverrides(NamedTuple):
    """A cell of a study, with the overrides of its job."""

    cell: StudyCell | None
    """Cell of the study's table, or None if the study has no table.

    The jobs of a study without a table are the same as those of a sweep with `-m`.
    """
    overrides: tuple[str, ...]


def named(arguments: Sequence[str]) -> bool:
    """Check whether the command line selects a study.

    Raises:
        ValueError: `study.size` is set without `study`.
    """
    keys = {text.partition("=")[0] for text in arguments}
    if "study.size" in keys and "study" not in keys:
        raise ValueError("study.size: this key needs a study. Set study=NAME too")
    return "study" in keys


def cells(arguments: Sequence[str]) -> list[CellOverrides]:
    """Return the cells of a study with the overrides of their jobs.

    The cells are in the order of the table. Overrides of the command line take precedence over the
    study:

    - Values for the key of an axis replace the values of the axis.
    - Values for a key of the study's points remove all points with different values.
    - A list of values for any other key becomes an additional axis.

    Args:
        arguments: Overrides of the command line, with `study=NAME`.

    Raises:
        ValueError: The study does not exist, or an override is incompatible with the study. The
            message is a single line.
    """
    study_words = {
        key: text.partition("=")[2] for text in arguments if (key := text.partition("=")[0]) in KEYS
    }
    study = load_study(study_words["study"], study_words.get("study.size", "full"))
    values_by_key = {
        text.partition("=")[0]: overrides.texts(text)
        for text in arguments
        if text.partition("=")[0] not in KEYS
    }
    study = _shortened(_fitting(study, values_by_key), values_by_key)
    fixed = {key: values[0] for key, values in values_by_key.items() if key not in study.keys}
    settings = {
        key: value for key, value in study.settings.items() if key not in study.keys
    } | fixed
    counts = {name: len(values) for name, values in study.axes.items()} | {
        "points": max(1, len(study.points))
    }
    overrides.check_count(
        counts, [*(f"{key}={value}" for key, value in settings.items()), *arguments]
    )
    result = []
    for values in _crossed(study):
        override_list = tuple(
            overrides.in_full(f"{key}={value}") for key, value in {**settings, **values}.items()
        )
        result.append(
            CellOverrides(StudyCell(study, values) if study.table else None, override_list)
        )
    return result


def _crossed(study: Study) -> list[Point]:
    """Return all combinations of the study's points with the values of its axes.

    Within each point, the values of the first axis change fastest.
    """
    names = list(study.axes)
    grid = [
        dict(zip(names, reversed(chosen), strict=True))
        for chosen in itertools.product(*(study.axes[name] for name in reversed(names)))
    ]
    return [{**point, **combination} for point in study.points or ({},) for combination in grid]


def _shortened(study: Study, values_by_key: Mapping[str, Sequence[str]]) -> Study:
    """Return the study with its axes and points restricted by the command-line overrides.

    Args:
        study: The study.
        values_by_key: Maps each key on the command line to its values.

    Raises:
        ValueError: No point of the study matches the values, or a key that applies to the whole
            command has several values.
    """
    axes = {key: tuple(values_by_key.get(key, values)) for key, values in study.axes.items()}
    points = study.points
    in_points = {key for point in points for key in point}
    for key, values in values_by_key.items():
        if key in in_points:
            kept = tuple(point for point in points if point.get(key) in values)
            if not kept:
                offered = dict.fromkeys(point[key] for point in points if key in point)
                raise ValueError(
                    f"{key}={','.join(values)}: no point of study={study.name} has this value."
                    f" Allowed: {key}={','.join(offered)}"
                )
            points = kept
        elif len(values) > 1 and key not in axes:
            if key in _WHOLE:
                raise ValueError(
                    f"{key}={','.join(values)}: expected a single value for the whole study"
                )
            axes[key] = tuple(values)
    return replace(study, axes=axes, points=points)


def _fitting(study: Study, values_by_key: Mapping[str, Sequence[str]]) -> Study:
    """Remove the settings of a study that the workloads on the command line do not have.

    Args:
        study: The study.
        values_by_key: Maps each key on the command line to its values.

    Raises:
        ValueError: An axis or a point of the study has a key that a workload does not have.
    """
    workloads = [
        name
        for name in values_by_key.get("workload", ())
        if name in registry.names(registry.WORKLOADS)
    ]
    if not workloads or list(workloads) == [study.settings.get("workload")]:
        return study
    available_keys = [workload_keys(name) for name in workloads]

    def fits(key: str) -> bool:
        group = key.partition(".")[0]
        return (
            "." not in key
            or group not in ("workload", *OPTION_GROUPS)
            or all(key in keys for keys in available_keys)
        )

    missing_keys = [key for key in study.keys if not fits(key)]
    if missing_keys:
        raise ValueError(
            f"workload={','.join(workloads)}: study={study.name} varies {missing_keys[0]}, which"
            " this workload does not have"
        )
    return replace(
        study, settings={key: value for key, value in study.settings.items() if fits(key)}
    )
