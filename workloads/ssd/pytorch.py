"""SSD on a ResNet-34 trunk in PyTorch, channels-last.

Shapes: B images of a replica, S pixels of a side, C classes without background, P priors. Images come as uint8 (B, S, S, 3) and
are normalised on the device. Parameters and batch-norm statistics carry the names of network.py.
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
from workloads.common.pytorch_optimizers import Sgd
from workloads.ssd import network
from workloads.ssd.workload import SSD

FP16_LOSS_SCALE = 128.0
"""Static, as in NVIDIA's v0.5 entry; gradients are divided by it before the update."""
NEGATIVES_PER_POSITIVE = 3
"""Background priors in the loss, for each positive one (reference base_model.py)."""


def _convolution(layer: network.Convolution) -> nn.Conv2d:
    return nn.Conv2d(layer.inputs, layer.outputs, layer.kernel, layer.stride, layer.padding, bias=layer.norm is None)


def _norm(layer: network.Convolution) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(layer.outputs, network.BATCH_NORM_EPSILON, network.BATCH_NORM_MOMENTUM)


class Block(nn.Module):
    """Two 3×3 convolutions and a shortcut."""

    def __init__(self, block: network.Block) -> None:
        super().__init__()
        first, second = block.convolutions
        self.conv1, self.bn1 = _convolution(first), _norm(first)
        self.conv2, self.bn2 = _convolution(second), _norm(second)
        shortcut = block.shortcut
        self.downsample = nn.Sequential(_convolution(shortcut), _norm(shortcut)) if shortcut is not None else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, inputs, h, w) to (B, width, h / stride, w / stride)."""
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return F.relu(out, inplace=True)


class Extra(nn.Module):
    """1×1 and 3×3, ReLU behind each: the next coarser map."""

    def __init__(self, pair: tuple[network.Convolution, network.Convolution]) -> None:
        super().__init__()
        self.conv1, self.conv2 = (_convolution(layer) for layer in pair)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One map to the next."""
        return F.relu(self.conv2(F.relu(self.conv1(x), inplace=True)), inplace=True)


