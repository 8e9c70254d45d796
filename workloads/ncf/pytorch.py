"""NeuMF in PyTorch.

The shapes use these symbols: B samples of a chunk, F GMF factors, E columns of the MLP embedding, U
users and C candidates of an evaluation batch.

All parameters are views of one flat vector, and all gradients are views of a second flat vector. A
step therefore needs only one fused Adam update, and on CPUs only one all-reduce. A step gathers
embedding rows, computes the gradients of these rows, and scatter-adds the row gradients to the
existing dense gradient. No step allocates a dense gradient. On a CPU, a batch is split into chunks
that fit into the cache. On GPUs, the all-reduce of each embedding table begins when the table's
gradient is complete.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.api import Arrays, Batch, GradientAllReduceInfo, WorkerContext
from workloads.frameworks.pytorch.linear import linear
from workloads.frameworks.pytorch.model import ModelTrainer
from workloads.frameworks.pytorch.optimizers import Optimizer, build_optimizer
from workloads.frameworks.pytorch.server import views
from workloads.frameworks.pytorch.side_by_side import SideBySide
from workloads.ncf import weights as neumf
from workloads.ncf.samples.pytorch import Sampler
from workloads.ncf.workload import NCF

CPU_PIECE = 4_096
"""Number of samples per chunk on a CPU core.

