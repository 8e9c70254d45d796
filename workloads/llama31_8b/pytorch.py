"""Llama 3.1 in PyTorch, with replicated or sharded parameters.

Shapes: B sequences of a replica, S tokens, H values of a token, V words. With sharded parameters,
FSDP2 (`fully_shard`) gathers the parameters of a layer when they are needed, and sums the gradients
over the replicas. The optimizer updates each replica's rows in fp32.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from workloads.api import Array, Arrays, Batch, GradientAllReduceInfo, WorkerContext
from workloads.common.optimizers import SLOTS
from workloads.frameworks.pytorch.copies import download
from workloads.frameworks.pytorch.graphs import Rate
from workloads.frameworks.pytorch.model import ModelTrainer
from workloads.frameworks.pytorch.optimizers import Optimizer, build_optimizer
from workloads.llama31_8b.network import Network
from workloads.llama31_8b.settings import RMS_NORM_EPSILON
from workloads.llama31_8b.workload import Llama


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Return x / √(mean(x²) + ε), multiplied by the weights."""
        return F.rms_norm(x, self.weight.shape, self.weight, RMS_NORM_EPSILON)


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotate the pairs (i, i + half) of the values of each head.

    Args:
        x: (B, heads, S, head_size).
        cosines: (S, head_size / 2).
        sines: (S, head_size / 2).
    """
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1)


class Attention(nn.Module):
    """Causal attention with grouped queries: several query heads share a key and value head."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.norm = Norm(network.hidden)
        self.query_key_value = nn.Linear(network.hidden, sum(network.split), bias=False)
        self.output = nn.Linear(network.heads * network.head_size, network.hidden, bias=False)

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        """Return x plus the attention's output, (B, S, H)."""
        parts = self.query_key_value(self.norm(x)).split(self.network.split, -1)
        query, key, value = (
            part.unflatten(-1, (-1, self.network.head_size)).transpose(1, 2) for part in parts
        )
        attended = F.scaled_dot_product_attention(
            rotate(query, cosines, sines),
            rotate(key, cosines, sines),
            value,
            is_causal=True,
            enable_gqa=True,
        )
        merged: Tensor = self.output(attended.transpose(1, 2).flatten(2))
        return x + merged


class FeedForward(nn.Module):
    """SwiGLU: down(silu(gate(x)) · up(x))."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.norm = Norm(network.hidden)
        self.gate_up = nn.Linear(network.hidden, 2 * network.feed_forward, bias=False)
        self.down = nn.Linear(network.feed_forward, network.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return x plus the output of the feed-forward layer, (B, S, H)."""
        gate, up = self.gate_up(self.norm(x)).chunk(2, -1)
        down: Tensor = self.down(F.silu(gate) * up)
        return x + down


class Layer(nn.Module):
    """Attention and feed-forward layer."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.attention = Attention(network)
        self.feed_forward = FeedForward(network)

    def forward(self, x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        """Return the layer's output, (B, S, H)."""
        out: Tensor = self.feed_forward(self.attention(x, cosines, sines))
        return out