class Detector(nn.Module):
    """From uint8 images (B, S, S, 3) to fp32 offsets (B, 4, P) and logits (B, C + 1, P)."""

    def __init__(self, layers: network.Network) -> None:
        super().__init__()
        mean, deviation = (torch.tensor(values).view(1, 3, 1, 1) for values in (network.MEAN, network.DEVIATION))
        self.register_buffer("scale", 1 / (255 * deviation), persistent=False)
        self.register_buffer("shift", mean / deviation, persistent=False)
        self.classes = layers.classes
        self.conv1, self.bn1 = _convolution(layers.stem), _norm(layers.stem)
        stages: dict[str, list[nn.Module]] = {}
        for block in layers.blocks:
            stages.setdefault(block.convolutions[0].name.partition(".")[0], []).append(Block(block))
        for name, blocks in stages.items():
            self.add_module(name, nn.Sequential(*blocks))
        for number, pair in enumerate(layers.extras, start=1):
            self.add_module(f"extra{number}", Extra(pair))
        for head in (*layers.box_heads, *layers.class_heads):
            self.add_module(head.name, _convolution(head))
        self.stages, self.maps = list(stages), len(layers.box_heads)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See the class."""
        x = images.permute(0, 3, 1, 2).to(self.scale.dtype) * self.scale - self.shift
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.max_pool2d(x, 3, 2, 1)
        for name in self.stages:
            x = getattr(self, name)(x)
        offsets, logits = [], []
        for number in range(1, self.maps + 1):
            if number > 1:
                x = getattr(self, f"extra{number - 1}")(x)
            # Channels are coordinate (or class) outermost, then shape: in planes they are in the priors' order.
            offsets.append(getattr(self, f"box{number}")(x).reshape(len(x), 4, -1))
            logits.append(getattr(self, f"class{number}")(x).reshape(len(x), self.classes + 1, -1))
        return torch.cat(offsets, 2).float(), torch.cat(logits, 2).float()


def detection_loss(
    offsets: torch.Tensor, logits: torch.Tensor, wanted: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """Sum of the images' losses, from `Detector`'s outputs, offsets to learn (B, 4, P) and labels (B, P), 0 background.

    Of an image: (smooth L1 of the positives' offsets + cross-entropy of positives and of three times as many negatives, those
    with the largest) / positives; 0 without positives.
    """
    positive = labels > 0
    count = positive.sum(1)
    entropy = F.cross_entropy(logits, labels, reduction="none")
    with torch.no_grad():
        # Positives sort last; among equals the lower prior comes first.
        ranked = entropy.masked_fill(positive, -1.0).argsort(dim=1, descending=True, stable=True)
        mined = (NEGATIVES_PER_POSITIVE * count).minimum((~positive).sum(1))
        place = torch.arange(labels.shape[1], device=labels.device)
        counted = torch.zeros_like(positive).scatter_(1, ranked, place < mined[:, None]) | positive
    of_boxes = F.smooth_l1_loss(offsets, wanted, reduction="none").sum(1)
    total = (of_boxes * positive + entropy * counted).sum(1)
    return (total / count.clamp(min=1)).sum()


class SSDTrainer(PyTorchTrainer):
    """SSD on one device; DistributedDataParallel where there are several."""

    workload: SSD

    def __init__(self, workload: Workload, place: Place) -> None:
        super().__init__(workload, place)
        self.loss_scale = FP16_LOSS_SCALE if self.settings.precision == "fp16" else 1.0
        if self.device.type == "cuda":
            torch.backends.cudnn.benchmark = True

    def setup(self, weights: Iterable[tuple[str, Array]], warm_up: bool = True) -> None:
        """Build, warm up on made-up images, then load the weights and reset statistics and optimizer."""
        self.model = Detector(self.workload.network).to(self.device, memory_format=torch.channels_last)
        self.parameters = dict(self.model.named_parameters())
        self.statistics = {name: value for name, value in self.model.named_buffers() if "running" in name}
        momentum = float(self.settings.hyperparameters["momentum"])
        self.optimizer = Sgd(self.parameters, self.workload.rule, momentum)
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

    def _warm_up(self) -> None:
        """One step of every shape, and one evaluation batch: kernels are chosen and compiled."""
        for shape in self.workload.shapes():
            size = shape["image"].shape
            self.step(made_up(size, len(self.workload.priors)), learning_rate=0.0)
            evaluation = made_up((self.workload.evaluation_batch_size, *size[1:]), len(self.workload.priors))
            for _ in self.predict([[evaluation]]):
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
        """This replica's part of the mean over the global batch; in fp32 whatever the network computes in."""
        images, wanted, labels = (self.to_device(batch.arrays[name]) for name in ("image", "offset", "label"))
        with self.autocast():
            offsets, logits = self.called(images)
        return detection_loss(offsets, logits, wanted, labels.long()) / batch.weight_global

    # -- evaluation and state -------------------------------------------------------------------------------------

    def predict(self, batches: Iterable[list[Batch]]) -> Iterator[tuple[Batch, Arrays]]:
        """Offsets (B, 4, P) and logits (B, C + 1, P)."""
        self.model.eval()
        with torch.inference_mode(), self.autocast():
            for (batch,) in batches:
                offsets, logits = self.model(self.to_device(batch.arrays["image"]))
                yield batch, {"offsets": offsets.cpu().numpy(), "logits": logits.cpu().numpy()}
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


def made_up(shape: tuple[int, ...], priors: int) -> Batch:
    """A batch of grey images (B, S, S, 3) with an object each."""
    labels = np.zeros((shape[0], priors), np.int32)
    labels[:, 0] = 1
    offsets = np.zeros((shape[0], 4, priors), np.float32)
    arrays = {"image": np.full(shape, 128, np.uint8), "offset": offsets, "label": labels}
    return Batch(arrays, float(shape[0]), float(shape[0]), shape[0])
