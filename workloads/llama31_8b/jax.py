"""Llama 3.1 in JAX, with replicated or sharded parameters.

Shapes: B sequences of a replica, S tokens, H values of a token, V words, L layers. The arrays of a
parameter of all layers are stacked along a first axis of length L. A scan over the layers compiles
a single layer. With sharded parameters, each replica holds a part of the rows of each matrix. A
layer gathers its matrices when they are needed, and each gradient is summed over the replicas by a
reduce-scatter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec

from workloads.api import Array, Arrays, GradientAllReduceInfo, WorkerContext
from workloads.frameworks.jax.model import FP32_BYTES, Model, ModelTrainer
from workloads.frameworks.jax.optimizers import Optimizer, Values
from workloads.frameworks.jax.trainer import AXIS, PER_DEVICE, SHARED, here
from workloads.llama31_8b.network import Network
from workloads.llama31_8b.settings import RMS_NORM_EPSILON
from workloads.llama31_8b.workload import Llama

STACKED = "layers."
"""First part of the name of an array that contains a parameter of all layers."""
FIRST_LAYER = "layer1."


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def gathered(rows: jax.Array, dtype: Any) -> jax.Array:
    """Gather the rows (n, inputs) of all replicas as a matrix (n · replicas, inputs) of `dtype`.

    The gradient of the matrix is summed over the replicas in fp32, and each replica receives the
    gradient of its rows.
    """
    return jax.lax.all_gather(rows.astype(dtype), AXIS, tiled=True)


def _gathered_forward(rows: jax.Array, dtype: Any) -> tuple[jax.Array, None]:
    return gathered(rows, dtype), None


def _gathered_backward(dtype: Any, _: None, gradient: jax.Array) -> tuple[jax.Array]:
    del dtype
    return (jax.lax.psum_scatter(gradient.astype(jnp.float32), AXIS, tiled=True),)


gathered.defvjp(_gathered_forward, _gathered_backward)


@functools.partial(jax.checkpoint, prevent_cse=False)
def norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    """Return RMSNorm of x (…, H): x / √(mean(x²) + ε), multiplied by the weights, in fp32.

    The backward pass computes the fp32 values again, because they need more memory than x.
    """
    wide = x.astype(jnp.float32)
    inverse = jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + RMS_NORM_EPSILON)
    return (wide * inverse * weight).astype(x.dtype)


@functools.partial(jax.checkpoint, prevent_cse=False)
def swiglu(gate_up: jax.Array) -> jax.Array:
    """Return silu(gate) · up of stacked values (…, 2 · n), which is (…, n)."""
    gate, up = jnp.split(gate_up, 2, -1)
    return jax.nn.silu(gate) * up


def product(x: jax.Array, matrix: jax.Array) -> jax.Array:
    """Return x (…, inputs) times the transposed matrix (outputs, inputs).

    The function does not transpose the matrix, because a transposed copy of a gathered matrix would
    be kept for the backward pass.
    """
    return jax.lax.dot_general(x, matrix, (((x.ndim - 1,), (1,)), ((), ())))


def rotate(x: jax.Array, cosines: jax.Array, sines: jax.Array) -> jax.Array:
    """Rotate the pairs (i, i + half) of the values of each head.

    Args:
        x: (B, S, heads, head_size).
        cosines: (S, 1, head_size / 2).
        sines: (S, 1, head_size / 2).
    """
    first, second = jnp.split(x.astype(jnp.float32), 2, -1)
    turned = [first * cosines - second * sines, second * cosines + first * sines]
    return jnp.concatenate(turned, -1).astype(x.dtype)


class LanguageModel(Model):
    """Llama with the arrays of a pass. The model returns losses instead of logits."""

    def __init__(self, weights: Values, trainer: LlamaTrainer) -> None:
        super().__init__(weights, {})
        self.trainer, self.network, self.dtype = trainer, trainer.network, trainer.dtype
        options = trainer.workload.options
        self.recompute, self.chunk = options.recompute, options.loss_chunk_tokens

    def matrix(self, name: str, rows: jax.Array, dtype: Any) -> jax.Array:
        """Return the whole matrix of a parameter, from the rows that this replica holds."""
        if self.trainer.is_sharded(name):
            return gathered(rows, dtype)
        return rows.astype(dtype)

    def losses(self, tokens: jax.Array, labels: jax.Array) -> jax.Array:
        """Return the sum of -log p of the labels of each sequence, (B,) fp32.

        Args:
            tokens: (B, S) tokens.
            labels: (B, S) next tokens.
        """
        table = self.matrix("embedding.weight", self.weights["embedding.weight"], jnp.float32)
        x = table[tokens].astype(self.dtype)
        layers = {
            name.removeprefix(STACKED): value
            for name, value in self.weights.items()
            if name.startswith(STACKED)
        }
        layer = self._layer
        if self.recompute:
            layer = jax.checkpoint(layer, prevent_cse=False)
        elif self.trainer.state_is_sharded:
            layer = jax.checkpoint(layer, policy=_all_except_gathered, prevent_cse=False)
        x, _ = jax.lax.scan(layer, x, layers)
        return self._token_losses(norm(x, self.weights["norm.weight"]), labels)

    def _layer(self, x: jax.Array, weights: Values) -> tuple[jax.Array, None]:
        """Apply attention and feed-forward layer to x (B, S, H)."""

        def linear(name: str, x: jax.Array) -> jax.Array:
            return product(x, self.matrix(STACKED + name, weights[name], self.dtype))

        normed = norm(x, weights["attention.norm.weight"])
        stacked = linear("attention.query_key_value.weight", normed)
        x = x + linear("attention.output.weight", self._attended(stacked))
        normed = norm(x, weights["feed_forward.norm.weight"])
        inner = swiglu(linear("feed_forward.gate_up.weight", normed))
        return x + linear("feed_forward.down.weight", inner), None

    def _attended(self, stacked: jax.Array) -> jax.Array:
        """Return the causal attention of stacked queries, keys, and values.

        Query heads j · n … j · n + n - 1 share key and value head j, where n is the number of query
        heads per key head.
        """
        of_queries, of_keys, _ = self.network.split
        parts = jnp.split(stacked, (of_queries, of_queries + of_keys), -1)
        query, key, value = (
            part.reshape(*part.shape[:2], -1, self.network.head_size) for part in parts
        )
        length = stacked.shape[1]
        cosines, sines = (array[:length, None] for array in self.trainer.rotations)
        attended = jax.nn.dot_product_attention(
            rotate(query, cosines, sines),
            rotate(key, cosines, sines),
            value,
            is_causal=True,
            implementation=self.trainer.attention,
        )
        return attended.reshape(*stacked.shape[:2], -1)

    def _token_losses(self, x: jax.Array, labels: jax.Array) -> jax.Array:
        """Return the sum of -log p of the labels of each sequence, from x (B, S, H).

        The logits of at most `chunk` tokens, or of a position, exist at the same time. The backward
        pass computes the logits again. The gradient of the classifier is summed in fp32.
        """
        name = "classifier.weight"
        whole = self.matrix(name, self.weights[name], self.dtype).astype(jnp.float32)
        size, length, _ = x.shape
        count = -(-length // max(1, self.chunk // size))
        while length % count:  # the chunks of a scan have the same length
            count += 1

        @functools.partial(jax.checkpoint, prevent_cse=False)
        def add(sums: jax.Array, piece: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            values, wanted = piece
            logits = product(values, whole.astype(self.dtype)).astype(jnp.float32)
            of_labels = jnp.take_along_axis(logits, wanted[..., None], -1)[..., 0]
            return sums + (jax.nn.logsumexp(logits, -1) - of_labels).sum(1), None

        pieces = (
            x.reshape(size, count, -1, x.shape[-1]).swapaxes(0, 1),
            labels.reshape(size, count, -1).swapaxes(0, 1),
        )
        sums, _ = jax.lax.scan(add, jnp.zeros(size, jnp.float32), pieces)
        return sums


def _all_except_gathered(primitive: Any, *_: Any, **parameters: Any) -> bool:
    """Return True for results that the forward pass keeps for the backward pass.

    Results of `gathered` are not kept. The backward pass gathers the matrices again.
    """
    del primitive
    body = parameters.get("call_jaxpr")  # only calls of functions have a body
    return body is None or all(call.primitive.name != "all_gather" for call in body.eqns)


class LlamaTrainer(ModelTrainer):
    """Llama on one device of each process."""

    inputs = ("token", "label")
    evaluation_inputs = ("token", "label")
    workload: Llama

    def __init__(self, workload: Llama, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.network: Network = workload.network
        self.parameters = stacked_shapes(self.network)
        self.rotations = self.network.rotations()
        self.state_is_sharded = workload.shards and worker.num_replicas > 1
        # cuDNN's kernels compute attention without an array of all scores. They need bf16.
        narrow = self.on_gpu and self.dtype == jnp.bfloat16
        self.attention = "cudnn" if narrow else "xla"
        self._gathers: dict[PartitionSpec, Any] = {}

    # -- layout of the arrays
    # ----------------------------------------------------------------------------------------------

    def is_sharded(self, name: str) -> bool:
        """Return True if each replica holds a part of the rows of a parameter.

        Vectors, and matrices whose rows cannot be shared evenly, are replicated.
        """
        shape = self.parameters[name]
        stacked = name.startswith(STACKED)
        is_matrix = len(shape) == 2 + stacked
        return self.state_is_sharded and is_matrix and not shape[stacked] % self.worker.num_replicas

    def spec(self, name: str) -> PartitionSpec:
        """Return the partition spec of a parameter, or of its optimizer state."""
        parameter = name if name in self.parameters else name.partition(".")[2]
        if parameter not in self.parameters or not self.is_sharded(parameter):
            return SHARED
        return PartitionSpec(None, AXIS) if parameter.startswith(STACKED) else PER_DEVICE

    def _rows(self, name: str) -> tuple[int, int]:
        """Return the first row of a parameter on this replica, and the row after its last row."""
        rows = self.parameters[name][name.startswith(STACKED)]
        if not self.is_sharded(name):
            return 0, rows
        share, replica = rows // self.worker.num_replicas, self.worker.replica_ids[0]
        return replica * share, (replica + 1) * share

    def _place(self, name: str, local: Array, shape: tuple[int, ...]) -> jax.Array:
        """Copy this replica's part of an array with this whole shape to the device."""
        return self._placed(np.ascontiguousarray(local), self.spec(name), shape)

    # -- setup
    # ----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        rules = {name: self.parameter_rule(name) for name in self.parameters}
        # The trainer clips the gradients itself, because the norm is summed over the replicas.
        self.optimizer = Optimizer(
            replace(self.updates, clip_norm=None), rules, self.worker.num_replicas
        )
        assert self.updates.loss_scaling.mode == "none", "gradients are clipped without a scale"
        weights = {name: self.spec(name) for name in self.parameters}
        slots = self.optimizer.fresh(dict.fromkeys(self.parameters, (0,)))
        state = (weights, {name: self.spec(name) for name in slots}, SHARED, PER_DEVICE)
        batch = (SHARED, PER_DEVICE)
        self._step = self.mapped(self._train, (*state, *batch), state, donated=(0, 1, 2))
        self._backward = self.mapped(self._reduced, (*state, *batch), (weights, SHARED, PER_DEVICE))
        self._loss = self.mapped(self._forward, (*state, *batch), (SHARED, PER_DEVICE))
        self._outputs = self.mapped(self._evaluated, (weights, SHARED, PER_DEVICE), PER_DEVICE)

    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        """Build the model, compile, and load the initial values.

        With sharded parameters, each replica draws only its rows, and `weights` is not used.
        """
        if self.optimizer is None:
            self._build()
        self.total = self.per_device(np.zeros(2, np.float32))
        if warmup:
            self._start(self._zeros)
            self._warm_up()
        if self.state_is_sharded:
            self._start(self._initial)
        else:
            whole = dict(weights)
            self._start(lambda name, first, stop: self._stacked(name, "", whole, first, stop))

    def _zeros(self, name: str, first: int, stop: int) -> Array:
        shape = self.parameters[name]
        if name.startswith(STACKED):
            return np.zeros((shape[0], stop - first, *shape[2:]), np.float32)
        return np.zeros((stop - first, *shape[1:]), np.float32)

    def _initial(self, name: str, first: int, stop: int) -> Array:
        """Return the initial values of some rows of a parameter."""
        seed = self.settings.seed
        parts = [
            self.network.initial_rows(canonical, seed, first, stop)
            for canonical in canonical_names(name, self.network.layers)
        ]
        return np.stack(parts) if name.startswith(STACKED) else parts[0]

    def _stacked(self, name: str, prefix: str, state: Arrays, first: int, stop: int) -> Array:
        """Return some rows of an array of the trainer from arrays by canonical names."""
        parts = [
            np.asarray(state[prefix + canonical][first:stop], np.float32)
            for canonical in canonical_names(name, self.network.layers)
        ]
        return np.stack(parts) if name.startswith(STACKED) else parts[0]

    def _start(self, values: Callable[[str, int, int], Array]) -> None:
        """Load values of each parameter, and reset the optimizer."""
        assert self.optimizer is not None
        self.values, self.moved, self.kept = {}, {}, {}
        for name, shape in self.parameters.items():
            rows = self._rows(name)
            self.values[name] = self._place(name, values(name, *rows), shape)
            for kind in self.optimizer.slots:
                slot = f"{kind}.{name}"
                self.kept[slot] = self._place(slot, self._zeros(name, *rows), shape)
        for name, value in self.optimizer.fresh(dict.fromkeys(self.parameters, (0,))).items():
            if name not in self.kept:
                self.kept[name] = self.shared(value)

    # -- a step, compiled
    # ----------------------------------------------------------------------------------------------

    def build_model(self, weights: Values, statistics: Values) -> LanguageModel:
        """Return the network of the workload with these arrays."""
        return LanguageModel(weights, self)

    def loss(self, model: LanguageModel, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Return the sum of -log p over all tokens of the batch."""
        return model.losses(batch["token"], batch["label"]).sum()

    def outputs(self, model: LanguageModel, batch: Mapping[str, jax.Array]) -> Values:
        """Return the mean of -log p over the tokens of each sequence, (B,)."""
        return {"loss": model.losses(batch["token"], batch["label"]) / batch["token"].shape[1]}

    def summed(self, gradients: Values) -> Values:
        """Return the gradients summed over replicas.

        The gradients of sharded parameters are already summed.
        """
        sharded = {name: value for name, value in gradients.items() if self.is_sharded(name)}
        rest = {name: value for name, value in gradients.items() if name not in sharded}
        flat, unravel = ravel_pytree(rest)
        return {**sharded, **unravel(jax.lax.psum(flat, AXIS))}

    def clipped(self, gradients: Values) -> Values:
        """Scale the gradients so that their global L2 norm is at most `clip_norm`."""
        if self.updates.clip_norm is None:
            return gradients
        sharded = replicated = jnp.float32(0)
        for name, value in gradients.items():
            if self.is_sharded(name):
                sharded += jnp.vdot(value, value)
            else:
                replicated += jnp.vdot(value, value)
        if self.state_is_sharded:
            sharded = jax.lax.psum(sharded, AXIS)
        norm = jnp.sqrt(sharded + replicated)
        factor = self.updates.clip_norm / jnp.maximum(norm, self.updates.clip_norm)
        return {name: value * factor for name, value in gradients.items()}

    # -- state
    # ----------------------------------------------------------------------------------------------

    def gradient_all_reduce_info(self) -> GradientAllReduceInfo:
        """Return the size of the fp32 gradients, which a reduce-scatter sums for each parameter."""
        shapes = self.network.shapes()
        buckets = len(shapes) if self.state_is_sharded else 1
        return GradientAllReduceInfo(
            FP32_BYTES * self.network.parameter_count(), len(shapes), buckets
        )

    def weights(self) -> dict[str, Array]:
        """Return the parameters. With sharded parameters, this is a collective call."""
        return self.canonical(self.values)

    def state_dict(self) -> dict[str, Array]:
        """Return the state. With sharded parameters, this is a collective call."""
        return {**self.weights(), **self.canonical(self.kept)}

    def canonical(self, arrays: Values) -> dict[str, Array]:
        """Return copies of whole arrays on the host by canonical names.

        With sharded parameters, this is a collective call.
        """
        found: dict[str, Array] = {}
        for name, value in arrays.items():
            spec = self.spec(name)
            if spec not in self._gathers:
                axis = len(spec) - 1
                self._gathers[spec] = self.mapped(
                    functools.partial(jax.lax.all_gather, axis_name=AXIS, axis=axis, tiled=True),
                    (spec,),
                    SHARED,
                )
            whole = here(value if spec == SHARED else self._gathers[spec](value))
            prefix, parameter = split_name(name, self.parameters)
            if parameter.startswith(STACKED):
                names = canonical_names(parameter, self.network.layers)
                found |= {
                    prefix + canonical: part.copy()
                    for canonical, part in zip(names, whole, strict=True)
                }
            else:
                found[name] = whole.copy()
        return found

    def load_state_dict(self, state: Arrays) -> None:
        """Load whole arrays by canonical names. Each replica copies only its rows."""
        assert self.optimizer is not None
        self.values, self.moved, self.kept = {}, {}, {}
        fresh = self.optimizer.fresh(dict.fromkeys(self.parameters, (0,)))
        for name in (*self.parameters, *fresh):
            prefix, parameter = split_name(name, self.parameters)
            if parameter not in self.parameters:
                self.kept[name] = self.shared(np.asarray(state[name], np.float32))
                continue
            local = self._stacked(parameter, prefix, state, *self._rows(parameter))
            target = self.kept if prefix else self.values
            target[name] = self._place(name, local, self.parameters[parameter])


def stacked_shapes(network: Network) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of the trainer by name."""
    found: dict[str, tuple[int, ...]] = {}
    for name, shape in network.shapes().items():
        if name.startswith(FIRST_LAYER):
            found[STACKED + name.removeprefix(FIRST_LAYER)] = (network.layers, *shape)
        elif not name.startswith("layer"):
            found[name] = shape
    return found


def canonical_names(name: str, layers: int) -> list[str]:
    """Return the canonical names of the parameters that an array of the trainer contains."""
    if not name.startswith(STACKED):
        return [name]
    return [f"layer{number}.{name.removeprefix(STACKED)}" for number in range(1, layers + 1)]


def split_name(name: str, parameters: Mapping[str, object]) -> tuple[str, str]:
    """Split the name of an array into the kind of optimizer state with a dot, and the parameter.

    The kind of a parameter is empty.
    """
    if name in parameters:
        return "", name
    kind, dot, parameter = name.partition(".")
    return kind + dot, parameter
