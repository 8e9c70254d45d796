"""Find the entry points of installed distributions by group and name.

This module does not import the modules of the entry points.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import EntryPoint, entry_points

TRAINERS = "suite.trainers"
_KINDS = {"suite.studies": "study", TRAINERS: "trainers for"}


@cache
def points(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name.

    Raises:
        ValueError: Two distributions define an entry point with the same name.
    """
    by_name: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        first = by_name.setdefault(point.name, point)
        if first is not point and (first_owner := _owner(first)) != (second_owner := _owner(point)):
            raise ValueError(
                f"{first_owner} and {second_owner} both define {kind_of(group)} '{point.name}'. Use"
                f" only {first_owner} or only {second_owner}"
            )
    return by_name


def _owner(point: EntryPoint) -> str:
    """Return the name of the distribution that defines an entry point."""
    return str(point.dist.name) if point.dist is not None else point.value


def kind_of(group: str) -> str:
    """Return a noun for the objects that the entry points of a group define.

    For example, the function returns `workload` for the group `suite.workloads`.
    """
    return _KINDS.get(group) or group.removeprefix("suite.").removesuffix("s")


def refresh() -> None:
    """Discard the cached entry points.

    Call this function after the Python path has changed.
    """
    importlib.invalidate_caches()
    points.cache_clear()
