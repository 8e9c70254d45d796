"""ResNet v1.5 in PyTorch, channels-last.

Shapes: B images of a replica, S pixels of a side, K classes. Images come as uint8 (B, S, S, 3) and are normalised on the
device. Parameters and batch-norm statistics carry torchvision's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from workloads.api import Array, Arrays, Batch, Place, TrainStats, Workload
from workloads.common.pytorch import PyTorchTrainer
from workloads.common.pytorch_optimizers import Lars, Sgd
from workloads.resnet50 import network
from workloads.resnet50.workload import ResNet50

FP16_LOSS_SCALE = 128.0
"""Static, the reference's default (resnet_run_loop.py); gradients are divided by it before the update."""


def _convolution(layer: network.Convolution) -> nn.Conv2d:
    return nn.Conv2d(layer.inputs, layer.outputs, layer.kernel, layer.stride, layer.kernel // 2, bias=False)


def _norm(layer: network.Convolution) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(layer.outputs, network.BATCH_NORM_EPSILON, network.BATCH_NORM_MOMENTUM)


class Bottleneck(nn.Module):
    """Three convolutions and a shortcut."""

    def __init__(self, block: network.Bottleneck) -> None:
        super().__init__()
        for number, layer in enumerate(block.convolutions, start=1):
            self.add_module(f"conv{number}", _convolution(layer))
            self.add_module(f"bn{number}", _norm(layer))
        shortcut = block.shortcut
        self.downsample = nn.Sequential(_convolution(shortcut), _norm(shortcut)) if shortcut is not None else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, inputs, h, w) to (B, outputs, h / stride, w / stride)."""
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = F.relu(self.bn2(self.conv2(out)), inplace=True)
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return F.relu(out, inplace=True)


class ResNet(nn.Module):
    """From uint8 images (B, S, S, 3) to fp32 logits (B, K)."""

    def __init__(self, layers: network.Network) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(network.MEAN).view(1, 3, 1, 1), persistent=False)
        self.conv1, self.bn1 = _convolution(layers.stem), _norm(layers.stem)
        stages: dict[str, list[nn.Module]] = {}
        for block in layers.blocks:
            stages.setdefault(block.convolutions[0].name.partition(".")[0], []).append(Bottleneck(block))
        for name, blocks in stages.items():
            self.add_module(name, nn.Sequential(*blocks))
        self.stages = list(stages)
        self.fc = nn.Linear(layers.features, layers.classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """See the class."""
        x = images.permute(0, 3, 1, 2).to(self.mean.dtype) - self.mean
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.max_pool2d(x, 3, 2, 1)
        for name in self.stages:
            x = getattr(self, name)(x)
        return self.fc(x.mean((2, 3))).float()


class ResNetTrainer(PyTorchTrainer):
    """ResNet on one device; DistributedDataParallel where there are several."""

    workload: ResNet50

    def __init__(self, workload: Workload, place: Place) -> None:
        super().__init__(workload, place)
        self.smoothing = float(self.settings.hyperparameters["label_smoothing"])
        self.loss_scale = FP16_LOSS_SCALE if self.settings.precision == "fp16" else 1.0
        if self.device.type == "cuda":
            torch.backends.cudnn.benchmark = True

    def setup(self, weights: Iterable[tuple[str, Array]], warm_up: bool = True) -> None:
        """Build, warm up on made-up images, then load the weights and reset statistics and optimizer."""
        self.model = ResNet(self.workload.network).to(self.device, memory_format=torch.channels_last)
        self.parameters = dict(self.model.named_parameters())
        self.statistics = {name: value for name, value in self.model.named_buffers() if "running" in name}
        self.optimizer = self._optimizer()
        called: nn.Module = self.model
        if self.place.processes > 1:
            ids = [self.device.index] if self.device.type == "cuda" else None
            called = DistributedDataParallel(
                self.model, ids, broadcast_buffers=False, gradient_as_bucket_view=True, static_graph=True
            )
        self.called = torch.compile(called) if self.settings.options.get("compile") == "on" else called
        if warm_up:
            self._warm_up()
        with torch.no_grad():
            for name, value in weights:
                self.parameters[name].copy_(torch.from_numpy(value))
            for name, statistic in self.statistics.items():
                statistic.fill_(1.0 if name.endswith("var") else 0.0)
        self.optimizer.reset()

    def _optimizer(self) -> Sgd | Lars:
        values, rule = self.settings.hyperparameters, self.workload.rule
        momentum = float(values["momentum"])
        if self.workload.uses_lars:
            return Lars(self.parameters, rule, momentum, float(values["lars_coefficient"]))
        return Sgd(self.parameters, rule, momentum)

    def _warm_up(self) -> None:
        """One step of every shape, and one evaluation batch: kernels are chosen and compiled."""
        for shape in self.workload.shapes():
            batch = made_up(shape["image"].shape)
            self.step(batch, learning_rate=0.0)
            size = (self.workload.evaluation_batch_size, *shape["image"].shape[1:])
            for _ in self.predict([[made_up(size)]]):
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

    def loss(self, batch: Batch) -> torch.Tensor:
        """Cross-entropy of a batch over the global weight."""
        images, labels = self.to_device(batch.arrays["image"]), self.to_device(batch.arrays["label"]).long()
        with self.autocast():
            logits = self.called(images)
        total = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=self.smoothing)
        return total / batch.weight_global

    # -- evaluation and state -------------------------------------------------------------------------------------

    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Logits (B, K)."""
        self.model.eval()
        with torch.inference_mode(), self.autocast():
            for (batch,) in batches:
                logits = self.model(self.to_device(batch.arrays["image"]))
                yield batch, {"logits": logits.cpu().numpy()}
        self.model.train()

    def state(self) -> dict[str, Array]:
        """Parameters, running statistics and velocities by name."""
        found = {**self.parameters, **self.statistics, **self.optimizer.state()}
        return {name: value.detach().float().cpu().contiguous().numpy().copy() for name, value in found.items()}

    def load_state(self, state: Arrays) -> None:
        """Inverse of `state`."""
        found = {**self.parameters, **self.statistics, **self.optimizer.state()}
        with torch.no_grad():
            for name, value in found.items():
                value.copy_(torch.from_numpy(state[name]))


def made_up(shape: tuple[int, ...]) -> Batch:
    """A batch of grey images (B, S, S, 3)."""
    arrays = {"image": np.full(shape, 128, np.uint8), "label": np.zeros(shape[0], np.int32)}
    return Batch(arrays, float(shape[0]), float(shape[0]), shape[0])
