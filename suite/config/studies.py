"""`study=NAME` on the command line: from a study and what was typed beside it to the overrides of each of its jobs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from suite.common import registry
from suite.common.study import Point, Study, StudyCell, load_study
from suite.config import overrides
from suite.config.keys import workload_keys
from workloads.api import OPTION_GROUPS

KEYS = ("study", "study.size")
_WHOLE = ("plugins", "output", "resume")
"""Keys of the whole command: never an axis."""


class CellWords(NamedTuple):
    """A cell with the overrides that make its job."""

    cell: StudyCell | None
    """None of a study that shows no columns: its jobs are as those of `-m`."""
    words: tuple[str, ...]


def named(arguments: Sequence[str]) -> bool:
    """Whether the command asks for a study. Raises ValueError for a size without one."""
    keys = {text.partition("=")[0] for text in arguments}
    if "study.size" in keys and "study" not in keys:
        raise ValueError("study.size: of which study? type study=NAME too")
    return "study" in keys


def cells(arguments: Sequence[str]) -> list[CellWords]:
    """The jobs of the study that `arguments` name, in the order of their table.

    What is typed beside it wins: for an axis its values are those typed, of points those are left that have them; a list
    of values for another key is a further axis. Raises ValueError, in one line.
    """
    study_words = {key: text.partition("=")[2] for text in arguments if (key := text.partition("=")[0]) in KEYS}
    study = load_study(study_words["study"], study_words.get("study.size", "full"))
    typed = {text.partition("=")[0]: overrides.texts(text) for text in arguments if text.partition("=")[0] not in KEYS}
    study = _shortened(_fitting(study, typed), typed)
    fixed = {key: values[0] for key, values in typed.items() if key not in study.keys}
    settings = {key: value for key, value in study.settings.items() if key not in study.keys} | fixed
    counts = {name: len(values) for name, values in study.axes.items()} | {"points": max(1, len(study.points))}
    overrides.check_count(counts, [*(f"{key}={value}" for key, value in settings.items()), *arguments])
    listed = []
    for values in _crossed(study):
        words = tuple(overrides.in_full(f"{key}={value}") for key, value in {**settings, **values}.items())
        listed.append(CellWords(StudyCell(study, values) if study.table else None, words))
    return listed


def _crossed(study: Study) -> list[Point]:
    """Every point with every combination of the axes, the first axis fastest within the others."""
    names = list(study.axes)
    grid = [
        dict(zip(names, reversed(chosen), strict=True))
        for chosen in itertools.product(*(study.axes[name] for name in reversed(names)))
    ]
    return [{**point, **combination} for point in study.points or ({},) for combination in grid]


def _shortened(study: Study, typed: Mapping[str, Sequence[str]]) -> Study:
    """The study with the axes, and the choice of points, that were typed."""
    axes = {key: tuple(typed.get(key, values)) for key, values in study.axes.items()}
    points = study.points
    in_points = {key for point in points for key in point}
    for key, values in typed.items():
        if key in in_points:
            kept = tuple(point for point in points if point.get(key) in values)
            if not kept:
                offered = dict.fromkeys(point[key] for point in points if key in point)
                raise ValueError(
                    f"{key}={','.join(values)}: study={study.name} has no such point; its points have "
                    f"{key}={','.join(offered)}"
                )
            points = kept
        elif len(values) > 1 and key not in axes:
            if key in _WHOLE:
                raise ValueError(f"{key}={','.join(values)}: one value for the whole study")
            axes[key] = tuple(values)
    return replace(study, axes=axes, points=points)


def _fitting(study: Study, typed: Mapping[str, Sequence[str]]) -> Study:
    """The study without the settings that the typed workloads do not have. Raises ValueError where its axes are such."""
    workloads = [name for name in typed.get("workload", ()) if name in registry.names(registry.WORKLOADS)]
    if not workloads or list(workloads) == [study.settings.get("workload")]:
        return study
    known = [workload_keys(name) for name in workloads]

    def fits(key: str) -> bool:
        group = key.partition(".")[0]
        return "." not in key or group not in ("workload", *OPTION_GROUPS) or all(key in keys for keys in known)

    lost = [key for key in study.keys if not fits(key)]
    if lost:
        raise ValueError(
            f"workload={','.join(workloads)}: study={study.name} is over {lost[0]}, which this workload does not have"
        )
    return replace(study, settings={key: value for key, value in study.settings.items() if fits(key)})
