"""NeuMF in TensorFlow.

The shapes use these symbols: B samples of a batch, N chunks of P samples, F GMF factors, E columns
of the MLP embedding, U users and C candidates of an evaluation batch.

A step gathers embedding rows, computes the gradients of these rows, and scatter-adds the row
gradients to dense gradients of the tables. With a single process, a step is a single function. With
several processes, separate functions compute the gradients, sum the gradients, and update the
parameters. If XLA compiles the model for a CPU, a batch is computed in chunks that fit into the
cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import tensorflow as tf

from workloads.api import WorkerContext, Workload
from workloads.frameworks.tensorflow.model import ModelTrainer, Part
from workloads.frameworks.tensorflow.variables import Model, Tensors
from workloads.ncf import weights as neumf

CPU_PIECE = 4_096
"""Number of samples per core in a chunk of a batch. With this number of samples, the activations
fit into the cache of a core.

In a measurement, chunks of 4,096 samples were fastest, and whole batches of 65,536 samples
were 10 % slower.
"""
XLA_PARAMETERS = 1_000_000
"""Minimum number of parameters for which XLA compiles the model on a CPU.

Compilation takes about one second per shape. In one second, a smaller model trains an epoch.
Compilation also does not make a smaller model faster (measured with the demo's model and with
ML-100K).
"""
EMBEDDINGS = ("gmf_user", "gmf_item", "mlp_user", "mlp_item")


class NCFTrainer(ModelTrainer):
    """NCF trainer for one device."""

    inputs = ("user", "item", "label", "weight")
    evaluation_inputs = ("user", "item")

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        sizes, model = workload.dataset_info.sizes, self.settings.model
        self.shapes = neumf.shapes(sizes["users"], sizes["items"], model)
        self.layers = len(neumf.layer_sizes(model))
        self.compiled = self.on_gpu or sum(map(math.prod, self.shapes.values())) >= XLA_PARAMETERS
        self.piece = (
            CPU_PIECE * worker.cores_per_device if self.compiled and not self.on_gpu else None
        )

    def build_model(self) -> Model:
        return Model(self.shapes)

    # -- model
    # ----------------------------------------------------------------------------------------------

    def logits(self, model: Model, rows: Tensors) -> tf.Tensor:
        """Return fp32 logits (…) from embedding rows (…, F) and (…, E).

        User rows and item rows may be broadcast against each other.

        The user half and the item half of the first layer are multiplied separately. The product of
        a user is therefore computed only once for all candidates.
        """
        p, width = model.parameters, self.shapes["mlp_user"][1]
        first = p["mlp.0.weight"]
        hidden = self._matmul(rows["mlp_user"], first[:, :width]) + self._matmul(
            rows["mlp_item"], first[:, width:]
        )
        hidden = tf.nn.relu(hidden + p["mlp.0.bias"])
        for layer in range(1, self.layers):
            hidden = tf.nn.relu(
                self._matmul(hidden, p[f"mlp.{layer}.weight"]) + p[f"mlp.{layer}.bias"]
            )
        output, factors = p["output.weight"][0], self.shapes["gmf_user"][1]
        product = rows["gmf_user"] * rows["gmf_item"]
        return (
            tf.linalg.matvec(product, output[:factors])
            + tf.linalg.matvec(hidden, output[factors:])
            + p["output.bias"]
        )

    def _matmul(self, x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        """Return x (…, inputs) times the transposed weight (outputs, inputs), in fp32.

        With precision=bf16, both inputs of the product are bf16.
        """
        if self.settings.precision == "bf16":
            x, weight = tf.cast(x, tf.bfloat16), tf.cast(weight, tf.bfloat16)
        flat = tf.reshape(x, [-1, x.shape[-1]])
        product = tf.cast(tf.matmul(flat, weight, transpose_b=True), tf.float32)
        return tf.reshape(product, [*x.shape[:-1], weight.shape[0]])

    def gather_rows(self, model: Model, user: tf.Tensor, item: tf.Tensor) -> Tensors:
        """Return embedding rows of users and items, (…, F) and (…, E)."""
        ids = {"user": user, "item": item}
        return {name: tf.gather(model.parameters[name], ids[name[4:]]) for name in EMBEDDINGS}

    def _entropy(
        self, model: Model, rows: Tensors, label: tf.Tensor, weight: tf.Tensor
    ) -> tf.Tensor:
        """Return the weighted sum of the binary cross-entropy with logits."""
        return tf.reduce_sum(
            weight * tf.nn.sigmoid_cross_entropy_with_logits(label, self.logits(model, rows))
        )

    # -- training
    # ----------------------------------------------------------------------------------------------

    def gradients_of(self, scale: tf.Tensor, batch: Tensors) -> Part:
        """Compute the loss and gradients of a batch in chunks that fit into a CPU's cache."""
        pieces = [_cut(batch[name], self.piece) for name in self.inputs]

        def add_piece(
            number: tf.Tensor, loss: tf.Tensor, sums: Tensors
        ) -> tuple[tf.Tensor, tf.Tensor, Tensors]:
            part, sums = self._add_gradients(scale, sums, *(array[number] for array in pieces))
            return number + 1, loss + part, sums

        count = pieces[0].shape[0]
        zeros = {name: tf.zeros(value.shape) for name, value in self.optimizer.parameters.items()}
        state = (tf.constant(0), tf.constant(0.0), zeros)
        if count == 1:
            state = add_piece(*state)
        else:
            state = tf.while_loop(
                lambda number, *_: number < count, add_piece, state, maximum_iterations=count
            )
        return state[1], state[2]

    def _add_gradients(
        self,
        scale: tf.Tensor,
        sums: Tensors,
        user: tf.Tensor,
        item: tf.Tensor,
        label: tf.Tensor,
        weight: tf.Tensor,
    ) -> Part:
        """Add the gradients of a chunk (P,), times the loss scale, to `sums`.

        The method returns the loss of the chunk times `scale`, and the new `sums`.
        """
        ids, rows = {"user": user, "item": item}, self.gather_rows(self.model, user, item)
        trained = self.optimizer.parameters
        dense = {name: value for name, value in trained.items() if name not in EMBEDDINGS}
        leaves = {name: value for name, value in rows.items() if name in trained}
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch((leaves, dense))
            loss = self._entropy(self.model, rows, label, weight) * scale
            scaled = self.loss_scale.scaled(loss)
        by_row, by_name = tape.gradient(scaled, (leaves, dense))
        added = {name: sums[name] + gradient for name, gradient in by_name.items()}
        for name, gradient in by_row.items():
            added[name] = tf.tensor_scatter_nd_add(sums[name], ids[name[4:]][:, None], gradient)
        return loss, {name: added[name] for name in trained}

    def loss(self, model: Model, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the weighted sum of the binary cross-entropy for `mode=forward`.

        The batch is computed in the same chunks as in training.
        """

        def part(piece: tuple[tf.Tensor, ...]) -> tf.Tensor:
            user, item, label, weight = piece
            return self._entropy(model, self.gather_rows(model, user, item), label, weight)

        pieces = tuple(_cut(batch[name], self.piece) for name in self.inputs)
        return tf.reduce_sum(tf.map_fn(part, pieces, fn_output_signature=tf.float32))

    # -- evaluation
    # ----------------------------------------------------------------------------------------------

    def outputs(self, model: Model, batch: Mapping[str, tf.Tensor]) -> Tensors:
        """Return the `logits` (U, C) of each user's candidates."""
        user, item = batch["user"], batch["item"]
        users = None if self.piece is None else max(1, self.piece // item.shape[1])

        def logits(piece: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            return self.logits(model, self.gather_rows(model, piece[0][:, None], piece[1]))

        scores = tf.map_fn(
            logits, (_cut(user, users), _cut(item, users)), fn_output_signature=tf.float32
        )
        return {"logits": tf.reshape(scores, [-1, item.shape[1]])[: user.shape[0]]}


def _cut(array: tf.Tensor, size: int | None) -> tf.Tensor:
    """Split an array (B, …) into equal chunks of at most `size` samples, (N, P, …).

    The last chunk is padded with zeros. If `size` is None, the whole array is a single chunk.
    """
    total = array.shape[0]
    count = 1 if size is None else -(-total // size)
    padding = -total % count
    if padding:
        array = tf.pad(array, [[0, padding], *([[0, 0]] * (array.shape.rank - 1))])
    return tf.reshape(array, [count, (total + padding) // count, *array.shape[1:]])
