"""Flat vectors: on each context all trained parameters are views of one, all gradients of another.

So one reduction serves all parameters, and a few operators update them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby

import mxnet as mx

from workloads.api import ParameterRule

Shapes = Mapping[str, tuple[int, ...]]
"""Name to shape; the order is that of a flat vector."""


def total(shapes: Shapes) -> int:
    """Values of a flat vector."""
    return sum(math.prod(shape) for shape in shapes.values())


def views(flat: mx.nd.NDArray, shapes: Shapes) -> dict[str, mx.nd.NDArray]:
    """Name to its part of a flat vector, in its shape; the vector may be NumPy's too."""
    parts, first = {}, 0
    for name, shape in shapes.items():
        stop = first + math.prod(shape)
        parts[name] = flat[first:stop].reshape(shape)
        first = stop
    return parts


@dataclass(frozen=True)
class FlatLayout:
    """Where each trained parameter lies in a flat vector; those of one rule lie side by side."""

    shapes: Shapes
    rules: Mapping[str, ParameterRule]
    frozen: Shapes
    """The parameters that are not trained: they are in none of the vectors."""

    @classmethod
    def of(cls, shapes: Shapes, rule_of: Callable[[str], ParameterRule]) -> FlatLayout:
        """The layout of a model's parameters; those that LARS adapts come first. Raises ValueError if all are frozen."""
        rules = {name: rule_of(name) for name in shapes}
        names = [name for name in shapes if not rules[name].frozen]
        if not names:
            raise ValueError("every parameter is frozen; leave at least one to train")
        ordered = sorted(names, key=lambda name: _group(rules[name]))
        frozen = {name: shape for name, shape in shapes.items() if rules[name].frozen}
        return cls({name: shapes[name] for name in ordered}, rules, frozen)

    def rule_ranges(self, within: slice | None = None) -> list[tuple[ParameterRule, slice]]:
        """Each rule with the part of the vector that its parameters take.

        `within` is a segment of the vector: parts are then cut to it, and count from its start.
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
    """Equal for parameters of one rule, and what their order in the vector goes by."""
    return not rule.lars_adapt, -rule.decay, -rule.lr_multiplier
