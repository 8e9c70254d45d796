"""Models on `mxnet.sym` or `mxnet.nd`, and compiled graphs of their passes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Self

import mxnet as mx

from workloads.api import Array
from workloads.frameworks.mxnet.flat import Shapes

Tensor = Any
"""Symbol of a compiled graph, or an array if operators are called individually."""
Inputs = Mapping[str, Tensor]


class Model:
    """Network. `bound` returns a copy of the network that computes with arrays or symbols."""

    shapes: Shapes
    """Shapes of the parameters by name. The names are the same in all frameworks."""
    statistics: Shapes = {}
    """Shapes of the running means and variances that a training pass updates."""
    F: ModuleType
    """`mxnet.sym` or `mxnet.nd`. `bound` sets this module."""
    arrays: Inputs
    """Parameters, running statistics, and constants by name. `bound` sets this attribute."""

    def arguments(self, shapes: Shapes) -> Shapes:
        """Return the shapes of the arrays in which the model reads the trained parameters.

        The shapes are in the order of the flat vector.

        By default, each parameter is a separate array. A model may combine adjacent parameters into
        a single array.
        """
        return shapes

    def constants(self) -> dict[str, Array]:
        """Return the constant arrays of the model by name."""
        return {}

    def bound(self, F: ModuleType, arrays: Inputs) -> Self:
        """Return a copy of this model that computes with these operators and arrays."""
        model = copy.copy(self)
        model.F, model.arrays = F, arrays
        return model


Function = Callable[[Any, Inputs], Mapping[str, Tensor]]
"""Function of a bound model and the arrays of a batch that returns results by name."""


class Graphs:
    """Compiled graphs of a function of a model, one graph per set of shapes.

    By default, each graph has statically allocated memory. Without compilation, the operators are
    called individually.

    With many shapes, static memory for each shape would be too large. `fixed=False` therefore
    compiles a single graph for all shapes. The single graph plans its memory again whenever the
    shapes change.
    """

    def __init__(
        self, model: Model, function: Function, compiled: bool, fixed: bool = True
    ) -> None:
        self.model, self.function, self.compiled, self.fixed = model, function, compiled, fixed
        self.programs: dict[tuple[Any, ...], tuple[mx.nd.CachedOp, list[str], list[str]]] = {}
        """Graph, input names, and output names for each set of shapes. The names are in the
        order of the graph.
        """

    def __call__(self, arguments: Inputs, data: Inputs) -> dict[str, mx.nd.NDArray]:
        """Return the results for the arrays `data` of a batch.

        `arguments` must be the same arrays in every call.
        """
        if not self.compiled:
            return dict(self.function(self.model.bound(mx.nd, arguments), data))
        program, names, results = self._program(data)
        inputs = {**arguments, **data}
        outputs = program(*(inputs[name] for name in names))
        return dict(zip(results, outputs if isinstance(outputs, list) else [outputs], strict=True))

    def symbols(self, names: Iterable[str]) -> Mapping[str, mx.sym.Symbol]:
        """Return the function's results as symbols, for a batch with these array names."""
        model = self.model
        arguments = [*model.arguments(model.shapes), *model.statistics, *model.constants()]
        arrays, batch = ({name: mx.sym.var(name) for name in part} for part in (arguments, names))
        return self.function(model.bound(mx.sym, arrays), batch)

    def _program(self, data: Inputs) -> tuple[mx.nd.CachedOp, list[str], list[str]]:
        """Return the graph for the shapes of `data`, and the names of its inputs and outputs."""
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
