"""NeuMF in JAX.

The shapes use these symbols: B samples of a batch, N chunks of P samples, F GMF factors, E columns
of the MLP embedding, U users and C candidates of an evaluation batch.

A step gathers embedding rows and computes the gradients of these rows. The row gradients are added
to dense gradients of the embedding tables.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from workloads.api import WorkerContext, Workload
from workloads.frameworks.jax.model import Model, ModelTrainer
from workloads.frameworks.jax.optimizers import Values
from workloads.ncf import weights as neumf

CPU_PIECE = 4_096
"""Number of samples per core in a chunk of a batch.

With this number of samples, the activations fit into the cache of a core (measured with the
TensorFlow trainer).
"""
EMBEDDINGS = ("gmf_user", "gmf_item", "mlp_user", "mlp_item")


class NCFTrainer(ModelTrainer):
    """NCF trainer for one device."""

    inputs = ("user", "item", "label", "weight")
    evaluation_inputs = ("user", "item")

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        sizes, model = workload.dataset_info.sizes, self.settings.model
        self.parameters = neumf.shapes(sizes["users"], sizes["items"], model)
        self.layers = len(neumf.layer_sizes(model))
        self.piece = None if self.on_gpu else CPU_PIECE * worker.cores_per_device

    def logits(self, weights: Values, rows: Values) -> jax.Array:
        """Return fp32 logits (…) from embedding rows (…, F) and (…, E).

        User rows and item rows may be broadcast against each other.

        The user half and the item half of the first layer are multiplied separately. The product of
        a user is therefore computed only once for all candidates.
        """
        width = self.parameters["mlp_user"][1]
        first = weights["mlp.0.weight"]
        hidden = self._product(rows["mlp_user"], first[:, :width]) + self._product(
            rows["mlp_item"], first[:, width:]
        )
        hidden = jax.nn.relu(hidden + weights["mlp.0.bias"])
        for layer in range(1, self.layers):
            hidden = (
                self._product(hidden, weights[f"mlp.{layer}.weight"]) + weights[f"mlp.{layer}.bias"]
            )
            hidden = jax.nn.relu(hidden)
        output, factors = weights["output.weight"][0], self.parameters["gmf_user"][1]
        product = rows["gmf_user"] * rows["gmf_item"]
        return product @ output[:factors] + hidden @ output[factors:] + weights["output.bias"]

    def _product(self, x: jax.Array, weight: jax.Array) -> jax.Array:
        """Return x (…, inputs) times the transposed weight (outputs, inputs), in fp32.

        With precision=bf16, both inputs of the product are bf16.
        """
        if self.settings.precision == "bf16":
            x, weight = x.astype(jnp.bfloat16), weight.astype(jnp.bfloat16)
        return jnp.matmul(x, weight.T).astype(jnp.float32)

    def _entropy(self, weights: Values, rows: Values, batch: Values) -> jax.Array:
        """Return the weighted sum of the binary cross-entropy with logits."""
        logits = self.logits(weights, rows)
        return jnp.vdot(batch["weight"], jnp.logaddexp(0.0, logits) - batch["label"] * logits)

    def loss(self, model: Model, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Return the weighted sum of the binary cross-entropy for `mode=forward`.

        The batch is computed in the same chunks as in training.
        """

        def add(loss: jax.Array, piece: Values) -> tuple[jax.Array, None]:
            return loss + self._entropy(model.weights, _rows(model.weights, piece), piece), None

        return jax.lax.scan(add, jnp.float32(0), _cut(batch, self.piece))[0]

    def gradients_of(
        self, trained: Values, frozen: Values, statistics: Values, batch: Values, scale: jax.Array
    ) -> tuple[jax.Array, Values, Values]:
        """Compute the loss and gradients of a batch in chunks that fit into a CPU's cache.

        The gradients of embedding rows are added to the dense gradients in place.
        """
        weights = {**trained, **frozen}
        dense = {name: value for name, value in trained.items() if name not in EMBEDDINGS}

        def add(
            carried: tuple[jax.Array, Values], piece: Values
        ) -> tuple[tuple[jax.Array, Values], None]:
            loss, sums = carried
            leaves = {name: row for name, row in _rows(weights, piece).items() if name in trained}

            def scaled(leaves: Values, dense: Values) -> tuple[jax.Array, jax.Array]:
                entropy = self._entropy(
                    {**weights, **dense}, {**_rows(weights, piece), **leaves}, piece
                )
                return entropy * scale, entropy

            (_, more), (by_row, by_name) = jax.value_and_grad(scaled, (0, 1), has_aux=True)(
                leaves, dense
            )
            added = {name: sums[name] + gradient for name, gradient in by_name.items()}
            added |= {
                name: sums[name].at[piece[name[4:]]].add(gradient)
                for name, gradient in by_row.items()
            }
            return (loss + more, added), None

        zeros = jax.tree.map(jnp.zeros_like, trained)
        (loss, gradients), _ = jax.lax.scan(add, (jnp.float32(0), zeros), _cut(batch, self.piece))
        return loss, gradients, statistics

    def outputs(self, model: Model, batch: Mapping[str, jax.Array]) -> Values:
        """Return the `logits` (U, C) of each user's candidates."""
        weights = model.weights
        users, candidates = batch["item"].shape

        def logits(piece: Values) -> jax.Array:
            return self.logits(
                weights, _rows(weights, {"user": piece["user"][:, None], "item": piece["item"]})
            )

        scores = jax.lax.map(logits, _cut(batch, self.piece and max(1, self.piece // candidates)))
        return {"logits": scores.reshape(-1, candidates)[:users]}


def _rows(weights: Values, batch: Values) -> Values:
    """Return the embedding rows of a batch's users and items, (…, F) and (…, E)."""
    return {name: weights[name][batch[name[4:]]] for name in EMBEDDINGS}


def _cut(batch: Mapping[str, jax.Array], size: int | None) -> Values:
    """Split arrays (B, …) into equal chunks of at most `size` samples, (N, P, …).

    The last chunk is padded with zeros. If `size` is None, the whole batch is a single chunk.
    """
    total = len(next(iter(batch.values())))
    count = 1 if size is None else -(-total // size)
    padding = -total % count
    return {
        name: jnp.pad(array, [(0, padding), *[(0, 0)] * (array.ndim - 1)]).reshape(
            count, -1, *array.shape[1:]
        )
        for name, array in batch.items()
    }
