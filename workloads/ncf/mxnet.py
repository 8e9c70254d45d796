"""NeuMF in MXNet.

The shapes use these symbols: B samples of a chunk, F GMF factors, E columns of the MLP embedding, U
users and C candidates of an evaluation batch.

A batch is computed in chunks, and the hybridized graph adds the gradients of the chunks. On a CPU,
the chunks limit the memory for activations. The two MLP tables are adjacent in the flat vector, so
a single gather with row numbers (B, 2) returns the concatenated input (B, 2 E). MXNet's
concatenation operator would take as long as a linear layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import ModuleType

import mxnet as mx
import numpy as np

from workloads.api import Arrays, Batch
from workloads.frameworks.mxnet.flat import Shapes
from workloads.frameworks.mxnet.graphs import Inputs, Model, Tensor
from workloads.frameworks.mxnet.model import ModelTrainer
from workloads.ncf import weights as neumf
from workloads.ncf.workload import NCF

CPU_PIECE = 32_768
"""Number of samples per core in a chunk of a batch.

The number was measured with ML-20M's table sizes on two cores. Chunks of 65,536 samples in total
are fastest, chunks of 16,384 samples are 7 % slower, and chunks of 4,096 samples are 20 % slower.
"""


class NeuMF(Model):
    """NeuMF network from row numbers of the embedding tables to logits (B,).

    `rows` (B, 2) int32 contains `user` and `users + item`.
    """

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes

    def arguments(self, shapes: Shapes) -> Shapes:
        """Return the parameter shapes, with the two MLP tables merged into one table.

        The merged table is `mlp_tables` (users + items, E).
        """
        merged: dict[str, tuple[int, ...]] = {}
        for name, shape in shapes.items():
            if name == "mlp_user":
                merged["mlp_tables"] = (shape[0] + shapes["mlp_item"][0], shape[1])
            elif name != "mlp_item":
                merged[name] = shape
        return merged

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the logits of B samples."""
        F, inputs = self.F, self.arrays
        (users, factors), width = self.shapes["gmf_user"], 2 * self.shapes["mlp_user"][1]

        def gather(table: str, ids: Tensor) -> Tensor:
            return F.take(inputs[table], ids, axis=0, mode="clip")

        hidden = gather("mlp_tables", rows).reshape((-1, width))
        for name in (
            name for name in self.shapes if name.startswith("mlp.") and name.endswith(".weight")
        ):
            bias = inputs[name.replace("weight", "bias")]
            hidden = F.FullyConnected(hidden, inputs[name], bias, num_hidden=self.shapes[name][0])
            hidden = F.Activation(hidden, act_type="relu")
        product = gather("gmf_user", _column(F, rows, 0)) * gather(
            "gmf_item", _column(F, rows, 1) - users
        )
        # The weights of the output layer are split into two halves, which are multiplied
        # separately. The split avoids a second concatenation.
        of_product = F.slice_axis(inputs["output.weight"], axis=1, begin=0, end=factors)
        of_hidden = F.slice_axis(inputs["output.weight"], axis=1, begin=factors, end=None)
        logits = F.FullyConnected(hidden, of_hidden, inputs["output.bias"], num_hidden=1)
        logits = logits + F.FullyConnected(product, of_product, num_hidden=1, no_bias=True)
        return logits.reshape((-1,))


def _column(F: ModuleType, pairs: Tensor, number: int) -> Tensor:
    """Return column `number` (B,) of `pairs` (B, 2)."""
    return F.slice_axis(pairs, axis=1, begin=number, end=number + 1).reshape((-1,))


class NCFTrainer(ModelTrainer):
    """NCF trainer for all devices of this process."""

    workload: NCF
    adds_gradients = True
    """The graph adds the gradients of all chunks instead of overwriting them."""

    def build_model(self, half: bool, on_cpu: bool) -> NeuMF:
        """Return the model, which supports only float32."""
        return NeuMF(neumf.shapes(self.workload.users, self.workload.items, self.settings.model))

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        """Return the row numbers of the samples, with labels and weights.

        In evaluation, the method returns the row numbers of the U x C pairs.
        """
        user, item = batch.arrays["user"], batch.arrays["item"]
        if not training:
            user, item = np.repeat(user, item.shape[1]), item.reshape(-1)
        arrays = {"rows": np.stack([user, item + np.int32(self.workload.users)], axis=1)}
        if training:
            arrays["targets"] = np.stack([batch.arrays["label"], batch.arrays["weight"]], axis=1)
        return arrays

    def piece_size(self, samples: int, training: bool) -> int:
        """Return the number of samples per chunk. All chunks of a batch are equal.

        On a CPU, a chunk has at most `CPU_PIECE` samples per core. On a GPU, a chunk has at most
        one global batch.
        """
        on_cpu = self.contexts[0].device_type == "cpu"
        most = (
            CPU_PIECE * self.worker.cores_per_device if on_cpu else self.settings.global_batch_size
        )
        return math.ceil(samples / math.ceil(samples / most))

    def loss(self, model: NeuMF, batch: Inputs) -> Tensor:
        """Return the binary cross-entropy, multiplied by the sample weights and summed."""
        F, logits = model.F, model(batch["rows"])
        terms = F.Activation(logits, act_type="softrelu") - logits * _column(F, batch["targets"], 0)
        return F.sum(terms * _column(F, batch["targets"], 1))

    def outputs(self, model: NeuMF, batch: Inputs) -> Mapping[str, Tensor]:
        """Return the `logits` (U · C,) of the (user, candidate) pairs."""
        return {"logits": model(batch["rows"])}

    def run_outputs(self, batch: Batch, replica: int) -> dict[str, list[mx.nd.NDArray]]:
        """Return the `logits` (U, C) of each user's candidates."""
        logits = super().run_outputs(batch, replica)["logits"]
        return {"logits": [mx.nd.concat(*logits, dim=0).reshape(batch.arrays["item"].shape)]}
