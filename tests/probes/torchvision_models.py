"""Runs in PyTorch's environment: image workloads with torchvision's models in float64.

This is an independent reference: torchvision's ResNet, PyTorch's cross-entropy or SSD's loss in
NumPy, and the optimizers in NumPy (workloads/common/optimizers.py).
"""

import copy
import importlib

import numpy as np
import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

from tests.probes.image_trainers import ONE_STEP, SYNTHETIC, batches, under
from tests.workloads.ssd import ssd_loss_numpy
from workloads.common import optimizers
from workloads.resnet50 import network as resnet
from workloads.ssd import network as ssd


class Classifier(nn.Module):
    """torchvision's ResNet and its loss."""

    def __init__(self, workload):
        super().__init__()
        blocks, self.workload = list(workload.settings.model["blocks"]), workload
        self.model = ResNet(Bottleneck, blocks, num_classes=workload.network.classes)
        assert shapes(self) == resnet.shapes(workload.network)

    def forward(self, batch):
        """Return `logits` (B, K)."""
        images = torch.from_numpy(np.float64(batch.arrays["image"]) - resnet.MEAN).permute(
            0, 3, 1, 2
        )
        return {"logits": self.model(images)}

    def backward(self, batch):
        """Return the loss, and keep the gradients in the parameters."""
        smoothing = self.workload.settings.hyperparameters["label_smoothing"]
        label, logits = torch.from_numpy(batch.arrays["label"]).long(), self(batch)["logits"]
        loss = nn.functional.cross_entropy(logits, label, label_smoothing=smoothing)
        loss.backward()
        return loss.item()


class Detector(nn.Module):
    """torchvision's ResNet up to `layer3`, then plain convolutions.

    The stride of `layer3` is removed as in the reference.
    """

    def __init__(self, workload):
        super().__init__()
        model, self.classes, self.channels = (
            workload.settings.model,
            workload.network.classes,
            [256],
        )
        whole = ResNet(BasicBlock, [*model["blocks"], 1])
        whole.layer3[0].conv1.stride = whole.layer3[0].downsample[0].stride = (1, 1)
        self.model = nn.Module()
        for name in ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3"):
            setattr(self.model, name, getattr(whole, name))
        for number, (between, outputs, stride, padding) in enumerate(model["extras"], 1):
            extra = nn.Sequential()
            extra.add_module("conv1", nn.Conv2d(self.channels[-1], between, 1))
            extra.add_module("relu1", nn.ReLU())
            extra.add_module(
                "conv2", nn.Conv2d(between, outputs, 3, stride=stride, padding=padding)
            )
            extra.add_module("relu2", nn.ReLU())
            setattr(self.model, f"extra{number}", extra)
            self.channels.append(outputs)
        for number, (channels, ratios) in enumerate(
            zip(self.channels, model["ratios"], strict=True), 1
        ):
            boxes = 2 + 2 * len(ratios)
            setattr(self.model, f"box{number}", nn.Conv2d(channels, 4 * boxes, 3, padding=1))
            setattr(
                self.model,
                f"class{number}",
                nn.Conv2d(channels, (self.classes + 1) * boxes, 3, padding=1),
            )
        assert shapes(self) == ssd.shapes(workload.network)

    def forward(self, batch):
        """Return `offsets` (B, 4, P) and `logits` (B, K + 1, P), with maps from fine to coarse."""
        model, pixels = self.model, np.float64(batch.arrays["image"]) / 255
        images = (
            torch.from_numpy((pixels - ssd.MEAN) / ssd.STANDARD_DEVIATION)
            .permute(0, 3, 1, 2)
            .contiguous()
        )
        x = model.maxpool(model.relu(model.bn1(model.conv1(images))))
        maps = [model.layer3(model.layer2(model.layer1(x)))]
        for number in range(1, len(self.channels)):
            maps.append(getattr(model, f"extra{number}")(maps[-1]))
        offsets, logits = [], []
        for number, map_ in enumerate(maps, 1):
            offsets.append(getattr(model, f"box{number}")(map_).view(map_.shape[0], 4, -1))
            logits.append(
                getattr(model, f"class{number}")(map_).view(map_.shape[0], self.classes + 1, -1)
            )
        return {"offsets": torch.cat(offsets, 2), "logits": torch.cat(logits, 2)}

    def backward(self, batch):
        """Return the loss, and keep the gradients in the parameters."""
        outputs = self(batch)
        logits, offsets = outputs["logits"], outputs["offsets"]
        loss, *by_outputs = ssd_loss_numpy.loss_and_gradients(
            logits.detach().numpy(),
            offsets.detach().numpy(),
            batch.arrays["label"],
            batch.arrays["offset"],
        )
        torch.autograd.backward([logits, offsets], list(map(torch.from_numpy, by_outputs)))
        return loss


