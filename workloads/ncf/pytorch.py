"""NeuMF in PyTorch.

Shapes: B samples of a piece, F = GMF factors, E = MLP embedding, U users and C candidates of an evaluation batch.
All parameters are views of one flat vector, all gradients of another: one fused Adam update, one all-reduce. Embedding
rows are gathered, differentiated as leaves and scatter-added into the dense gradient, so no dense gradient is allocated
per step. On a CPU the batch is cut into pieces that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.distributed as dist
import torch.nn.functional as F

from workloads.api import Array, Arrays, Batch, Place, Workload
from workloads.frameworks.pytorch.linear import linear
from workloads.frameworks.pytorch.trainer import PyTorchTrainer
from workloads.ncf import weights as neumf

CPU_PIECE = 4_096
"""Samples whose activations fit a core's cache; larger pieces spend their time on fresh memory pages."""
EMBEDDINGS = ("gmf_user", "gmf_item", "mlp_user", "mlp_item")


class NCFTrainer(PyTorchTrainer):
    """NeuMF on one device."""

    def __init__(self, workload: Workload, place: Place) -> None:
        super().__init__(workload, place)
        sizes, model = workload.facts.sizes, self.settings.model
        self.shapes = neumf.shapes(sizes["users"], sizes["items"], model)
        self.layers = len(neumf.layer_sizes(model))
        self.piece = CPU_PIECE if self.device.type == "cpu" else self.settings.batch_size_global

    def setup(self, weights: Iterable[tuple[str, Array]], warm_up: bool = True) -> None:
        """Allocate, warm up on made-up samples, then load the weights and reset the optimizer."""
        size = sum(int(torch.Size(shape).numel()) for shape in self.shapes.values())
        self.flat = torch.zeros(size, device=self.device)
        self.gradient = torch.zeros(size, device=self.device)
        self.parameters = self._views(self.flat)
        self.gradients = self._views(self.gradient)
        for name, parameter in self.parameters.items():
            if name not in EMBEDDINGS:
                parameter.requires_grad_()
                parameter.grad = self.gradients[name]
        values = self.settings.hyperparameters
        self.flat.grad = self.gradient
        betas = (float(values["beta1"]), float(values["beta2"]))
        self.adam = torch.optim.Adam([self.flat], lr=0.0, betas=betas, eps=float(values["epsilon"]), fused=True)
        if warm_up:
            self._warm_up()
        for name, value in weights:
            with torch.no_grad():
                self.parameters[name].copy_(torch.from_numpy(value))
        self.adam.state.clear()
        self.gradient.zero_()

    def _views(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """Name to its part of a flat vector, in its shape."""
        parts = flat.split([int(torch.Size(shape).numel()) for shape in self.shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def _warm_up(self) -> None:
        for shape in self.workload.shapes():
            arrays = {
                name: torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype)).numpy() for name, spec in shape.items()
            }
            self.step(Batch(arrays, 1.0, 1.0, 1), learning_rate=0.0)

    # -- model ----------------------------------------------------------------------------------------------------

    def logits(self, rows: dict[str, torch.Tensor]) -> torch.Tensor:
        """fp32 logits (B,) from gathered embedding rows: GMF (B, F) and MLP (B, E); the output layer is fp32 always (ties)."""
        with self.autocast():
            hidden = torch.cat([rows["mlp_user"], rows["mlp_item"]], dim=-1)
            for layer in range(self.layers):
                weight, bias = self.parameters[f"mlp.{layer}.weight"], self.parameters[f"mlp.{layer}.bias"]
                hidden = linear(hidden, weight, bias, relu=True)
        both = torch.cat([rows["gmf_user"] * rows["gmf_item"], hidden.float()], dim=-1)
        return linear(both, self.parameters["output.weight"], self.parameters["output.bias"]).squeeze(-1)

    def gather_rows(self, user: torch.Tensor, item: torch.Tensor) -> dict[str, torch.Tensor]:
        """Embedding rows of users and items, (..., F) and (..., E)."""
        ids = {"user": user, "item": item}
        return {name: F.embedding(ids[name[4:]], self.parameters[name]) for name in EMBEDDINGS}

    # -- training -------------------------------------------------------------------------------------------------

    def step(self, batch: Batch, learning_rate: float) -> torch.Tensor:
        """Forward, backward, all-reduce, Adam."""
        self.gradient.zero_()
        arrays = {name: self.to_device(array) for name, array in batch.arrays.items()}
        total = torch.zeros((), device=self.device)
        for piece in zip(
            *(arrays[name].split(self.piece) for name in ("user", "item", "label", "weight")), strict=True
        ):
            total += self._backward(*piece, batch.weight_global)
        if self.place.processes > 1:
            dist.all_reduce(self.gradient)
        self.adam.param_groups[0]["lr"] = learning_rate
        self.adam.step()
        return total

    def _backward(
        self, user: torch.Tensor, item: torch.Tensor, label: torch.Tensor, weight: torch.Tensor, weight_global: float
    ) -> torch.Tensor:
        """Add the gradient of one piece to the flat gradient; returns its part of the loss."""
        ids = {"user": user.long(), "item": item.long()}
        with torch.no_grad():
            rows = self.gather_rows(ids["user"], ids["item"])
        for row in rows.values():
            row.requires_grad_()
        loss = self._loss(rows, label, weight, weight_global)
        loss.backward()
        for name, row in rows.items():
            assert row.grad is not None
            index = ids[name[4:]].unsqueeze(1).expand_as(row)
            self.gradients[name].scatter_add_(0, index, row.grad)
        return loss.detach()

    def _loss(
        self, rows: dict[str, torch.Tensor], label: torch.Tensor, weight: torch.Tensor, weight_global: float
    ) -> torch.Tensor:
        """Binary cross-entropy with logits, summed over the samples' weights, over the global weight."""
        terms = F.binary_cross_entropy_with_logits(self.logits(rows), label, weight, reduction="sum")
        return terms / weight_global

    def loss(self, batch: Batch) -> torch.Tensor:
        """Loss of a batch without an update."""
        arrays = {name: self.to_device(array) for name, array in batch.arrays.items()}
        rows = self.gather_rows(arrays["user"], arrays["item"])
        return self._loss(rows, arrays["label"], arrays["weight"], batch.weight_global)

    # -- evaluation and state -------------------------------------------------------------------------------------

    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Logits (U, C) of every user's candidates.

        The MLP's first layer is linear in [user ; item], so its item half is computed once for every item of the data set
        instead of once for every candidate: the same sums, less than half of the arithmetic.
        """
        with torch.inference_mode():
            item_half = self._item_half()
            for (batch,) in batches:
                user, item = self.to_device(batch.arrays["user"]), self.to_device(batch.arrays["item"])
                step = max(1, self.piece // item.shape[1])
                parts = [self._score(u, i, item_half) for u, i in zip(user.split(step), item.split(step), strict=True)]
                yield batch, {"logits": torch.cat(parts).cpu().numpy()}

    def _item_half(self) -> torch.Tensor:
        """(items, outputs of the first layer): the items' share of its sums, bias included."""
        weight, bias = self.parameters["mlp.0.weight"], self.parameters["mlp.0.bias"]
        table = self.parameters["mlp_item"]
        with self.autocast():
            return linear(table, weight[:, -table.shape[1] :], bias)

    def _score(self, user: torch.Tensor, item: torch.Tensor, item_half: torch.Tensor) -> torch.Tensor:
        """fp32 logits (U, C) of users (U,) and their candidates (U, C)."""
        p = self.parameters
        with self.autocast():
            user_rows = F.embedding(user, p["mlp_user"])
            user_half = F.linear(user_rows, p["mlp.0.weight"][:, : user_rows.shape[1]])
            hidden = F.embedding(item, item_half).add_(user_half.unsqueeze(1)).relu_().flatten(0, 1)
            for layer in range(1, self.layers):
                hidden = linear(hidden, p[f"mlp.{layer}.weight"], p[f"mlp.{layer}.bias"], relu=True)
        gmf_weight, mlp_weight = p["output.weight"].split([p["gmf_user"].shape[1], hidden.shape[1]], dim=1)
        gmf = torch.bmm(F.embedding(item, p["gmf_item"]), (F.embedding(user, p["gmf_user"]) * gmf_weight).unsqueeze(2))
        mlp = linear(hidden.float(), mlp_weight, p["output.bias"])
        return (gmf + mlp.view_as(gmf)).squeeze(2)

    def state(self) -> dict[str, Array]:
        """Parameters by name, Adam's moments as flat vectors, its step count."""
        found = {name: value.detach().cpu().numpy().copy() for name, value in self.parameters.items()}
        adam = self.adam.state.get(self.flat, {})
        for key in ("exp_avg", "exp_avg_sq"):
            moment = adam.get(key, torch.zeros_like(self.flat))
            found[f"adam.{key}"] = moment.cpu().numpy().copy()
        found["adam.step"] = torch.as_tensor(adam.get("step", 0.0)).cpu().numpy().reshape(1).copy()
        return found

    def load_state(self, state: Arrays) -> None:
        """Inverse of `state`."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(torch.from_numpy(state[name]))
        self.adam.state[self.flat] = {
            "step": torch.tensor(float(state["adam.step"][0]), device=self.device),
            "exp_avg": torch.tensor(
                state["adam.exp_avg"], device=self.device
            ),  # a copy: training must not reach `state`
            "exp_avg_sq": torch.tensor(state["adam.exp_avg_sq"], device=self.device),
        }
