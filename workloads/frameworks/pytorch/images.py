"""What PyTorch trainers of image models share: setup without a trace, a step, running statistics, evaluation, state.

Batches hold `image`: uint8 (B, S, S, 3), and what the model's loss needs. Models compute channels-last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from workloads.api import Array, Arrays, Batch, Place, TrainStats, Workload
from workloads.frameworks.pytorch.optimizers import Optimizer
from workloads.frameworks.pytorch.trainer import PyTorchTrainer


class ImageTrainer(PyTorchTrainer):
    """One device; DistributedDataParallel where there are several. Subclasses give the four methods that come first.

    The workload has an `evaluation_batch_size`: images of a replica.
    """

    def __init__(self, workload: Workload, place: Place) -> None:
        super().__init__(workload, place)
        self.loss_scale = self.workload.loss_scaling.start
        if self.device.type == "cuda":
            torch.backends.cudnn.benchmark = True

    # -- for subclasses -------------------------------------------------------------------------------------------

    def build(self) -> nn.Module:
        """The model, on the CPU; parameters and running statistics carry canonical names."""
        raise NotImplementedError

    def build_optimizer(self) -> Optimizer:
        """For `self.parameters`."""
        raise NotImplementedError

    def loss(self, batch: Batch) -> torch.Tensor:
        """See PyTorchTrainer. Calls `self.called`, the model as training has it (compiled, distributed)."""
        raise NotImplementedError

    def outputs(self, batch: Batch) -> Mapping[str, torch.Tensor]:
        """What `predict` yields for a batch. Calls `self.model`; under autocast already."""
        raise NotImplementedError

    # -- setup ----------------------------------------------------------------------------------------------------

    def setup(self, weights: Iterable[tuple[str, Array]], warm_up: bool = True) -> None:
        """Build, warm up on made-up images, then reset optimizer and statistics and load what `weights` holds."""
        self.model = self.build().to(self.device, memory_format=torch.channels_last)
        self.parameters = dict(self.model.named_parameters())
        self.statistics = {name: value for name, value in self.model.named_buffers() if "running" in name}
        self.optimizer = self.build_optimizer()
        called = self._distributed() if self.place.processes > 1 else self.model
        self.called = torch.compile(called) if self.settings.options.get("compile") == "on" else called
        if warm_up:
            self._warm_up()
        with torch.no_grad():
            for name, statistic in self.statistics.items():
                statistic.fill_(1.0 if name.endswith("var") else 0.0)
            tensors = {**self.parameters, **self.statistics}
            for name, value in weights:
                tensors[name].copy_(torch.from_numpy(value))
        self.optimizer.reset()

    def _distributed(self) -> nn.Module:
        ids = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(
            self.model, ids, broadcast_buffers=False, gradient_as_bucket_view=True, static_graph=True
        )

    def _warm_up(self) -> None:
        """One step of every shape, and one evaluation batch: kernels are chosen and compiled."""
        for specs in self.workload.shapes():
            self.step(self.workload.dummy_batch(specs), learning_rate=0.0)
        for specs in self.workload.evaluation_shapes():
            for _ in self.predict([[self.workload.dummy_batch(specs)]]):
                pass

    # -- training -------------------------------------------------------------------------------------------------

    def train(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        """One optimizer step per item; at the end the replicas' statistics are averaged, which training does not notice."""
        self.model.train()
        stats = super().train(steps, first_step)
        if self.place.processes > 1:
            for statistic in self.statistics.values():
                dist.all_reduce(statistic)
                statistic /= self.place.processes
        return stats

    def step(self, batch: Batch, learning_rate: float) -> torch.Tensor:
        """Forward, backward, all-reduce, update."""
        loss = self.loss(batch)
        # DistributedDataParallel averages gradients where a sum is wanted.
        (loss * (self.place.processes * self.loss_scale)).backward()
        if self.loss_scale != 1:
            torch._foreach_mul_([value.grad for value in self.parameters.values()], 1 / self.loss_scale)
        self.optimizer.step(learning_rate)
        self.model.zero_grad(set_to_none=False)
        return loss.detach()

    # -- evaluation and state -------------------------------------------------------------------------------------

    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Each batch with its `outputs`."""
        self.model.eval()
        with torch.inference_mode(), self.autocast():
            for (batch,) in batches:
                yield batch, {name: value.cpu().numpy() for name, value in self.outputs(batch).items()}
        self.model.train()

    def state(self) -> dict[str, Array]:
        """Parameters, running statistics and velocities by name."""
        return {
            name: value.detach().float().cpu().contiguous().numpy().copy() for name, value in self._tensors().items()
        }

    def load_state(self, state: Arrays) -> None:
        """Inverse of `state`."""
        with torch.no_grad():
            for name, value in self._tensors().items():
                value.copy_(torch.from_numpy(state[name]))

    def _tensors(self) -> dict[str, torch.Tensor]:
        return {**self.parameters, **self.statistics, **self.optimizer.state()}