MODELS = {"resnet50": Classifier, "ssd": Detector}


def shapes(model):
    """Return the shape of every parameter."""
    return {name: tuple(value.shape) for name, value in model.model.named_parameters()}


def load(model, values):
    """Load parameters and statistics by name. Missing names keep their values."""
    arrays = {name: torch.from_numpy(np.float64(value)) for name, value in values.items()}
    model.model.load_state_dict(arrays, strict=False)


def update(workload, step, weights, velocities, gradients):
    """Execute the optimizer's step in NumPy, in place."""
    settings, rate = workload.optimizer(), workload.learning_rate(step)
    for name, weight in weights.items():
        arrays = (weight, velocities[name], gradients[name])
        weights[name], velocities[name] = optimizers.with_momentum(
            settings, *arrays, rate, workload.parameter_rule(name)
        )


def averaged(models, kind):
    """Return the means over replicas of the arrays that `kind` returns for a model, by name."""
    found = [kind(model) for model in models]
    return {name: np.mean([arrays[name] for arrays in found], axis=0) for name in found[0]}


def gradients_of(model):
    """Return the gradient of every parameter."""
    return {name: value.grad.numpy().copy() for name, value in model.model.named_parameters()}


def statistics_of(model):
    """Return every running statistic."""
    return {
        name: value.numpy().copy()
        for name, value in model.model.named_buffers()
        if "running" in name
    }


def trained(name, case, replicas=1, count=None):
    """Return the outputs, losses, gradients and states that image_trainers.py describes.

    Each replica has a share of a batch and separate batch norms. Gradients and running statistics
    are means over replicas. Only `count` steps are run, or all steps of the case if it is None.
    """
    torch.set_num_threads(1)
    module = importlib.import_module(SYNTHETIC[name])
    workload = module.workload(case, "pytorch", replicas)
    model, steps = (
        MODELS[name](workload).double(),
        batches(module, workload, case, range(replicas))[:count],
    )
    weights = {name: np.float64(value) for name, value in module.weights(workload).items()}
    load(model, {**weights, **module.statistics(workload)})
    with torch.no_grad():
        outputs = {name: value.numpy() for name, value in model.eval()(steps[0][0]).items()}
    model.train()
    for each in model.modules():
        if isinstance(each, nn.BatchNorm2d):
            each.reset_running_stats()
    load(model, weights)
    models = [model, *(copy.deepcopy(model) for _ in range(replicas - 1))]
    found, losses, states = under("outputs", outputs), [], {}
    velocities = {name: np.zeros_like(value) for name, value in weights.items()}
    for step, parts in enumerate(steps):
        for each in models:
            each.zero_grad()
        losses.append(
            np.mean([each.backward(part) for each, part in zip(models, parts, strict=True)])
        )
        gradients = averaged(models, gradients_of)
        update(workload, step, weights, velocities, gradients)
        statistics = averaged(models, statistics_of)
        for each in models:
            load(each, {**weights, **statistics})
        states = {
            **weights,
            **statistics,
            **{f"velocity.{name}": value.copy() for name, value in velocities.items()},
        }
        if step == 0:
            found |= under("gradient", gradients)
            found |= under("first", states) if case != ONE_STEP else {}
    found |= under("state", states) if case != ONE_STEP else {}
    return {**found, "losses": np.array(losses)}
