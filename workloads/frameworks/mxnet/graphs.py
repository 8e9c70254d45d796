"""Models as functions of `F`, which is `mxnet.sym` or `mxnet.nd`, and their compiled graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import mxnet as mx

from workloads.api import Array
from workloads.frameworks.mxnet.flat import Shapes

Tensor = Any
"""A symbol, or an array where operators are called one by one."""
Inputs = Mapping[str, Tensor]
Function = Callable[[ModuleType, Inputs], list[Tensor]]


class Model:
    """What a trainer needs of a network. The functions take a batch's arrays, the arguments and the constants by name."""

    shapes: Shapes
    """Parameters, under their canonical names."""
    statistics: Shapes = {}
    """What the training pass moves beside parameters: running means and variances."""
    inputs: tuple[str, ...]
    """What a batch has for `outputs` and `loss`; the first axis counts samples."""
    targets: tuple[str, ...] = ()
    """What a training batch has beside them, for `loss`."""
    results: tuple[str, ...]
    """Names of what `outputs` returns."""

    def arguments(self, shapes: Shapes) -> Shapes:
        """What the functions take of the trained parameters, as they lie in a flat vector: one by one, unless a model takes
        neighbours as one."""
        return shapes

    def constants(self) -> dict[str, Array]:
        """Arrays that never change."""
        return {}

    def loss(self, F: ModuleType, inputs: Inputs) -> Tensor:
        """Sum of the samples' losses, fp32 (1,)."""
        raise NotImplementedError

    def outputs(self, F: ModuleType, inputs: Inputs) -> list[Tensor]:
        """`results`, fp32; the first axis of each counts samples."""
        raise NotImplementedError

    def computed(self, F: ModuleType, inputs: Inputs, training: bool) -> list[Tensor]:
        """The loss, or the outputs."""
        return [self.loss(F, inputs)] if training else self.outputs(F, inputs)

    def graph(self, training: bool) -> mx.sym.Symbol:
        """What is computed, as a symbol."""
        names = [*self.arguments(self.shapes), *self.statistics, *self.constants(), *self.inputs, *self.targets]
        inputs = {name: mx.sym.var(name) for name in names}
        outputs = self.computed(mx.sym, inputs, training)
        return outputs[0] if training and len(outputs) == 1 else mx.sym.Group(outputs)


class Part(Model):
    """A part of a model that is computed alone, between steps on the host; in training as in evaluation."""

    def __init__(self, whole: Model, inputs: tuple[str, ...], function: Function) -> None:
        self.shapes, self.statistics, self.inputs = whole.shapes, whole.statistics, inputs
        self.whole, self.function = whole, function

    def arguments(self, shapes: Shapes) -> Shapes:
        return self.whole.arguments(shapes)

    def constants(self) -> dict[str, Array]:
        return self.whole.constants()

    def computed(self, F: ModuleType, inputs: Inputs, training: bool) -> list[Tensor]:
        return self.function(F, inputs)


class Graphs:
    """A model's two functions, compiled for each set of shapes with memory planned once, or operator by operator.

    A graph for several shapes in turn would plan its memory again at every change. Where there are many shapes, memory for
    each would be too much: `fixed` False plans at every change.
    """

    def __init__(self, model: Model, compiled: bool, fixed: bool = True) -> None:
        self.model, self.compiled, self.fixed = model, compiled, fixed
        self.programs: dict[tuple[bool, tuple[Any, ...]], tuple[mx.nd.CachedOp, list[str]]] = {}

    def __call__(self, training: bool, arguments: Inputs, data: Inputs) -> list[mx.nd.NDArray]:
        """The loss, or the outputs, of a batch's arrays `data`; `arguments` lie at the same place in every call."""
        inputs = {**arguments, **data}
        if not self.compiled:
            return self.model.computed(mx.nd, inputs, training)
        program, names = self._program(training, data)
        outputs = program(*(inputs[name] for name in names))
        return outputs if isinstance(outputs, list) else [outputs]

    def _program(self, training: bool, data: Inputs) -> tuple[mx.nd.CachedOp, list[str]]:
        """The graph for these shapes, and the names of its inputs in order."""
        key = training, tuple(array.shape for array in data.values()) if self.fixed else ()
        if key not in self.programs:
            graph = self.model.graph(training)
            names = graph.list_inputs()
            of_batch = [number for number, name in enumerate(names) if name in data]
            flags = {
                "data_indices": tuple(of_batch),
                "param_indices": tuple(number for number in range(len(names)) if number not in of_batch),
                "static_alloc": self.fixed,
                "static_shape": self.fixed,
            }
            self.programs[key] = mx.nd.CachedOp(graph, list(flags.items())), names
        return self.programs[key]
