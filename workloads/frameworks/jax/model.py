"""Generic JAX trainer.

A subclass defines the shapes of a model, and implements `loss` and `outputs` of
`workloads.api.ModelHooks`.

Parameters, optimizer state, and running statistics are dictionaries of fp32 arrays with the same
names in all frameworks. A training step receives these arrays as donated arguments, which avoids a
copy, and returns the new arrays. JAX traces and compiles the step once for each batch shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from workloads.api import (
    Array,
    Arrays,
    Batch,
    GradientAllReduceInfo,
    ModelHooks,
    ParameterRule,
    WorkerContext,
    Workload,
)
from workloads.frameworks.jax.optimizers import Optimizer, Values
from workloads.frameworks.jax.trainer import AXIS, PER_DEVICE, SHARED, JaxTrainer, here

FP32_BYTES = 4
Shapes = Mapping[str, tuple[int, ...]]
Carried = TypeVar("Carried")


class Model:
    """Network with the parameters and running statistics of a forward pass.

    A forward pass in training mode stores the updated running statistics in `statistics`. All other
    results are pure functions of the arrays.
    """

    def __init__(self, weights: Values, statistics: Values) -> None:
        self.weights, self.statistics = weights, dict(statistics)


class ModelTrainer(ModelHooks[Any, jax.Array], JaxTrainer):
    """Trainer of a model on a single device.

    With several processes, the gradients are summed over the processes (all-reduce).

    Subclasses define `inputs`, `evaluation_inputs`, `parameters`, `build_model`, `loss` and
    `outputs`. A subclass overrides `gradients_of` if it can compute gradients more cheaply than by
    differentiating `loss`. A subclass overrides `inside` and `outside` if its model uses a layout
    other than the canonical layout.
    """

    parameters: Shapes
    """Shapes of the parameters in the canonical layout. The constructor of the subclass sets this
    attribute.
    """
    statistics: Shapes = {}
    """Shapes of the batch norms' running statistics in the canonical layout. Training updates the
    running statistics without gradients. Each replica has different running statistics.
    """

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        if getattr(workload.options, "compile", "auto") == "off":
            raise ValueError(
                "workload.compile=off: JAX compiles every step. Set workload.compile=auto"
            )
        self.dtype = jnp.bfloat16 if self.settings.precision == "bf16" else jnp.float32
        """Data type of the activations."""
        self.updates = workload.update_settings()
        self.traces = 0
        """Number of times that JAX traced a training step. JAX traces the step once per batch
        shape.
        """
        self.optimizer: Optimizer | None = None
        """Optimizer of the trainer, or None before `setup`."""

    # -- for subclasses
    # -------------------------------------------------------------------------------------------

    def build_model(self, weights: Values, statistics: Values) -> Model:
        """Return the network with the arrays `weights` and `statistics`.

        By default, the network is a `Model` that only contains these arrays.
        """
        return Model(weights, statistics)

    def gradients_of(
        self, trained: Values, frozen: Values, statistics: Values, batch: Values, scale: jax.Array
    ) -> tuple[jax.Array, Values, Values]:
        """Return the loss, the gradients, and the new running statistics of a batch.

        The gradients are the gradients of `loss` multiplied by `scale`, by parameter name.
        """

        def scaled(trained: Values) -> tuple[jax.Array, tuple[jax.Array, Values]]:
            model = self.build_model({**trained, **frozen}, statistics)
            loss = self.loss(model, batch)
            return loss * scale, (loss, model.statistics)

        (_, (loss, moved)), gradients = jax.value_and_grad(scaled, has_aux=True)(trained)
        return loss, gradients, moved

    def summed(self, gradients: Values) -> Values:
        """Return the gradients summed over replicas. All replicas run this method."""
        # All gradients are joined into one array, because each additional collective adds latency.
        flat, unravel = ravel_pytree(gradients)
        whole: Values = unravel(jax.lax.psum(flat, AXIS))
        return whole

    def clipped(self, gradients: Values) -> Values:
        """Return the gradients for the optimizer, which clips the gradients itself by default."""
        return gradients

    def parameter_rule(self, name: str) -> ParameterRule:
        """Return the update rule of a parameter. By default, the workload defines the rule."""
        return self.workload.parameter_rule(name)

    def inside(self, name: str, value: Array) -> Array:
        """Convert an array from the canonical layout to the model's layout.

        By default, the array is not changed.
        """
        return value

    def outside(self, name: str, value: Array) -> Array:
        """Convert an array from the model's layout to the canonical layout.

        `outside` is the inverse of `inside`.
        """
        return value

    # -- setup
    # ----------------------------------------------------------------------------------------------

    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        if self.optimizer is None:
            self._build()
        self.total = self.per_device(np.zeros(2, np.float32))
        if warmup:
            self._load(
                {name: np.zeros(shape, np.float32) for name, shape in self.parameters.items()}
            )
            self._warm_up()
        self._load(dict(weights))

    def _build(self) -> None:
        all_rules = {name: self.parameter_rule(name) for name in self.parameters}
        rules = {name: rule for name, rule in all_rules.items() if not rule.frozen}
        self.optimizer = Optimizer(self.updates, rules, self.worker.num_replicas)
        state, batch = (SHARED, SHARED, PER_DEVICE, PER_DEVICE), (SHARED, PER_DEVICE)
        self._step = self.mapped(self._train, (*state, *batch), state, donated=(0, 1, 2))
        self._backward = self.mapped(
            self._reduced, (*state, *batch), (SHARED, PER_DEVICE, PER_DEVICE)
        )
        self._loss = self.mapped(self._forward, (*state, *batch), (PER_DEVICE, PER_DEVICE))
        self._outputs = self.mapped(self._evaluated, (SHARED, PER_DEVICE, PER_DEVICE), PER_DEVICE)

    def _load(self, weights: Mapping[str, Array]) -> None:
        """Load the weights, and reset the optimizer and the running statistics.

        Running statistics in `weights` are loaded instead of being reset.
        """
        assert self.optimizer is not None
        start = {
            name: np.full(shape, float(name.endswith("var")), np.float32)
            for name, shape in self.statistics.items()
        }
        self.load_state_dict({**start, **weights, **self.optimizer.fresh(self.parameters)})

    def _warm_up(self) -> None:
        """Run each pass of the run's mode once for every shape, so that JAX compiles it."""
        passes = {
            "train": lambda batch: self.step(batch, 0.0),
            "forward_backward": self.backward,
            "forward": self.run_loss,
        }  # fmt: skip
        for specs in self.workload.shapes() if self.settings.mode in passes else ():
            passes[self.settings.mode](self.dummy_batch(specs))
        for specs in self.workload.evaluation_shapes():
            self.run_outputs(self.dummy_batch(specs))
        self._sum_losses(self.total)
        self.synchronize()

    # -- a step, in Python
    # ----------------------------------------------------------------------------------------

    def step(self, batch: Batch, learning_rate: float) -> jax.Array:
        self.values, self.kept, self.moved, self.total = self._step(
            *self._arguments(batch, learning_rate)
        )
        return self.total

    def backward(self, batch: Batch) -> jax.Array:
        self.gradients, self.moved, self.total = self._backward(*self._arguments(batch))
        return self.total

    def run_loss(self, batch: Batch) -> jax.Array:
        self.moved, self.total = self._loss(*self._arguments(batch))
        return self.total

    def run_outputs(self, batch: Batch) -> dict[str, jax.Array]:
        arrays = {
            name: self.per_device(array)
            for name, array in self.host_arrays(batch, training=False).items()
        }
        outputs: Values = self._outputs(self.values, self.moved, arrays)
        return outputs

    def _arguments(self, batch: Batch, learning_rate: float = 0.0) -> tuple[object, ...]:
        scalars = self.shared(np.array([1 / batch.global_weight_sum, learning_rate], np.float32))
        arrays = {
            name: self.per_device(array)
            for name, array in self.host_arrays(batch, training=True).items()
        }
        return self.values, self.kept, self.moved, self.total, scalars, arrays

    # -- a step, compiled
    # ----------------------------------------------------------------------------------------

    def _train(
        self,
        weights: Values,
        kept: Values,
        moved: Values,
        total: jax.Array,
        scalars: jax.Array,
        batch: Values,
    ) -> tuple[Values, Values, Values, jax.Array]:
        """Run a step and return the new weights, optimizer state, statistics, and loss total.

        `scalars` contains 1 / `global_weight_sum` and the learning rate.
        """
        assert self.optimizer is not None
        self.traces += 1
        gradients, moved, total = self._reduced(weights, kept, moved, total, scalars, batch)
        weights, kept = self.optimizer.apply(weights, kept, self.clipped(gradients), scalars[1])
        return weights, kept, moved, total

    def _reduced(
        self,
        weights: Values,
        kept: Values,
        moved: Values,
        total: jax.Array,
        scalars: jax.Array,
        batch: Values,
    ) -> tuple[Values, Values, jax.Array]:
        """Return the gradients, the new running statistics, and the new loss total of a batch.

        The gradients of the scaled loss are summed over micro-batches and replicas (all-reduce).
        """
        assert self.optimizer is not None
        trained = {name: weights[name] for name in self.optimizer.rules}
        frozen = {name: value for name, value in weights.items() if name not in trained}
        scale = scalars[0] * self.optimizer.scale_of(kept)
        zeros = jax.tree.map(jnp.zeros_like, trained)

        def add(
            carried: tuple[jax.Array, Values, Values], piece: Values
        ) -> tuple[tuple[jax.Array, Values, Values], None]:
            loss, sums, statistics = carried
            more, gradients, statistics = self.gradients_of(
                trained, frozen, statistics, piece, scale
            )
            return (loss + more, jax.tree.map(jnp.add, sums, gradients), statistics), None

        loss, gradients, moved = self._over_pieces(
            add, (jnp.float32(0), zeros, _squeezed(moved)), batch
        )
        if self.worker.num_replicas > 1:
            gradients = self.summed(gradients)
        return gradients, _joined(moved), _added(total, loss * scalars[0])

    def _forward(
        self,
        weights: Values,
        kept: Values,
        moved: Values,
        total: jax.Array,
        scalars: jax.Array,
        batch: Values,
    ) -> tuple[Values, jax.Array]:
        """Run a forward pass in training mode, and return running statistics and loss total.

        The loss total includes this replica's share of the batch's loss.
        """

        def add(
            carried: tuple[jax.Array, Values], piece: Values
        ) -> tuple[tuple[jax.Array, Values], None]:
            model = self.build_model(weights, carried[1])
            more = self.loss(model, piece)
            return (carried[0] + more, model.statistics), None

        loss, moved = self._over_pieces(add, (jnp.float32(0), _squeezed(moved)), batch)
        return _joined(moved), _added(total, loss * scalars[0])

    def _over_pieces(
        self, add: Callable[[Carried, Values], tuple[Carried, None]], start: Carried, batch: Values
    ) -> Carried:
        """Apply `add` to the micro-batches of a batch in sequence.

        At any time, only the activations of one micro-batch are in memory.
        """
        count = self.updates.accumulation_steps
        if count == 1:
            return add(start, batch)[0]
        pieces = {name: array.reshape(count, -1, *array.shape[1:]) for name, array in batch.items()}
        carried: Carried = jax.lax.scan(add, start, pieces)[0]
        return carried

    def _evaluated(self, weights: Values, moved: Values, batch: Values) -> Values:
        return dict(self.outputs(self.build_model(weights, _squeezed(moved)), batch))

    # -- state
    # ----------------------------------------------------------------------------------------------

    def gradient_all_reduce_info(self) -> GradientAllReduceInfo:
        """Return the size of the trained parameters' fp32 gradients, joined into one array."""
        assert self.optimizer is not None
        sizes = [int(np.prod(self.parameters[name])) for name in self.optimizer.rules]
        return GradientAllReduceInfo(FP32_BYTES * sum(sizes), len(sizes))

    def weights(self) -> dict[str, Array]:
        statistics = {name: here(value)[0] for name, value in self.moved.items()}
        arrays = {**{name: here(value) for name, value in self.values.items()}, **statistics}
        return {name: self.outside(name, value).copy() for name, value in arrays.items()}

    def state_dict(self) -> dict[str, Array]:
        kept = {name: self.outside(name, here(value)).copy() for name, value in self.kept.items()}
        return {**self.weights(), **kept}

    def load_state_dict(self, state: Arrays) -> None:
        assert self.optimizer is not None
        inside = {
            name: self.inside(name, np.asarray(value, np.float32)) for name, value in state.items()
        }
        self.values = {name: self.shared(inside[name]) for name in self.parameters}
        self.moved = {name: self.per_device(inside[name][None]) for name in self.statistics}
        slots = set(inside) - set(self.parameters) - set(self.statistics)
        self.kept = {name: self.shared(inside[name]) for name in sorted(slots)}


def words(numbers: Array) -> Array:
    """Split 64-bit integers (…) into 32-bit words (…, 2), with the lower word first.

    The split is necessary because JAX disables 64-bit integers by default.
    """
    return numbers.astype("<u8").view("<u4").reshape(*numbers.shape, 2)


def _added(total: jax.Array, loss: jax.Array) -> jax.Array:
    """Add a loss to a compensated sum (2,).

    `total` contains the sum and its rounding error. The rounding error corrects the next addition
    (Kahan).
    """
    more = loss - total[1]
    whole = total[0] + more
    return jnp.stack([whole, (whole - total[0]) - more])


def _squeezed(statistics: Values) -> Values:
    """Return this replica's slice of arrays that join all replicas along the first axis."""
    return {name: value[0] for name, value in statistics.items()}


def _joined(statistics: Values) -> Values:
    return {name: value[None] for name, value in statistics.items()}
