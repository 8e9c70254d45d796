"""Generic PyTorch trainer.

The trainer implements setup, steps with micro-batches, all modes, evaluation, and checkpointing.

The subclass of a model defines `build`, and `loss` and `outputs` of `workloads.api.ModelHooks`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from workloads.api import (
    Array,
    Arrays,
    Batch,
    GradientAllReduceInfo,
    ModelHooks,
    ParameterServerClient,
    TrainStats,
    WorkerContext,
    Workload,
)
from workloads.common.randomness import stream
from workloads.frameworks.pytorch import server
from workloads.frameworks.pytorch.copies import download
from workloads.frameworks.pytorch.graphs import Rate, StepGraph
from workloads.frameworks.pytorch.optimizers import LossScaler, Optimizer, build_optimizer, clip
from workloads.frameworks.pytorch.trainer import PyTorchTrainer

BUCKET_BYTES = 25 << 20
"""Maximum size in bytes of all DistributedDataParallel buckets except the first bucket. The
constant equals the default of `bucket_cap_mb`.
"""


class ModelTrainer(ModelHooks[nn.Module, Any], PyTorchTrainer):
    """Trainer of a model on a single device.

    If the run has several devices, DistributedDataParallel synchronizes the replicas. Subclasses
    define `build`, `loss` and `outputs`. The workload defines the optimizer (`Workload.optimizer`,
    `Workload.parameter_rule`).

    Raises:
        ValueError: `accumulation_steps` does not divide a batch into equal micro-batches.
    """

    memory_format: ClassVar[torch.memory_format] = torch.preserve_format

    def __init__(self, workload: Workload, worker: WorkerContext) -> None:
        super().__init__(workload, worker)
        self.updates = workload.update_settings()
        self.stepped: set[frozenset[str]] = set()
        """Sets of array names of full batches that a step has already processed. A set is added
        when the first step with these arrays runs.
        """
        self.graph: StepGraph | None = None
        """CUDA graph of a step with a full batch (`Settings.graphs`), or None."""

    # -- for subclasses
    # -------------------------------------------------------------------------------------------

    def build(self) -> nn.Module:
        """Return the model, whose parameters have the same names in all frameworks.

        `setup` moves the model to the device.
        """
        raise NotImplementedError

    def device_arrays(self, batch: Batch, training: bool) -> Mapping[str, Any]:
        """Return the arrays of `host_arrays`, copied to the device."""
        return {
            name: self.to_device(array) for name, array in self.host_arrays(batch, training).items()
        }

    # -- setup
    # ----------------------------------------------------------------------------------------------

    def setup(self, weights: Iterable[tuple[str, Array]], warmup: bool = True) -> None:
        self.open_device()
        self.model = self.build().to(self.device, memory_format=self.memory_format)
        self.parameters = dict(self.model.named_parameters())
        self._freeze()
        trains = self.settings.mode == "train"
        self.optimizer: Optimizer | None = self.build_optimizer() if trains else None
        self.scaler = LossScaler(self.updates.loss_scaling, self.device)
        with_gradients = self.settings.mode in ("train", "forward_backward")
        together = with_gradients and self.worker.world_size > 1 and not self.settings.asynchronous
        self.distributed = self.distribute() if together else None
        model = self.distributed or self.model
        self.training_model: nn.Module = (
            torch.compile(model) if self.settings.options.get("compile") == "on" else model
        )
        if warmup:
            self._warm_up()
        self._load(weights)
        # Each replica has a different seed for dropout masks. The seed does not depend on whether a
        # warm-up ran.
        torch.manual_seed(int(stream(self.settings.seed, "pytorch", self.worker.replica_ids[0])))
        self.exchange = self._exchange() if self.settings.asynchronous else None

    def _exchange(self) -> ParameterServerClient:
        """Connect to the parameter server, which stores the trained parameters."""
        worker, trained = (
            self.worker,
            {name: value for name, value in self.parameters.items() if value.requires_grad},
        )
        channel = server.ParameterServerTransport(
            trained, worker.server, worker.rank, worker.world_size
        )
        return ParameterServerClient(
            channel, worker.rank, worker.world_size, self.workload.learning_rate
        )

    @classmethod
    def run_parameter_server(cls, workload: Workload, address: str, workers: int) -> None:
        server.serve(workload, address, workers)

    def build_optimizer(self) -> Optimizer:
        """Return the workload's optimizer for the trained parameters."""
        return build_optimizer(self.parameters, self.workload.parameter_rule, self.updates)

    def distribute(self) -> DistributedDataParallel | None:
        """Return the model with gradient all-reduces that overlap the backward pass.

        If the method returns None, `backward` reduces the gradients.
        """
        uses_every_parameter = self.workload.every_step_uses_every_parameter
        return DistributedDataParallel(
            self.model,
            [self.device.index] if self.device.type == "cuda" else None,
            broadcast_buffers=False,
            gradient_as_bucket_view=True,
            # `static_graph` requires the same graph in every step, but `no_sync` changes the graph
            # between micro-batches.
            static_graph=uses_every_parameter and self.updates.accumulation_steps == 1,
            find_unused_parameters=not uses_every_parameter,
        )

    def _freeze(self) -> None:
        """Disable gradients of frozen parameters.

        If a step may not use every parameter, the gradients of all trained parameters are
        initialized to 0, so that every trained parameter has a gradient.
        """
        for name, parameter in self.parameters.items():
            if self.workload.parameter_rule(name).frozen:
                parameter.requires_grad_(False)
            elif not self.workload.every_step_uses_every_parameter:
                parameter.grad = torch.zeros_like(parameter)

    def _warm_up(self) -> None:
        """Run every shape once in the run's mode, so that kernels are selected and compiled.

        Afterwards, the buffers of the model are restored.
        """
        buffers = {name: value.clone() for name, value in self.model.named_buffers()}
        mode = self.settings.mode
        for specs in self.workload.shapes() if mode != "inference" else ():
            batch = self.dummy_batch(specs)
            if mode == "train":
                self.step(batch, learning_rate=0.0)
            elif mode == "forward_backward":
                self.gradients_alone(batch)
            else:
                self.run_loss(batch)
        for specs in self.workload.evaluation_shapes() if mode in ("train", "inference") else ():
            for _ in self.predict([[self.dummy_batch(specs)]]):
                pass
        for name, value in self.model.named_buffers():
            value.copy_(buffers[name])

    @torch.no_grad()
    def _load(self, weights: Iterable[tuple[str, Array]]) -> None:
        """Copy the initial values in `weights` into the model.

        The optimizer and the loss scaler are also reset.
        """
        tensors, missing = self.tensors(), set(self.parameters)
        for name, value in weights:
            tensors[name].copy_(torch.from_numpy(value))
            missing.discard(name)
        assert not missing, f"no initial weights of {sorted(missing)}"
        if self.optimizer is not None:
            self.optimizer.reset()
        self.scaler.reset()

    # -- training
    # ----------------------------------------------------------------------------------------------

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        self.model.train()
        return super().train(steps, first_step)

    def forward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        self.model.train()
        return self._run(self.run_loss(batch) for (batch,) in steps)

    def forward_backward(self, steps: Iterable[list[Batch]]) -> TrainStats:
        self.model.train()
        return self._run(self.gradients_alone(batch) for (batch,) in steps)

    def step(self, batch: Batch, learning_rate: float) -> Tensor:
        """Run an optimizer step.

        With `framework.graphs=on`, the first step with a full batch runs eagerly, and all later
        steps with a full batch replay a CUDA graph.
        """
        if self.settings.graphs != "on" or batch.global_samples != self.settings.global_batch_size:
            return self.eager_step(batch, learning_rate)
        if (names := frozenset(batch.arrays)) not in self.stepped:
            self.stepped.add(names)
            return self.eager_step(batch, learning_rate)
        if self.graph is None:
            self.graph = StepGraph(self.eager_step, batch, self.device)
        return self.graph(batch, learning_rate)

    def eager_step(self, batch: Batch, learning_rate: Rate) -> Tensor:
        """Compute the gradients of all micro-batches, and update the parameters.

        Gradients are unscaled and clipped before the update.

        With `update=async`, the step pushes the gradients to the parameter server and does not
        update the parameters.
        """
        assert self.optimizer is not None, f"mode={self.settings.mode} makes no updates"
        loss = self.backward(batch)
        gradients = self.gradients()
        overflow = self.scaler.unscale(gradients)
        clip(gradients, self.updates.clip_norm)
        if self.exchange is not None:
            self.exchange.push()
        else:
            self.optimizer.step(learning_rate, overflow)
        self.scaler.update(overflow)
        self.clear_gradients()
        return loss

    def gradients_alone(self, batch: Batch) -> Tensor:
        """Compute and discard the gradients of a batch, and return the loss.

        The gradients are summed over replicas (all-reduce).
        """
        loss = self.backward(batch)
        self.clear_gradients()
        return loss

    @torch.no_grad()
    def run_loss(self, batch: Batch) -> Tensor:
        """Return the loss of a batch without computing gradients."""
        losses = [self._loss(piece) for piece in self.pieces(batch)]
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    def backward(self, batch: Batch) -> Tensor:
        """Add the scaled gradients of a batch to the current gradients, and return the loss.

        The gradients are summed over replicas (all-reduce).

        Replicas synchronize only in the backward pass of the last micro-batch.
        """
        *earlier, last = self.pieces(batch)
        without_sync = (
            self.distributed.no_sync if self.distributed is not None else contextlib.nullcontext
        )
        losses = []
        for piece in earlier:
            with without_sync():
                losses.append(self._backward(piece))
        losses.append(self._backward(last))
        return losses[0] if not earlier else torch.stack(losses).sum()

    def _loss(self, piece: Batch) -> Tensor:
        """Return this replica's share of the loss of a micro-batch, with its autograd graph."""
        return (
            self.loss(self.training_model, self.device_arrays(piece, training=True))
            / piece.global_weight_sum
        )

    def _backward(self, piece: Batch) -> Tensor:
        loss = self._loss(piece)
        # DistributedDataParallel averages gradients over replicas, but the suite needs the sum.
        self.scaler.scaled(
            loss, 1 if self.settings.asynchronous else self.worker.world_size
        ).backward()
        return loss.detach()

    def pieces(self, batch: Batch) -> list[Batch]:
        """Return the equal micro-batches of a batch, split along the first axis.

        A step computes the micro-batches in sequence.
        """
        count = self.updates.accumulation_steps
        if count == 1:
            return [batch]
        size, rest = divmod(len(next(iter(batch.arrays.values()))), count)
        assert rest == 0, "the constructor checks that the batch is divisible"
        cuts = [slice(number * size, (number + 1) * size) for number in range(count)]
        return [
            replace(batch, arrays={name: array[cut] for name, array in batch.arrays.items()})
            for cut in cuts
        ]

    def gradients(self) -> list[Tensor]:
        """Return the gradients that the optimizer uses."""
        by_name = {
            name: value.grad for name, value in self.parameters.items() if value.requires_grad
        }
        without = [name for name, gradient in by_name.items() if gradient is None]
        assert not without, (
            f"no gradient of {without}: set every_step_uses_every_parameter = False in the workload"
        )
        return list(by_name.values())

    def clear_gradients(self) -> None:
        """Discard all gradients.

        The next backward pass allocates new gradients. Allocating new gradients is faster than
        adding to zeros.

        If a step may not use every parameter, the gradients are set to 0 instead of being
        discarded.
        """
        self.model.zero_grad(set_to_none=self.workload.every_step_uses_every_parameter)

    def gradient_all_reduce_info(self) -> GradientAllReduceInfo:
        """Return the size and number of the gradients, and the number of all-reduce buckets.

        Only gradients of trained parameters are counted.

        DistributedDataParallel fills its buckets in the order in which the backward pass computes
        the gradients. This order is approximately the reverse order of the parameters.
        """
        trained = [value for value in self.parameters.values() if value.requires_grad]
        size = sum(value.numel() * value.element_size() for value in trained)
        limits = [dist._DEFAULT_FIRST_BUCKET_BYTES, BUCKET_BYTES]
        buckets, _ = dist._compute_bucket_assignment_by_size(trained[::-1], limits)
        return GradientAllReduceInfo(size, len(trained), len(buckets))

    # -- evaluation and state
    # -------------------------------------------------------------------------------------

    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        self.model.eval()
        try:
            with torch.inference_mode(), self.autocast():
                for (batch,) in batches:
                    outputs = self.run_outputs(batch)
                    yield batch, dict(zip(outputs, download(*outputs.values()), strict=True))
        finally:
            self.model.train()

    def run_outputs(self, batch: Batch) -> Mapping[str, Tensor]:
        """Return the outputs for an evaluation batch.

        The caller enables autocast.
        """
        return self.outputs(self.model, self.device_arrays(batch, training=False))

    def tensors(self) -> dict[str, Tensor]:
        """Return the model tensors that a checkpoint contains: the parameters."""
        return self.parameters

    def weights(self) -> dict[str, Array]:
        return _copies(self.tensors())

    def state_dict(self) -> dict[str, Array]:
        of_optimizer = self.optimizer.state_dict() if self.optimizer is not None else {}
        return {**self.weights(), **_copies({**of_optimizer, **self.scaler.state_dict()})}

    @torch.no_grad()
    def load_state_dict(self, state: Arrays) -> None:
        for name, value in self.tensors().items():
            value.copy_(torch.from_numpy(state[name]))
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state)
        self.scaler.load_state_dict(state)


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    return {
        name: value.detach().float().cpu().contiguous().numpy().copy()
        for name, value in tensors.items()
    }