class LanguageModel(nn.Module):
    """Llama that returns losses instead of logits.

    The logits of at most `chunk` tokens exist at the same time. The backward pass computes them
    again.
    """

    def __init__(self, network: Network, chunk: int, recompute: bool) -> None:
        super().__init__()
        self.network, self.chunk, self.recompute = network, chunk, recompute
        self.embedding = nn.Embedding(network.vocabulary, network.hidden)
        for number in range(1, network.layers + 1):
            setattr(self, f"layer{number}", Layer(network))
        self.norm = Norm(network.hidden)
        self.classifier = nn.Linear(network.hidden, network.vocabulary, bias=False)
        self.rotations: tuple[Tensor, Tensor] | None = None

    @property
    def layers(self) -> list[nn.Module]:
        """Return the layers in their order."""
        return [getattr(self, f"layer{number}") for number in range(1, self.network.layers + 1)]

    def forward(self, tokens: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of -log p of the labels of each sequence, (B,) fp32.

        Args:
            tokens: (B, S) int64 tokens.
            labels: (B, S) int64 next tokens.
        """
        x = self.embedding(tokens)
        cosines, sines = (part.to(x.dtype) for part in self._rotations(tokens))
        for layer in self.layers:
            if self.recompute and torch.is_grad_enabled():
                x = checkpoint(layer, x, cosines, sines, use_reentrant=False)
            else:
                x = layer(x, cosines, sines)
        x = self.norm(x)
        pieces = zip(x.split(self._rows(x), 1), labels.split(self._rows(x), 1), strict=True)
        chunks = [
            checkpoint(self._losses, *piece, use_reentrant=False)
            if torch.is_grad_enabled()
            else self._losses(*piece)
            for piece in pieces
        ]
        return torch.stack(chunks).sum(0)

    def _rows(self, x: Tensor) -> int:
        """Return the number of positions of all sequences whose logits exist at the same time."""
        return max(1, self.chunk // x.shape[0])

    def _losses(self, x: Tensor, labels: Tensor) -> Tensor:
        """Return the sum of -log p over some positions of each sequence, (B,)."""
        logits = self.classifier(x).float()
        terms = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        return terms.view(labels.shape).sum(1)

    def _rotations(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines, (S, head_size / 2), on the device of the tokens."""
        if self.rotations is None or self.rotations[0].device != tokens.device:
            cosines, sines = (
                torch.from_numpy(array).to(tokens.device) for array in self.network.rotations()
            )
            self.rotations = cosines, sines
        cosines, sines = self.rotations
        return cosines[: tokens.shape[1]], sines[: tokens.shape[1]]


class LlamaTrainer(ModelTrainer):
    """Llama on one device of each process."""

    inputs = ("token", "label")
    evaluation_inputs = ("token", "label")
    workload: Llama

    def __init__(self, workload: Llama, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.state_is_sharded = workload.shards and worker.world_size > 1
        self.local: dict[str, Tensor] = {}
        """This replica's rows of each sharded parameter. The optimizer updates these tensors."""

    def build(self) -> nn.Module:
        options = self.workload.options
        arguments = self.workload.network, options.loss_chunk_tokens, options.recompute
        if not self.state_is_sharded:
            return LanguageModel(*arguments)
        with torch.device("meta"):
            model = LanguageModel(*arguments)
        mesh = init_device_mesh(self.device.type, (self.worker.world_size,))
        narrow = torch.bfloat16 if self.settings.precision == "bf16" else None
        policy = MixedPrecisionPolicy(param_dtype=narrow, reduce_dtype=torch.float32)
        for module in (*model.layers, model):
            sharded = fully_shard(module, mesh=mesh, mp_policy=policy)
            # The suite sums gradients and divides the loss by the global weight. gloo has no
            # operation that multiplies and sums.
            sharded.set_gradient_divide_factor(1.0)
            sharded.set_force_sum_reduction_for_comms(True)
        model.to_empty(device=self.device)
        return model

    def build_optimizer(self) -> Optimizer:
        if not self.state_is_sharded:
            return super().build_optimizer()
        self.local = {name: _local(value) for name, value in self.parameters.items()}
        with torch.no_grad():
            for value in self.local.values():
                value.zero_()  # the memory of `to_empty` may contain NaN
        return build_optimizer(self.local, self.workload.parameter_rule, self.updates)

    def distribute(self) -> DistributedDataParallel | None:
        return None if self.state_is_sharded else super().distribute()

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Return an autocast context. FSDP2 converts sharded parameters itself."""
        return contextlib.nullcontext() if self.state_is_sharded else super().autocast()

    @torch.no_grad()
    def _load(self, weights: Iterable[tuple[str, Array]]) -> None:
        """Load the initial values. With sharded parameters, each replica draws only its rows."""
        if not self.state_is_sharded:
            super()._load(weights)
            return
        self._discard_gathered()
        for name, value in self.parameters.items():
            local = self._local_rows(name, value)
            first, stop = self._rows_of(value)
            rows = self.workload.network.initial_rows(name, self.settings.seed, first, stop)
            local.copy_(torch.from_numpy(rows))
        if self.optimizer is not None:
            self.optimizer.reset()

    def _discard_gathered(self) -> None:
        """Free the gathered parameters, which FSDP2 keeps after an evaluation.

        Without this call, the next forward pass would use the values before loading.
        """
        for module in self.model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    def _local_rows(self, name: str, value: Tensor) -> Tensor:
        return self.local[name] if name in self.local else _local(value)

    def _rows_of(self, value: Tensor) -> tuple[int, int]:
        """Return the first row of this replica, and the row after its last row."""
        rows = value.shape[0]
        share = -(-rows // self.worker.world_size)
        first = min(self.worker.rank * share, rows)
        return first, min(first + share, rows)

    def loss(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the sum of -log p over all tokens of the batch."""
        with self.autocast():
            losses: Tensor = model(batch["token"], batch["label"])
            return losses.sum()

    def outputs(self, model: nn.Module, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the mean of -log p over the tokens of each sequence, (B,)."""
        return {"loss": model(batch["token"], batch["label"]) / batch["token"].shape[1]}

    def backward(self, batch: Batch) -> Tensor:
        if not self.state_is_sharded:
            return super().backward(batch)
        *earlier, last = self.pieces(batch)
        model = self.model
        assert isinstance(model, FSDPModule)
        losses = []
        for piece in (*earlier, last):
            # The replicas exchange gradients only after the last micro-batch.
            model.set_requires_gradient_sync(piece is last)
            loss = self._loss(piece)
            loss.backward()
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    def eager_step(self, batch: Batch, learning_rate: Rate) -> Tensor:
        """Run an optimizer step. With sharded parameters, the norm is summed over all replicas."""
        if not self.state_is_sharded:
            return super().eager_step(batch, learning_rate)
        assert self.optimizer is not None
        loss = self.backward(batch)
        gradients = []
        for name, value in self.parameters.items():
            assert value.grad is not None, f"no gradient of {name}"
            gradients.append(_local(value.grad))
            self.local[name].grad = gradients[-1]
        if self.updates.clip_norm is not None:
            norms = torch.stack(torch._foreach_norm(gradients))
            square = norms.double().square().sum()
            dist.all_reduce(square)
            factor = (self.updates.clip_norm / square.sqrt()).clamp(max=1.0).float()
            torch._foreach_mul_(gradients, factor)
        self.optimizer.step(learning_rate)
        for value in self.local.values():
            value.grad = None
        self.clear_gradients()
        return loss

    def gradient_all_reduce_info(self) -> GradientAllReduceInfo:
        """Return the size of the gradients. FSDP2 sums the gradients of a layer together."""
        if not self.state_is_sharded:
            return super().gradient_all_reduce_info()
        size = sum(value.numel() * 4 for value in self.parameters.values())
        return GradientAllReduceInfo(size, len(self.parameters), self.workload.network.layers + 1)

    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Yield each batch with the losses of its sequences.

        With sharded parameters, all processes must have the same number of batches, because each
        batch gathers the parameters. FSDP2 does not support inference mode.
        """
        if not self.state_is_sharded:
            yield from super().predict(batches)
            return
        for (batch,) in batches:
            with torch.no_grad():
                outputs = self.run_outputs(batch)
            yield batch, dict(zip(outputs, download(*outputs.values()), strict=True))

    def weights(self) -> dict[str, Array]:
        if not self.state_is_sharded:
            return super().weights()
        return self._whole({name: _local(value) for name, value in self.parameters.items()})

    def state_dict(self) -> dict[str, Array]:
        """Return the state on rank 0, and an empty mapping on all other ranks.

        With sharded parameters, this is a collective call.
        """
        if not self.state_is_sharded:
            return super().state_dict()
        state = self.weights()
        if self.optimizer is not None:
            of_optimizer = dict(self.optimizer.state_dict())
            steps = of_optimizer.pop("step")
            state |= self._whole(of_optimizer)
            if self.worker.rank == 0:
                state["step"] = steps.detach().cpu().numpy().copy()
        return state

    def _whole(self, tensors: Mapping[str, Tensor]) -> dict[str, Array]:
        """Return whole arrays of sharded tensors on rank 0 (collective call).

        Names end with the name of a parameter.
        """
        shapes, found = self.workload.network.shapes(), {}
        for name, local in tensors.items():
            parameter = name if name in shapes else name.partition(".")[2]
            rows = shapes[parameter][0]
            share = -(-rows // self.worker.world_size)
            padded = local.new_zeros((share, *shapes[parameter][1:]))
            padded[: len(local)] = local.detach()
            parts = (
                [torch.empty_like(padded) for _ in range(self.worker.world_size)]
                if self.worker.rank == 0
                else None
            )
            dist.gather(padded, parts, dst=0)
            if parts is not None:
                found[name] = torch.cat(parts)[:rows].float().cpu().numpy()
        return found

    @torch.no_grad()
    def load_state_dict(self, state: Arrays) -> None:
        if not self.state_is_sharded:
            super().load_state_dict(state)
            return
        self._discard_gathered()
        rows: dict[str, Array] = {}
        for name, value in self.parameters.items():
            first, stop = self._rows_of(value)
            for key in (name, *(f"{kind}.{name}" for kind in SLOTS[self.updates.name])):
                if key in state:
                    rows[key] = state[key][first:stop]
            self._local_rows(name, value).copy_(torch.from_numpy(rows[name].copy()))
        if self.optimizer is not None:
            slots = {key: value.copy() for key, value in rows.items() if key not in self.parameters}
            self.optimizer.load_state_dict({**slots, "step": state["step"]})


def _local(value: Tensor) -> Tensor:
    """Return this replica's rows of a tensor, which share the memory of the tensor."""
    assert isinstance(value, DTensor)
    local: Tensor = value.detach().to_local()
    return local
