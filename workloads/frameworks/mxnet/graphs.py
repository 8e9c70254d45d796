"""Models on `mxnet.sym` or `mxnet.nd`, and the compiled graphs of functions of a model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Self

import mxnet as mx

from workloads.api import Array
from workloads.frameworks.mxnet.flat import Shapes

Tensor = Any
"""A symbol, or an array if operators are called one by one."""
Inputs = Mapping[str, Tensor]


class Model:
    """A network. `bound` returns a copy that computes with arrays or symbols."""

    shapes: Shapes
    """Shapes of the parameters by canonical name."""
    statistics: Shapes = {}
    """Shapes of the running means and variances, which the training pass updates."""
    F: ModuleType
    """`mxnet.sym` or `mxnet.nd`, once the model is bound."""
    arrays: Inputs
    """Parameters, statistics and constants by name, once the model is bound."""

    def arguments(self, shapes: Shapes) -> Shapes:
        """Return the shapes of the trained parameters as the model reads them.

        They are in the order of the flat vector.

        Default: each parameter is a separate array. A model may combine adjacent parameters into a
        single array.
        """
        return shapes

    def constants(self) -> dict[str, Array]:
        """Return arrays that never change."""
        return {}

    def bound(self, F: ModuleType, arrays: Inputs) -> Self:
        """Return this model with the operators and the arrays that it computes with."""
        model = copy.copy(self)
        model.F, model.arrays = F, arrays
        return model


Function = Callable[[Any, Inputs], Mapping[str, Tensor]]
"""From a bound model and the arrays of a batch to results by name."""


class Graphs:
    """A function of a model, for each set of shapes.

    It is compiled with static memory, or called operator by operator.

    A graph that is used for several shapes in turn would plan its memory again at every change. If
    there are many shapes, static memory for each shape would be too large. `fixed=False` then plans
    memory at every change.
    """

    def __init__(
        self, model: Model, function: Function, compiled: bool, fixed: bool = True
    ) -> None:
        self.model, self.function, self.compiled, self.fixed = model, function, compiled, fixed
        self.programs: dict[tuple[Any, ...], tuple[mx.nd.CachedOp, list[str], list[str]]] = {}
        """Shapes to a graph, and the names of its inputs and of its outputs in order."""

    def __call__(self, arguments: Inputs, data: Inputs) -> dict[str, mx.nd.NDArray]:
        """Return the results for a batch's arrays `data`.

        `arguments` must be the same arrays in every call.
        """
        if not self.compiled:
            return dict(self.function(self.model.bound(mx.nd, arguments), data))
        program, names, results = self._program(data)
        inputs = {**arguments, **data}
        outputs = program(*(inputs[name] for name in names))
        return dict(zip(results, outputs if isinstance(outputs, list) else [outputs], strict=True))

    def symbols(self, names: Iterable[str]) -> Mapping[str, mx.sym.Symbol]:
        """Return the results of a batch with arrays of these names, as symbols."""
        model = self.model
        arguments = [*model.arguments(model.shapes), *model.statistics, *model.constants()]
        arrays, batch = ({name: mx.sym.var(name) for name in part} for part in (arguments, names))
        return self.function(model.bound(mx.sym, arrays), batch)

    def _program(self, data: Inputs) -> tuple[mx.nd.CachedOp, list[str], list[str]]:
        """Return the graph for these shapes, and the names of its inputs and outputs."""
        key = tuple(array.shape for array in data.values()) if self.fixed else ()
        if key not in self.programs:
            results = self.symbols(data)
            graph = (
                mx.sym.Group(list(results.values()))
                if len(results) > 1
                else next(iter(results.values()))
            )
            names = graph.list_inputs()
            of_batch = [number for number, name in enumerate(names) if name in data]
            flags = {
                "data_indices": tuple(of_batch),
                "param_indices": tuple(
                    number for number in range(len(names)) if number not in of_batch
                ),
                "static_alloc": self.fixed,
                "static_shape": self.fixed,
            }
            self.programs[key] = mx.nd.CachedOp(graph, list(flags.items())), names, list(results)
        return self.programs[key]
