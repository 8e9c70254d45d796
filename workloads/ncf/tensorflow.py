"""NeuMF in TensorFlow.

Shapes: B samples of a batch, N pieces of P samples, F = GMF factors, E = MLP embedding, U users and C candidates of an
evaluation batch. Embedding rows are gathered, differentiated as leaves and scatter-added into dense gradients. One process
computes a step in one function; several compute gradients, sum them, and update. Where XLA compiles, a CPU works in pieces
that stay in its cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.api import Array, Arrays, Batch, Place, Workload
from workloads.frameworks.tensorflow.trainer import TensorFlowTrainer
from workloads.ncf import weights as neumf
from workloads.ncf.data import evaluation_users_per_batch
from workloads.ncf.sampling import EVALUATION_NEGATIVES

CPU_PIECE = 4_096
"""Samples per core whose activations fit its cache (measured: 4,096 best, whole batches of 65,536 a tenth slower)."""
XLA_PARAMETERS = 1_000_000
"""Models from this size on are compiled on a CPU: compiling takes about a second per shape, in which a smaller one has
trained an epoch, and gains nothing there (measured with the demo's model and with ML-100K)."""
EMBEDDINGS = ("gmf_user", "gmf_item", "mlp_user", "mlp_item")
Tensors = dict[str, tf.Tensor]


class NCFTrainer(TensorFlowTrainer):
    """NeuMF on one device."""

    def __init__(self, workload: Workload, place: Place) -> None:
        super().__init__(workload, place)
        sizes, model = workload.facts.sizes, self.settings.model
        self.shapes = neumf.shapes(sizes["users"], sizes["items"], model)
        self.layers = len(neumf.layer_sizes(model))
        self.compiled = self.on_gpu or sum(map(math.prod, self.shapes.values())) >= XLA_PARAMETERS
        self.piece = CPU_PIECE * place.cores_per_device if self.compiled and not self.on_gpu else None
        values = self.settings.hyperparameters
        # Adam's operator works with float32 betas; corrections from the same values keep its averages unbiased.
        self.betas = (float(np.float32(values["beta1"])), float(np.float32(values["beta2"])))
        self.steps = 0
        self._build()

    def _build(self) -> None:
        """Variables, all zero, and functions, not traced yet."""
        self.parameters, self.means, self.squares = (
            {name: tf.Variable(tf.zeros(shape), name=name) for name, shape in self.shapes.items()} for _ in range(3)
        )
        self._gradients = self._function(self._gradients_of)
        self._apply = self._function(self._update)
        self._step = self._function(self._train) if self.strategy is None else tf.function(self._train, autograph=False)
        self._traced: dict[int, Callable[..., Any]] = {}
        self._loss = self._function(self._forward)
        self._outputs = self._function(self._candidates)

    def _function(self, python: Callable[..., Any]) -> Callable[..., Any]:
        function: Callable[..., Any] = tf.function(python, autograph=False, jit_compile=self.compiled)
        return function

    def setup(self, weights: Iterable[tuple[str, Array]], warm_up: bool = True) -> None:
        """Warm up on made-up samples, then load the weights and reset the optimizer."""
        if warm_up:
            self._warm_up()
        for name, value in weights:
            self.parameters[name].assign(value)
        for moment in (*self.means.values(), *self.squares.values()):
            moment.assign(tf.zeros_like(moment))
        self.steps = 0

    def _warm_up(self) -> None:
        for shape in self.workload.shapes():
            arrays = {name: np.zeros(spec.shape, spec.dtype) for name, spec in shape.items()}
            batch = Batch(arrays, 1.0, 1.0, 1)
            if self.settings.mode == "forward":
                self.loss(batch)
            else:
                self.step(batch, learning_rate=0.0)
        users = evaluation_users_per_batch(self.settings, self.shapes["gmf_user"][0], self.place.replicas_total)
        candidates = np.zeros((users, EVALUATION_NEGATIVES + 1), np.int32)
        self.outputs(Batch({"user": candidates[:, 0], "item": candidates}, 1.0, 1.0, 1))

    # -- model ----------------------------------------------------------------------------------------------------

    def logits(self, rows: Tensors) -> tf.Tensor:
        """fp32 logits (…) from embedding rows (…, F) and (…, E); user and item rows may broadcast.

        The first layer's user and item halves are multiplied apart: one user's half then serves all its candidates.
        """
        p, width = self.parameters, self.shapes["mlp_user"][1]
        first = p["mlp.0.weight"]
        hidden = self._matmul(rows["mlp_user"], first[:, :width]) + self._matmul(rows["mlp_item"], first[:, width:])
        hidden = tf.nn.relu(hidden + p["mlp.0.bias"])
        for layer in range(1, self.layers):
            hidden = tf.nn.relu(self._matmul(hidden, p[f"mlp.{layer}.weight"]) + p[f"mlp.{layer}.bias"])
        output, factors = p["output.weight"][0], self.shapes["gmf_user"][1]
        product = rows["gmf_user"] * rows["gmf_item"]
        return (
            tf.linalg.matvec(product, output[:factors]) + tf.linalg.matvec(hidden, output[factors:]) + p["output.bias"]
        )

    def _matmul(self, x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        """x (…, inputs) times weight (outputs, inputs) transposed, in fp32 outside; bf16 inside where asked for."""
        if self.settings.precision == "bf16":
            x, weight = tf.cast(x, tf.bfloat16), tf.cast(weight, tf.bfloat16)
        flat = tf.reshape(x, [-1, x.shape[-1]])
        product = tf.cast(tf.matmul(flat, weight, transpose_b=True), tf.float32)
        return tf.reshape(product, [*x.shape[:-1], weight.shape[0]])

    def gather_rows(self, user: tf.Tensor, item: tf.Tensor) -> Tensors:
        """Embedding rows of users and items, (…, F) and (…, E)."""
        ids = {"user": user, "item": item}
        return {name: tf.gather(self.parameters[name], ids[name[4:]]) for name in EMBEDDINGS}

    def _loss_of(self, rows: Tensors, label: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        """Binary cross-entropy with logits, summed over the samples' weights."""
        return tf.reduce_sum(weight * tf.nn.sigmoid_cross_entropy_with_logits(label, self.logits(rows)))

    # -- training -------------------------------------------------------------------------------------------------

    def step(self, batch: Batch, learning_rate: float) -> None:
        """Forward, backward, sum over replicas, Adam.

        PyTorch adds epsilon to √(v / (1 - β2^t)), TensorFlow's operator to √v: its rate and epsilon carry the correction.
        """
        self.steps += 1
        correction1, correction2 = (1 - beta**self.steps for beta in self.betas)
        rate = learning_rate * math.sqrt(correction2) / correction1
        epsilon = float(self.settings.hyperparameters["epsilon"]) * math.sqrt(correction2)
        scalars = np.array([rate, epsilon, 1 / batch.weight_global], np.float32)
        tensors = [tf.constant(array) for array in (*_columns(batch), scalars)]
        # The traced function itself: tf.function's look-up by signature costs 0.2 ms a call.
        size = len(batch.arrays["user"])
        if size not in self._traced:
            self._traced[size] = self._step.get_concrete_function(*tensors)
        self._traced[size](*tensors)

    def _train(self, user: tf.Tensor, item: tf.Tensor, label: tf.Tensor, weight: tf.Tensor, scalars: tf.Tensor) -> None:
        """One step; scalars are the corrected rate, the corrected epsilon and 1 / weight_global."""
        self.traces += 1
        if self.strategy is None:
            self._update(self._gradients_of(user, item, label, weight, scalars), scalars)
            return
        gradients = self._gradients(user, item, label, weight, scalars)
        summed = self.sum_over_replicas(list(gradients.values()))
        self._apply(dict(zip(gradients, summed, strict=True)), scalars)

    def _gradients_of(
        self, user: tf.Tensor, item: tf.Tensor, label: tf.Tensor, weight: tf.Tensor, scalars: tf.Tensor
    ) -> Tensors:
        """Dense gradients of this replica's part of the loss, which is added to `total`."""
        pieces = [_cut(array, self.piece) for array in (user, item, label, weight)]

        def add_piece(number: tf.Tensor, loss: tf.Tensor, sums: Tensors) -> tuple[tf.Tensor, tf.Tensor, Tensors]:
            part, sums = self._backward(*(array[number] for array in pieces), scalars[2], sums)
            return number + 1, loss + part, sums

        count = pieces[0].shape[0]
        state = (tf.constant(0), tf.constant(0.0), {name: tf.zeros(shape) for name, shape in self.shapes.items()})
        if count == 1:
            state = add_piece(*state)
        else:
            state = tf.while_loop(lambda number, *_: number < count, add_piece, state, maximum_iterations=count)
        self.total.assign_add(tf.cast(state[1], tf.float64))
        return state[2]

    def _backward(
        self, user: tf.Tensor, item: tf.Tensor, label: tf.Tensor, weight: tf.Tensor, scale: tf.Tensor, sums: Tensors
    ) -> tuple[tf.Tensor, Tensors]:
        """Loss of one piece (P,) times scale, and `sums` with its gradients added."""
        ids, rows = {"user": user, "item": item}, self.gather_rows(user, item)
        dense = {name: value for name, value in self.parameters.items() if name not in EMBEDDINGS}
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch((rows, dense))
            loss = self._loss_of(rows, label, weight) * scale
        by_row, by_name = tape.gradient(loss, (rows, dense))
        added = {name: sums[name] + gradient for name, gradient in by_name.items()}
        for name, gradient in by_row.items():
            added[name] = tf.tensor_scatter_nd_add(sums[name], ids[name[4:]][:, None], gradient)
        return loss, {name: added[name] for name in self.shapes}

    def _update(self, gradients: Tensors, scalars: tf.Tensor) -> None:
        """Adam by one operator per parameter. With powers of 0 it applies rate and epsilon as they are."""
        for name, gradient in gradients.items():
            tf.raw_ops.ResourceApplyAdam(
                var=self.parameters[name].handle, m=self.means[name].handle, v=self.squares[name].handle,
                beta1_power=0.0, beta2_power=0.0, lr=scalars[0], beta1=self.betas[0], beta2=self.betas[1],
                epsilon=scalars[1], grad=gradient,
            )  # fmt: skip

    def loss(self, batch: Batch) -> None:
        """Loss of a batch without an update."""
        self._loss(*_columns(batch), np.float32(1 / batch.weight_global))

    def _forward(self, user: tf.Tensor, item: tf.Tensor, label: tf.Tensor, weight: tf.Tensor, scale: tf.Tensor) -> None:
        def part(piece: tuple[tf.Tensor, ...]) -> tf.Tensor:
            return self._loss_of(self.gather_rows(piece[0], piece[1]), piece[2], piece[3])

        pieces = tuple(_cut(array, self.piece) for array in (user, item, label, weight))
        parts = tf.map_fn(part, pieces, fn_output_signature=tf.float32)
        self.total.assign_add(tf.cast(tf.reduce_sum(parts) * scale, tf.float64))

    # -- evaluation and state -------------------------------------------------------------------------------------

    def outputs(self, batch: Batch) -> Tensors:
        """Logits (U, C) of every user's candidates."""
        return {"logits": self._outputs(batch.arrays["user"], batch.arrays["item"])}

    def _candidates(self, user: tf.Tensor, item: tf.Tensor) -> tf.Tensor:
        users = None if self.piece is None else max(1, self.piece // item.shape[1])

        def logits(piece: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            return self.logits(self.gather_rows(piece[0][:, None], piece[1]))

        found = tf.map_fn(logits, (_cut(user, users), _cut(item, users)), fn_output_signature=tf.float32)
        return tf.reshape(found, [-1, item.shape[1]])[: user.shape[0]]

    def state(self) -> dict[str, Array]:
        """Parameters by name, Adam's moments as flat vectors, its step count."""
        found = {name: value.numpy() for name, value in self.parameters.items()}
        for key, moments in (("exp_avg", self.means), ("exp_avg_sq", self.squares)):
            found[f"adam.{key}"] = np.concatenate([moment.numpy().reshape(-1) for moment in moments.values()])
        found["adam.step"] = np.array([self.steps], np.float32)
        return found

    def load_state(self, state: Arrays) -> None:
        """Inverse of `state`."""
        for name, parameter in self.parameters.items():
            parameter.assign(state[name])
        for key, moments in (("exp_avg", self.means), ("exp_avg_sq", self.squares)):
            ends = np.cumsum([math.prod(shape) for shape in self.shapes.values()])
            for moment, part in zip(moments.values(), np.split(state[f"adam.{key}"], ends[:-1]), strict=True):
                moment.assign(part.reshape(moment.shape))
        self.steps = int(state["adam.step"][0])


def _columns(batch: Batch) -> tuple[Array, ...]:
    """User, item, label and weight of a training batch, each (B,)."""
    return tuple(batch.arrays[name] for name in ("user", "item", "label", "weight"))


def _cut(array: tf.Tensor, size: int | None) -> tf.Tensor:
    """An array (B, …) as equal pieces of at most `size`, (N, P, …), filled up with zeros; None: one piece."""
    total = array.shape[0]
    count = 1 if size is None else -(-total // size)
    padding = -total % count
    if padding:
        array = tf.pad(array, [[0, padding], *([[0, 0]] * (array.shape.rank - 1))])
    return tf.reshape(array, [count, (total + padding) // count, *array.shape[1:]])
