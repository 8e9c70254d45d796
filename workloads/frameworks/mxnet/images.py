"""What MXNet trainers of convolutional networks add to the generic one: running statistics of batch norm.

Batch norm of MXNet moves the running variance by the biased variance of n values, in the backward pass. What stands under
`running_var` outside is the unbiased one, n / (n - 1) times as large, as in the other frameworks. So the array that MXNet moves
is the statistic divided by that quotient, while a segment of steps lasts. n follows from the size of the images: where that
changes from one step to the next, the array is first multiplied by the old quotient and divided by the new one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays, Batch, TrainStats
from workloads.frameworks.mxnet.flat import FlatLayout, total, views
from workloads.frameworks.mxnet.graphs import Inputs
from workloads.frameworks.mxnet.layers import ImageModel
from workloads.frameworks.mxnet.model import ModelTrainer, Replica

DataShapes = tuple[tuple[str, tuple[int, ...]], ...]
"""Names and shapes of the arrays that the training pass takes of a batch."""


class ImageReplica(Replica):
    """With the running statistics: those that evaluation takes, and those that training moves."""

    def __init__(self, model: ImageModel, layout: FlatLayout, adds: bool, context: mx.Context) -> None:
        super().__init__(model, layout, adds, context)
        values = max(1, total(model.statistics))  # a model may have none, an array may not
        self.statistics, self.moving = (mx.nd.zeros((values,), ctx=context) for _ in range(2))
        self.of_evaluation = {**self._arguments, **views(self.statistics, model.statistics)}
        self.of_training = {**self._arguments, **views(self.moving, model.statistics)}
        self.shapes: DataShapes = ()
        """Of the batch that `moving` is divided for."""
        self.quotients: dict[DataShapes, mx.nd.NDArray] = {}
        """On this context."""

    def arguments(self, training: bool) -> Inputs:
        return self.of_training if training else self.of_evaluation


class ImageTrainer(ModelTrainer):
    """A convolutional network on every device of this process. Subclasses define `build_model`, `loss` and `outputs`."""

    inputs: tuple[str, ...] = ("image", "label")
    evaluation_inputs: tuple[str, ...] = ("image",)
    model: ImageModel
    replicas: Sequence[ImageReplica]

    def build(self) -> None:
        super().build()
        self.quotients: dict[DataShapes, Array] = {}
        if self.model.statistics:
            self.quotient(self._largest())

    def build_replica(self, context: mx.Context) -> ImageReplica:
        """With running statistics."""
        return ImageReplica(self.model, self.layout, self.adds_gradients, context)

    def load_weights(self, weights: Iterable[tuple[str, Array]]) -> None:
        """Parameters and statistics; statistics that do not come start at 0 and 1."""
        first = {name: np.full(shape, float(name.endswith("var"))) for name, shape in self.model.statistics.items()}
        for name, value in weights:
            if name in first:
                first[name] = value
            else:
                super().load_weights([(name, value)])
        self._set_statistics(list(first.values()))

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """One optimizer step per item; at the end the replicas' statistics are averaged, which training does not notice."""
        if not self.model.statistics:
            return super().train(steps, first_step)
        shapes = self._largest()
        quotient = self.quotient(shapes)
        for replica in self.replicas:
            replica.moving[:] = replica.statistics / mx.nd.array(quotient, ctx=replica.context)
            replica.shapes = shapes
        stats = super().train(steps, first_step)
        for replica in self.replicas:
            self._divide_for(replica, shapes)
        moving = np.stack([replica.moving.asnumpy() for replica in self.replicas])
        mean = np.mean(self.of_all({"moving": moving})["moving"], axis=(0, 1), dtype=np.float64)
        self._set_statistics([mean * quotient])
        return stats

    def pieces(self, replica: Replica, batch: Batch, training: bool) -> Iterator[Inputs]:
        """A batch's arrays; those of training find the statistics divided for their shapes."""
        for data in super().pieces(replica, batch, training):
            if training:
                assert isinstance(replica, ImageReplica)
                self._divide_for(replica, tuple((name, array.shape) for name, array in data.items()))
            yield data

    # -- statistics -----------------------------------------------------------------------------------------------

    def _largest(self) -> DataShapes:
        """Of a piece of the largest batch."""
        shapes = self.largest_shapes()
        return tuple((name, (self.piece_size(shape[0], True), *shape[1:])) for name, shape in shapes.items())

    def largest_shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the arrays that the training pass takes of the largest batch, by name."""
        specs = self.workload.shapes()[0]
        return {name: specs[name].shape for name in self.inputs}

    def _divide_for(self, replica: ImageReplica, shapes: DataShapes) -> None:
        """Divide the statistics that training moves by the quotient of these shapes, instead of that of the last ones."""
        if not self.model.statistics:
            return
        if replica.shapes and replica.shapes != shapes:
            old, new = (self._on_device(replica, one) for one in (replica.shapes, shapes))
            replica.moving *= old
            replica.moving /= new
        replica.shapes = shapes

    def _on_device(self, replica: ImageReplica, shapes: DataShapes) -> mx.nd.NDArray:
        if shapes not in replica.quotients:
            replica.quotients[shapes] = self.to_device(self.quotient(shapes), replica.context)
        return replica.quotients[shapes]

    def quotient(self, shapes: DataShapes) -> Array:
        """The statistics of the state over those that MXNet moves: 1 or n / (n - 1), one flat vector."""
        if shapes in self.quotients:
            return self.quotients[shapes]
        others = {**dict(shapes), **{name: value.shape for name, value in self.model.constants().items()}}
        results = self.training_graphs.symbols(name for name, _ in shapes)
        graph = mx.sym.Group(list(results.values()))
        inner, taken = graph.get_internals(), set(graph.list_inputs())
        known = {name: shape for name, shape in {**self.model.shapes, **others}.items() if name in taken}
        maps = dict(zip(inner.list_outputs(), inner.infer_shape(**known)[1], strict=True))
        factors = []
        for name, (channels,) in self.model.statistics.items():
            count = math.prod(maps[self.model.norm_output(name.rpartition(".")[0])]) / channels
            factors.append(np.full(channels, count / max(count - 1, 1) if name.endswith("var") else 1.0))
        self.quotients[shapes] = np.concatenate(factors).astype(np.float32)
        return self.quotients[shapes]

    def weights(self) -> dict[str, Array]:
        statistics = views(self.replicas[0].statistics, self.model.statistics)
        return {**super().weights(), **{name: array.asnumpy() for name, array in statistics.items()}}

    def load_state_dict(self, state: Arrays) -> None:
        super().load_state_dict(state)
        self._set_statistics([state[name] for name in self.model.statistics])

    def _set_statistics(self, values: Sequence[Array]) -> None:
        """On every context, from the parts of one flat vector."""
        for replica in self.replicas if values else ():
            replica.statistics[:] = np.concatenate(values).astype(np.float32)
