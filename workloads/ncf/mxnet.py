"""NeuMF in MXNet.

Shapes: B samples of a piece, F = GMF factors, E = MLP embedding, U users and C candidates of an evaluation batch.
On each context all parameters are views of one flat vector and all gradients of another, into which the hybridized
graph adds its gradients: nothing is allocated per step, and one Adam and one reduction serve all. On a CPU the batch is
cut into pieces, which bounds the memory of activations. The two MLP tables lie one behind the other, so that one gather
with row numbers (B, 2) yields the concatenated input (B, 2 E): MXNet's own concatenation takes as long as a linear layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import mxnet as mx
import numpy as np

from workloads.api import Array, Arrays, Batch, Place, Workload
from workloads.frameworks.mxnet.trainer import MXNetTrainer, ShardedAdam, memory_errors, views
from workloads.ncf import weights as neumf

CPU_PIECE = 32_768
"""Samples per core and piece; measured at ML-20M's counts on two cores: 65,536 at once best, 16,384 7 % slower, 4,096 20 %."""


def graph(shapes: dict[str, tuple[int, ...]], training: bool) -> mx.sym.Symbol:
    """Logits (B,), or under `training` the weighted sum of their binary cross-entropies (1,), as a symbol.

    Inputs: rows (B, 2) int32 = user and users + item, targets (B, 2) float32 = label and weight / weight_global;
    parameters by canonical name, but `mlp_tables` for mlp_user on top of mlp_item.
    """
    variables = {name: mx.sym.var(name) for name in ("mlp_tables", *shapes)}
    rows, targets = mx.sym.var("rows"), mx.sym.var("targets")
    (users, factors), width = shapes["gmf_user"], 2 * shapes["mlp_user"][1]

    def gather(table: str, ids: mx.sym.Symbol) -> mx.sym.Symbol:
        return mx.sym.take(variables[table], ids, axis=0, mode="clip")

    hidden = gather("mlp_tables", rows).reshape((-1, width))
    for name in (name for name in shapes if name.startswith("mlp.") and name.endswith(".weight")):
        bias = variables[name.replace("weight", "bias")]
        hidden = mx.sym.FullyConnected(hidden, variables[name], bias, num_hidden=shapes[name][0])
        hidden = mx.sym.Activation(hidden, act_type="relu")
    product = gather("gmf_user", _column(rows, 0)) * gather("gmf_item", _column(rows, 1) - users)
    # The output layer's two halves, again without a concatenation.
    of_product = mx.sym.slice_axis(variables["output.weight"], axis=1, begin=0, end=factors)
    of_hidden = mx.sym.slice_axis(variables["output.weight"], axis=1, begin=factors, end=None)
    logits = mx.sym.FullyConnected(hidden, of_hidden, variables["output.bias"], num_hidden=1)
    logits = logits + mx.sym.FullyConnected(product, of_product, num_hidden=1, no_bias=True)
    logits = logits.reshape((-1,))
    if not training:
        return logits
    terms = mx.sym.Activation(logits, act_type="softrelu") - logits * _column(targets, 0)
    return mx.sym.sum(terms * _column(targets, 1))


def _column(pairs: mx.sym.Symbol, number: int) -> mx.sym.Symbol:
    """One column (B,) of (B, 2)."""
    return mx.sym.slice_axis(pairs, axis=1, begin=number, end=number + 1).reshape((-1,))


class Replica:
    """Weights and gradients on one context."""

    def __init__(self, shapes: dict[str, tuple[int, ...]], context: mx.Context) -> None:
        size = sum(int(np.prod(shape)) for shape in shapes.values())
        self.context = context
        self.flat = mx.nd.zeros((size,), ctx=context)
        self.gradient = mx.nd.zeros((size,), ctx=context)
        self.parameters = views(self.flat, shapes)
        self.arguments, gradients = _with_tables(self.flat, shapes), _with_tables(self.gradient, shapes)
        mx.autograd.mark_variables(list(self.arguments.values()), list(gradients.values()), grad_reqs="add")


