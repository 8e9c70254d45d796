"""Base of the MXNet trainers of convolutional networks, with batch norm statistics.

MXNet updates the running variance in the backward pass, with the biased variance of n activations.
The `running_var` of a checkpoint is the unbiased variance, as in TensorFlow, PyTorch and JAX. The
unbiased variance is n / (n - 1) times the biased variance. During a sequence of steps, MXNet
therefore updates the running variance divided by the quotient n / (n - 1). The image size
determines n. If the image size changes between steps, the array is first multiplied by the old
quotient and then divided by the new quotient.
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
"""Names and shapes of a batch's arrays in the training pass."""


class ImageReplica(Replica):
    """Replica with two copies of the running statistics.

    Evaluation reads the first copy of the running statistics, and training updates the second copy.
    """

    def __init__(
        self, model: ImageModel, layout: FlatLayout, adds: bool, context: mx.Context
    ) -> None:
        super().__init__(model, layout, adds, context)
        # The size is at least 1, because an MXNet array must not be empty, even if the model has no
        # running statistics.
        values = max(1, total(model.statistics))
        self.statistics, self.moving = (mx.nd.zeros((values,), ctx=context) for _ in range(2))
        self.of_evaluation = {**self._arguments, **views(self.statistics, model.statistics)}
        self.of_training = {**self._arguments, **views(self.moving, model.statistics)}
        self.shapes: DataShapes = ()
        """Batch shapes that determine the quotient by which `moving` is currently divided."""
        self.quotients: dict[DataShapes, mx.nd.NDArray] = {}
        """Quotients for each set of batch shapes, as arrays on this context."""

    def arguments(self, training: bool) -> Inputs:
        return self.of_training if training else self.of_evaluation


class ImageTrainer(ModelTrainer):
    """Trainer of a convolutional network on all devices of this process.

    Subclasses define `build_model`, `loss` and `outputs`.
    """

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
        """Allocate the parameters, gradients, and running statistics of a context."""
        return ImageReplica(self.model, self.layout, self.adds_gradients, context)

    def load_weights(self, weights: Iterable[tuple[str, Array]]) -> None:
        """Load parameters and running statistics.

        Running means that are missing in `weights` are set to 0, and running variances to 1.
        """
        first = {
            name: np.full(shape, float(name.endswith("var")))
            for name, shape in self.model.statistics.items()
        }
        for name, value in weights:
            if name in first:
                first[name] = value
            else:
                super().load_weights([(name, value)])
        self._set_statistics(list(first.values()))

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """Run one optimizer step per list of batches, then average the running statistics.

        The running statistics are averaged over the replicas. The average does not influence
        training.
        """
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
        """Yield the arrays of each micro-batch of a batch.

        For training, the method first divides the running statistics by the quotient for the shapes
        of the micro-batch.
        """
        for data in super().pieces(replica, batch, training):
            if training:
                assert isinstance(replica, ImageReplica)
                self._divide_for(
                    replica, tuple((name, array.shape) for name, array in data.items())
                )
            yield data

    # -- statistics
    # ----------------------------------------------------------------------------------------------

    def _largest(self) -> DataShapes:
        """Return the shapes of the arrays in a micro-batch of the largest batch."""
        shapes = self.largest_shapes()
        return tuple(
            (name, (self.piece_size(shape[0], True), *shape[1:])) for name, shape in shapes.items()
        )

    def largest_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the largest batch's arrays in the training pass, by name."""
        specs = self.workload.shapes()[0]
        return {name: specs[name].shape for name in self.inputs}

    def _divide_for(self, replica: ImageReplica, shapes: DataShapes) -> None:
        """Divide the training copy of the running statistics by the quotient for `shapes`.

        The copy is first multiplied by the previous quotient.
        """
        if not self.model.statistics:
            return
        if replica.shapes and replica.shapes != shapes:
            old, new = (self._on_device(replica, sizes) for sizes in (replica.shapes, shapes))
            replica.moving *= old
            replica.moving /= new
        replica.shapes = shapes

    def _on_device(self, replica: ImageReplica, shapes: DataShapes) -> mx.nd.NDArray:
        if shapes not in replica.quotients:
            replica.quotients[shapes] = self.to_device(self.quotient(shapes), replica.context)
        return replica.quotients[shapes]

    def quotient(self, shapes: DataShapes) -> Array:
        """Return the ratio of the unbiased to the biased running statistics as a flat vector.

        The ratio is 1 for means and n / (n - 1) for variances.
        """
        if shapes in self.quotients:
            return self.quotients[shapes]
        input_shapes = {
            **dict(shapes),
            **{name: value.shape for name, value in self.model.constants().items()},
        }
        results = self.training_graphs.symbols(name for name, _ in shapes)
        graph = mx.sym.Group(list(results.values()))
        inner, taken = graph.get_internals(), set(graph.list_inputs())
        argument_shapes = {
            name: shape
            for name, shape in {**self.model.shapes, **input_shapes}.items()
            if name in taken
        }
        maps = dict(zip(inner.list_outputs(), inner.infer_shape(**argument_shapes)[1], strict=True))
        factors = []
        for name, (channels,) in self.model.statistics.items():
            count = math.prod(maps[self.model.norm_output(name.rpartition(".")[0])]) / channels
            factors.append(
                np.full(channels, count / max(count - 1, 1) if name.endswith("var") else 1.0)
            )
        self.quotients[shapes] = np.concatenate(factors).astype(np.float32)
        return self.quotients[shapes]

    def weights(self) -> dict[str, Array]:
        statistics = views(self.replicas[0].statistics, self.model.statistics)
        return {
            **super().weights(),
            **{name: array.asnumpy() for name, array in statistics.items()},
        }

    def load_state_dict(self, state: Arrays) -> None:
        super().load_state_dict(state)
        self._set_statistics([state[name] for name in self.model.statistics])

    def _set_statistics(self, values: Sequence[Array]) -> None:
        """Set the running statistics on every context.

        `values` are concatenated to a flat vector.
        """
        for replica in self.replicas if values else ():
            replica.statistics[:] = np.concatenate(values).astype(np.float32)
