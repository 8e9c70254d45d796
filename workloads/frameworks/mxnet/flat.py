"""Flat vectors of parameters and gradients on each context.

All trained parameters are views of one vector, and all gradients are views of a second vector.

With flat vectors, a single reduction sums all gradients, and a few operators update all parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby

import mxnet as mx

from workloads.api import ParameterRule

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes by name, in the order of the flat vector."""


def total(shapes: Shapes) -> int:
    """Return the number of elements in a flat vector."""
    return sum(math.prod(shape) for shape in shapes.values())


def views(flat: mx.nd.NDArray, shapes: Shapes) -> dict[str, mx.nd.NDArray]:
    """Split a flat vector of MXNet or NumPy into views with their shapes, by name."""
    parts, first = {}, 0
    for name, shape in shapes.items():
        stop = first + math.prod(shape)
        parts[name] = flat[first:stop].reshape(shape)
        first = stop
    return parts


@dataclass(frozen=True)
class FlatLayout:
    """Positions of the trained parameters in a flat vector.

    Parameters with the same update rule are adjacent.
    """

    shapes: Shapes
    rules: Mapping[str, ParameterRule]
    frozen: Shapes
    """Shapes of the frozen parameters, which are in no flat vector."""

    @classmethod
    def of(cls, shapes: Shapes, rule_of: Callable[[str], ParameterRule]) -> FlatLayout:
        """Return the layout of a model's parameters.

        In the flat vector, parameters with a LARS trust ratio precede all other parameters.

        Raises:
            ValueError: All parameters are frozen.
        """
        rules = {name: rule_of(name) for name in shapes}
        names = [name for name in shapes if not rules[name].frozen]
        if not names:
            raise ValueError("every parameter is frozen: expected at least 1 trained parameter")
        ordered = sorted(names, key=lambda name: _group(rules[name]))
        frozen = {name: shape for name, shape in shapes.items() if rules[name].frozen}
        return cls({name: shapes[name] for name in ordered}, rules, frozen)

    def rule_ranges(self, within: slice | None = None) -> list[tuple[ParameterRule, slice]]:
        """Return each update rule with the slice of the flat vector to which it applies.

        `within` is a segment of the flat vector. With `within`, slices are cut to the segment and
        are relative to the first element of the segment.
        """
        begin, end = (within.start, within.stop) if within else (0, total(self.shapes))
        listed, first = [], 0
        for rule, names in groupby(self.shapes, key=lambda name: self.rules[name]):
            stop = first + sum(math.prod(self.shapes[name]) for name in names)
            if max(first, begin) < min(stop, end):
                listed.append((rule, slice(max(first, begin) - begin, min(stop, end) - begin)))
            first = stop
        return listed


def _group(rule: ParameterRule) -> tuple[bool, float, float]:
    """Return the sort key of an update rule. Rules with equal keys become adjacent."""
    return not rule.lars_adapt, -rule.decay, -rule.lr_multiplier