class NCFTrainer(MXNetTrainer):
    """NeuMF on every device of this process."""

    def __init__(self, workload: Workload, place: Place) -> None:
        super().__init__(workload, place)
        sizes, model = workload.facts.sizes, self.settings.model
        self.users = sizes["users"]
        self.shapes = neumf.shapes(self.users, sizes["items"], model)
        on_cpu = self.contexts[0].device_type == "cpu"
        self.piece = CPU_PIECE * place.cores_per_device if on_cpu else self.settings.batch_size_global
        self.graphs = {training: graph(self.shapes, training) for training in (False, True)}
        self.inputs = {training: symbol.list_inputs() for training, symbol in self.graphs.items()}

    def setup(self, weights: Iterable[tuple[str, Array]], warm_up: bool = True) -> None:
        """Allocate, warm up on made-up samples, then load the weights and reset the optimizer."""
        self.programs: dict[tuple[bool, int], mx.nd.CachedOp] = {}
        with memory_errors():
            self.replicas = [Replica(self.shapes, context) for context in self.contexts]
            values = self.settings.hyperparameters
            betas = (float(values["beta1"]), float(values["beta2"]))
            flats, gradients = ([getattr(one, name) for one in self.replicas] for name in ("flat", "gradient"))
            self.adam = ShardedAdam(flats, gradients, betas, float(values["epsilon"]))
            if warm_up:
                self._warm_up()
            for name, value in weights:
                for replica in self.replicas:
                    replica.parameters[name][:] = value
            self.adam.reset()
            mx.nd.waitall()

    def _warm_up(self) -> None:
        for shape in self.workload.shapes():
            batch = Batch({name: np.zeros(spec.shape, spec.dtype) for name, spec in shape.items()}, 1.0, 1.0, 1)
            self.step([batch] * len(self.replicas), learning_rate=0.0)

    # -- model ----------------------------------------------------------------------------------------------------

    def program(self, training: bool, size: int) -> mx.nd.CachedOp:
        """The graph for pieces of `size` samples, with its memory planned once."""
        if (training, size) not in self.programs:
            fixed = [name in self.replicas[0].arguments for name in self.inputs[training]]
            flags = {
                "data_indices": tuple(np.flatnonzero(np.logical_not(fixed)).tolist()),
                "param_indices": tuple(np.flatnonzero(fixed).tolist()),
                "static_alloc": True,
                "static_shape": True,
            }
            self.programs[training, size] = mx.nd.CachedOp(self.graphs[training], list(flags.items()))
        return self.programs[training, size]

    def pieces(
        self, replica: Replica, arrays: Arrays, weight_global: float = 0.0
    ) -> Iterator[tuple[mx.nd.CachedOp, list[mx.nd.NDArray]]]:
        """The calls (program, inputs) that compute a batch: each gives logits (B,), or with a weight a part of the loss."""
        training = weight_global > 0
        host = {"rows": np.stack([arrays["user"], arrays["item"] + np.int32(self.users)], axis=1)}
        if training:
            host["targets"] = np.stack([arrays["label"], arrays["weight"] / np.float32(weight_global)], axis=1)
        loaded = {name: self.to_device(array, replica.context) for name, array in host.items()}
        total = len(host["rows"])
        size = -(-total // -(-total // self.piece))
        for first in range(0, total, size):
            stop = min(first + size, total)
            inputs = {**replica.arguments, **{name: array[first:stop] for name, array in loaded.items()}}
            yield self.program(training, stop - first), [inputs[name] for name in self.inputs[training]]

    # -- training -------------------------------------------------------------------------------------------------

    def step(self, batches: list[Batch], learning_rate: float) -> list[mx.nd.NDArray]:
        """Forward and backward on every context, reduction, Adam."""
        losses = [self._backward(*pair) for pair in zip(self.replicas, batches, strict=True)]
        self.adam.step(learning_rate)
        return losses

    def _backward(self, replica: Replica, batch: Batch) -> mx.nd.NDArray:
        """Fill the flat gradient from one replica's batch; returns its part of the loss."""
        mx.nd.zeros_like(replica.gradient, out=replica.gradient)
        losses = []
        for program, inputs in self.pieces(replica, batch.arrays, batch.weight_global):
            with mx.autograd.record():
                loss = program(*inputs)
            loss.backward()
            losses.append(loss.detach())
        return mx.nd.add_n(*losses)

    def loss(self, batches: list[Batch]) -> list[mx.nd.NDArray]:
        """Losses of the replicas without an update."""
        losses = []
        for replica, batch in zip(self.replicas, batches, strict=True):
            calls = self.pieces(replica, batch.arrays, batch.weight_global)
            losses.append(mx.nd.add_n(*[program(*inputs) for program, inputs in calls]))
        return losses

    # -- evaluation and state -------------------------------------------------------------------------------------

    def outputs(self, batch: Batch, replica: int) -> dict[str, list[mx.nd.NDArray]]:
        """Logits (U, C) of every user's candidates."""
        user, item = batch.arrays["user"], batch.arrays["item"]
        pairs = {"user": np.repeat(user, item.shape[1]), "item": item.reshape(-1)}
        logits = [program(*inputs) for program, inputs in self.pieces(self.replicas[replica], pairs)]
        return {"logits": [mx.nd.concat(*logits, dim=0).reshape(item.shape)]}

    def state(self) -> dict[str, Array]:
        """Parameters by name, Adam's moments as flat vectors, its step count."""
        with memory_errors():
            return {**{name: view.asnumpy() for name, view in self.replicas[0].parameters.items()}, **self.adam.state()}

    def load_state(self, state: Arrays) -> None:
        """Inverse of `state`."""
        for replica in self.replicas:
            for name, parameter in replica.parameters.items():
                parameter[:] = state[name]
        self.adam.load_state(state)


def _with_tables(flat: mx.nd.NDArray, shapes: dict[str, tuple[int, ...]]) -> dict[str, mx.nd.NDArray]:
    """The same, with `mlp_tables` (users + items, E) in place of the two MLP tables, which lie one behind the other."""
    merged: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        if name == "mlp_user":
            merged["mlp_tables"] = (shape[0] + shapes["mlp_item"][0], shape[1])
        elif name != "mlp_item":
            merged[name] = shape
    return views(flat, merged)