With this number of samples, the activations fit into the cache. Larger chunks are slower, because
they allocate new memory pages.
"""
GPU_SCORES = 1 << 20
"""Number of scores per chunk of an evaluation batch on a GPU."""
EMBEDDINGS = ("gmf_user", "gmf_item", "mlp_user", "mlp_item")


class Layer(nn.Module):
    """Linear layer with weight (outputs, inputs) and bias (outputs,)."""

    def __init__(self, tensors: Mapping[str, Tensor], name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(tensors[f"{name}.weight"])
        self.bias = nn.Parameter(tensors[f"{name}.bias"])

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        """Apply the layer to x (…, inputs), and return (…, outputs)."""
        return linear(x, self.weight, self.bias, relu)


class NeuMF(nn.Module):
    """NeuMF on tensors by parameter name.

    The embedding tables have `requires_grad=False`, because the trainer computes gradients only for
    the gathered rows.
    """

    def __init__(self, tensors: Mapping[str, Tensor], layers: int) -> None:
        super().__init__()
        for name in EMBEDDINGS:
            self.register_parameter(name, nn.Parameter(tensors[name], requires_grad=False))
        self.mlp = nn.ModuleList(Layer(tensors, f"mlp.{number}") for number in range(layers))
        self.output = Layer(tensors, "output")

    def rows(self, user: Tensor, item: Tensor) -> dict[str, Tensor]:
        """Return the embedding rows of users and items, (…, F) and (…, E)."""
        ids = {"user": user, "item": item}
        return {name: F.embedding(ids[name[4:]], getattr(self, name)) for name in EMBEDDINGS}


@dataclass(frozen=True)
class Piece:
    """Chunk of a batch. Each tensor is (B,), and users and items are int64."""

    user: Tensor
    item: Tensor
    label: Tensor
    weight: Tensor
    global_weight_sum: float


class NCFTrainer(ModelTrainer):
    """NCF trainer for one device."""

    workload: NCF
    model: NeuMF

    def __init__(self, workload: NCF, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        sizes, model = workload.dataset_info.sizes, self.settings.model
        self.shapes = neumf.shapes(sizes["users"], sizes["items"], model)
        self.layers = len(neumf.layer_sizes(model))
        on_cpu = self.device.type == "cpu"
        # Each core gets a thread, even if other processes use some of the cores. Idle threads then
        # process the remaining chunks.
        chosen = self.settings.threads_per_device == "auto"
        threads = worker.cores_per_device if chosen else worker.threads_per_device
        self.side_by_side = SideBySide(threads if on_cpu else 1)
        self.piece = self._piece_size() if on_cpu else self.settings.global_batch_size
        self.sums_by_table = not on_cpu and worker.world_size > 1
        """Whether the all-reduce of a table overlaps the gradient computation of the remaining
        tables.

        The all-reduces overlap only on GPUs. On a CPU, the all-reduce would compete with the
        gradient computation for cores.
        """
        self.sampler: Sampler | None = None
        """Sampler on the device, or None if the host draws the samples.

        The first step creates the sampler.
        """

    @property
    def threads_per_device(self) -> int:
        return self.side_by_side.count if self.device.type == "cpu" else super().threads_per_device

    def _piece_size(self) -> int:
        """Return the number of samples per chunk, at most `CPU_PIECE`.

        All cores get the same number of chunks.
        """
        cores = self.side_by_side.count
        samples = math.ceil(self.settings.global_batch_size / self.settings.devices)
        rounds = math.ceil(samples / (CPU_PIECE * cores))
        return CPU_PIECE if cores == 1 else math.ceil(samples / (rounds * cores))

    def build(self) -> nn.Module:
        size = sum(map(math.prod, self.shapes.values()))
        self.flat, self.gradient = (torch.zeros(size, device=self.device) for _ in range(2))
        self.flat.grad = self.gradient
        self.by_name = views(self.gradient, self.shapes)
        model = NeuMF(views(self.flat, self.shapes), self.layers)
        layers = {
            name: parameter
            for name, parameter in model.named_parameters()
            if name not in EMBEDDINGS
        }
        for name, parameter in layers.items():
            parameter.grad = self.by_name[name]
        self.layer_parameters = list(layers.values())
        return model

    def build_optimizer(self) -> Optimizer:
        """Build the optimizer of the flat vector.

        All parameters of the workload have the same update rule.
        """
        (rule,) = {self.workload.parameter_rule(name) for name in self.shapes}
        return build_optimizer({"flat": self.flat}, lambda _: rule, self.updates)

    def distribute(self) -> None:
        """Return None, because `backward` reduces the flat gradient without a wrapped model."""
        return None

    # -- model
    # ----------------------------------------------------------------------------------------------

    def logits(self, model: nn.Module, rows: Mapping[str, Tensor]) -> Tensor:
        """Return logits (B,) from embedding rows: GMF (B, F) and MLP (B, E).

        The output layer always uses fp32, because lower precisions produce many equal scores.
        """
        with self.autocast():
            hidden = torch.cat([rows["mlp_user"], rows["mlp_item"]], dim=-1)
            for layer in model.mlp:
                hidden = layer(hidden, relu=True)
        both = torch.cat([rows["gmf_user"] * rows["gmf_item"], hidden.float()], dim=-1)
        return model.output(both).squeeze(-1)

    def device_arrays(self, batch: Batch, training: bool) -> dict[str, Tensor]:
        """Return `user`, `item`, `label`, `weight` of a training batch.

        The arrays are copied to the device or generated on the device.
        """
        arrays = {name: self.to_device(array) for name, array in batch.arrays.items()}
        if "draw" not in arrays:
            return arrays
        if self.sampler is None:
            assert self.workload.data is not None, "batches come from opened data"
            self.sampler = Sampler.of(self.workload.data, self.device)
        return self.sampler(**arrays, count=-(-batch.global_samples // self.worker.num_replicas))

    def loss(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the binary cross-entropy, multiplied by the sample weights and summed."""
        return self.entropy(
            model, model.rows(batch["user"], batch["item"]), batch["label"], batch["weight"]
        )

    def entropy(
        self, model: nn.Module, rows: Mapping[str, Tensor], label: Tensor, weight: Tensor
    ) -> Tensor:
        """Return the loss for gathered embedding rows."""
        return F.binary_cross_entropy_with_logits(
            self.logits(model, rows), label, weight, reduction="sum"
        )

    # -- training
    # ----------------------------------------------------------------------------------------------

    def backward(self, batch: Batch) -> Tensor:
        """Add the gradient of a batch to the flat gradient, and return the loss.

        The gradient is summed over replicas (all-reduce).

        On a CPU, the batch is computed in chunks that fit into the cache.
        """
        arrays = self.device_arrays(batch, training=True)
        total = torch.zeros((), device=self.device)
        cut = (arrays[name].split(self.piece) for name in ("user", "item", "label", "weight"))
        pieces = [
            Piece(user.long(), item.long(), label, weight, batch.global_weight_sum)
            for user, item, label, weight in zip(*cut, strict=True)
        ]
        under_way: list[dist.Work] = []
        for first in range(0, len(pieces), self.side_by_side.count):
            group = pieces[first : first + self.side_by_side.count]
            last = self.sums_by_table and first + len(group) == len(pieces)
            for loss in self._add(
                group,
                self.side_by_side.map(self._differentiate, group),
                under_way if last else None,
            ):
                total += loss
        if self.worker.world_size > 1 and not self.sums_by_table:
            dist.all_reduce(self.gradient)
        for work in under_way:
            work.wait()
        return total

    def _differentiate(self, piece: Piece) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the loss of a chunk and the gradients of the chunk.

        The gradients of the four tables' rows come first, followed by the gradients of the layers.

        The method changes no attribute of the trainer.
        """
        with torch.no_grad():
            rows = self.model.rows(piece.user, piece.item)
        for row in rows.values():
            row.requires_grad_()
        loss = self.entropy(self.model, rows, piece.label, piece.weight) / piece.global_weight_sum
        gradients = torch.autograd.grad(
            self.scaler.scaled(loss), [*rows.values(), *self.layer_parameters]
        )
        return loss.detach(), gradients

    def _add(
        self,
        pieces: Sequence[Piece],
        done: Sequence[tuple[Tensor, tuple[Tensor, ...]]],
        under_way: list[dist.Work] | None,
    ) -> list[Tensor]:
        """Add the gradients of chunks to the flat gradient and return the losses.

        The order of additions is fixed, because a single thread processes each table. If
        `under_way` is a list, the all-reduce of each table starts as soon as the table's gradient
        is complete. The handle of the all-reduce is appended to the list.
        """

        def complete(part: Tensor) -> None:
            if under_way is not None:
                under_way.append(dist.all_reduce(part, async_op=True))

        def scatter(number: int) -> None:
            name = EMBEDDINGS[number]
            for piece, (_, gradients) in zip(pieces, done, strict=True):
                ids = piece.user if name.endswith("user") else piece.item
                index = ids.unsqueeze(1).expand_as(gradients[number])
                self.by_name[name].scatter_add_(0, index, gradients[number])
            complete(self.by_name[name])

        for _, gradients in done:
            for parameter, gradient in zip(
                self.layer_parameters, gradients[len(EMBEDDINGS) :], strict=True
            ):
                assert parameter.grad is not None
                parameter.grad += gradient
        complete(
            self.gradient[sum(self.by_name[name].numel() for name in EMBEDDINGS) :]
        )  # The gradients of the tables come first.
        self.side_by_side.map(scatter, range(len(EMBEDDINGS)))
        return [loss for loss, _ in done]

    def gradients(self) -> list[Tensor]:
        return [self.gradient]

    def clear_gradients(self) -> None:
        """Set the flat gradient to 0."""
        self.gradient.zero_()

    def gradient_all_reduce_info(self) -> GradientAllReduceInfo:
        """Return the size of a step's all-reduce, and its numbers of tensors and buckets.

        On CPUs, a single all-reduce sums the whole flat gradient, including the tables. With
        several GPUs, the layers and each table have separate all-reduces.
        """
        size = self.gradient.numel() * self.gradient.element_size()
        return GradientAllReduceInfo(
            size, len(self.by_name), 1 + len(EMBEDDINGS) if self.sums_by_table else 1
        )

    # -- evaluation
    # ----------------------------------------------------------------------------------------------

    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Yield each batch with the logits (U, C) of its users' candidates.

        The first layer of the MLP is linear in [user ; item]. The item half of this layer is
        therefore computed once for each item of the data set, instead of once for each candidate.
        The logits are the same, but the computation needs less than half of the operations.
        """
        with torch.inference_mode():
            first, table = self.model.mlp[0], self.model.mlp_item
            with (
                self.autocast()
            ):  # Item terms of the sums (items, outputs of the first layer), including the bias.
                item_half = linear(table, first.weight[:, -table.shape[1] :], first.bias)
            for (batch,) in batches:
                user, item = (
                    self.to_device(batch.arrays["user"]),
                    self.to_device(batch.arrays["item"]),
                )
                step = max(
                    1, (CPU_PIECE if self.device.type == "cpu" else GPU_SCORES) // item.shape[1]
                )
                pairs = list(zip(user.split(step), item.split(step), strict=True))
                parts = self.side_by_side.map(lambda pair: self._score(*pair, item_half), pairs)
                yield batch, {"logits": torch.cat(parts).cpu().numpy()}

    @torch.inference_mode()  # Inference mode is set per thread, like autocast.
    def _score(self, user: Tensor, item: Tensor, item_half: Tensor) -> Tensor:
        """Return fp32 logits (U, C) of users (U,) and their candidates (U, C)."""
        model = self.model
        with self.autocast():
            user_rows = F.embedding(user, model.mlp_user)
            user_half = F.linear(user_rows, model.mlp[0].weight[:, : user_rows.shape[1]])
            hidden = F.embedding(item, item_half).add_(user_half.unsqueeze(1)).relu_().flatten(0, 1)
            for layer in model.mlp[1:]:
                hidden = layer(hidden, relu=True)
        gmf_weight, mlp_weight = model.output.weight.split(
            [model.gmf_user.shape[1], hidden.shape[1]], dim=1
        )
        user_gmf = F.embedding(user, model.gmf_user) * gmf_weight
        gmf = torch.bmm(F.embedding(item, model.gmf_item), user_gmf.unsqueeze(2))
        mlp = linear(hidden.float(), mlp_weight, model.output.bias)
        return (gmf + mlp.view_as(gmf)).squeeze(2)
