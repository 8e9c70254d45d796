"""Which measurements one prediction may rest on: those of one family over all numbers of devices and all batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from suite.results.score.groups import Group
from suite.results.score.measurement import UNCOUNTED, Measurement


def comparable(items: Sequence[Measurement]) -> list[list[Measurement]]:
    """Measurements that one prediction may rest on, in order of devices.

    Of our runs those of a family, whatever their batch; of others' those of one round, submitter, division, accelerator and
    target. Those without a known batch, number of devices or any figure are left out. Raises ValueError if none is left.
    """
    groups: dict[tuple[object, ...], list[Measurement]] = {}
    known = [
        item
        for item in items
        if item.batch_size_global and (item.score.seconds_per_epoch or item.score.samples_per_second)
    ]
    for item in known:
        if item.devices > 0:
            groups.setdefault(_key(item), []).append(item)
    if known and not groups:
        raise ValueError(f"{known[0].workload}, {known[0].series}: {UNCOUNTED}, so there is nothing to carry on from")
    if not groups:
        raise ValueError(
            "a prediction needs runs with a known batch and a time per epoch or a rate, and there are none"
        )
    return [sorted(group, key=lambda item: (item.devices, item.batch_size_global or 0)) for group in groups.values()]


def over_batches(item: Measurement) -> tuple[object, ...]:
    """The family of a measurement without what only says which batch it has: the rule for it, and the set that names one."""
    untold = Group()
    return tuple(
        replace(part, batch_rule=untold.batch_rule, hyperparameter_set=untold.hyperparameter_set)
        if isinstance(part, Group)
        else part
        for part in item.family
    )


def _key(item: Measurement) -> tuple[object, ...]:
    if item.origin == "ours":
        return item.origin, item.workload, *over_batches(item)
    place = (item.origin, item.workload, item.submitter, item.in_open_division, item.hardware)
    return (*place, item.precision, item.clock, tuple(sorted(item.targets.items())))
