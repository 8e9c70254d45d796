"""Run inside PyTorch's environment: the cases of synthetic_ssd.py by torchvision's trunk in float64, as .npz.

    python ssd_torchvision.py CASE OUT.npz

An independent reference: torchvision's ResNet up to `layer3`, whose stride is taken away as the reference does it, plain
convolutions behind it, the loss and its derivatives in NumPy (tests/workloads/ssd/ssd_loss_numpy.py), the optimizer in NumPy
(workloads/common/optimizers.py). Holds `offsets`, `logits`, `losses`, `gradient/…`, `first/…` and `state/…` as ssd_probe.py
does.
"""

import sys

import numpy as np
import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet

from tests.workloads.ssd import ssd_loss_numpy, synthetic_ssd
from workloads.common import optimizers
from workloads.ssd import network


class Reference(nn.Module):
    """(B, 3, S, S) normalised images to offsets and logits."""

    def __init__(self, model, classes):
        super().__init__()
        whole = ResNet(BasicBlock, [*model["blocks"], 1])
        whole.layer3[0].conv1.stride = whole.layer3[0].downsample[0].stride = (1, 1)
        for name in ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3"):
            setattr(self, name, getattr(whole, name))
        self.classes, self.channels = classes, [256]
        for number, (between, outputs, stride, padding) in enumerate(model["extras"], 1):
            extra = nn.Sequential()
            extra.add_module("conv1", nn.Conv2d(self.channels[-1], between, 1))
            extra.add_module("relu1", nn.ReLU())
            extra.add_module("conv2", nn.Conv2d(between, outputs, 3, stride=stride, padding=padding))
            extra.add_module("relu2", nn.ReLU())
            setattr(self, f"extra{number}", extra)
            self.channels.append(outputs)
        for number, (channels, ratios) in enumerate(zip(self.channels, model["ratios"], strict=True), 1):
            boxes = 2 + 2 * len(ratios)
            setattr(self, f"box{number}", nn.Conv2d(channels, 4 * boxes, 3, padding=1))
            setattr(self, f"class{number}", nn.Conv2d(channels, (classes + 1) * boxes, 3, padding=1))

    def forward(self, x):
        """Maps from fine to coarse."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        maps = [self.layer3(self.layer2(self.layer1(x)))]
        for number in range(1, len(self.channels)):
            maps.append(getattr(self, f"extra{number}")(maps[-1]))
        offsets, logits = [], []
        for number, one in enumerate(maps, 1):
            offsets.append(getattr(self, f"box{number}")(one).view(one.shape[0], 4, -1))
            logits.append(getattr(self, f"class{number}")(one).view(one.shape[0], self.classes + 1, -1))
        return torch.cat(offsets, 2), torch.cat(logits, 2)


def load(model, values):
    model.load_state_dict({name: torch.from_numpy(np.float64(value)) for name, value in values.items()}, strict=False)


def states(kind, parameters, model, velocities):
    """The entries of a trainer's `state()`, under `kind/`."""
    running = {name: value.numpy().copy() for name, value in model.named_buffers() if "running" in name}
    found = {**parameters, **running, **{f"velocity.{name}": value for name, value in velocities.items()}}
    return {f"{kind}/{name}": value for name, value in found.items()}


def main():
    case, out = sys.argv[1:3]
    torch.set_num_threads(1)
    made = synthetic_ssd.workload(case, "pytorch")
    momentum = float(made.settings.hyperparameters["momentum"])
    model = Reference(made.settings.model, made.network.classes).double()
    weights = synthetic_ssd.weights(made)
    parameters = dict(model.named_parameters())
    assert {name: tuple(value.shape) for name, value in parameters.items()} == network.shapes(made.network)

    def images(batch):
        pixels = np.float64(batch.arrays["image"]) / 255
        return torch.from_numpy((pixels - network.MEAN) / network.DEVIATION).permute(0, 3, 1, 2).contiguous()

    load(model, {**weights, **synthetic_ssd.statistics(made)})
    with torch.no_grad():
        offsets, logits = model.eval()(images(synthetic_ssd.batch(made, 0)))
    found = {"offsets": offsets.numpy(), "logits": logits.numpy()}
    model.train()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
    load(model, weights)
    current = {name: np.float64(value) for name, value in weights.items()}
    velocities = {name: np.zeros_like(value) for name, value in current.items()}
    losses = []
    for step in range(1 if case == "full" else synthetic_ssd.STEPS):
        batch = synthetic_ssd.batch(made, step)
        model.zero_grad()
        offsets, logits = model(images(batch))
        value, by_logits, by_offsets = ssd_loss_numpy.loss_and_gradients(
            logits.detach().numpy(), offsets.detach().numpy(), batch.arrays["label"], batch.arrays["offset"]
        )
        torch.autograd.backward([logits, offsets], [torch.from_numpy(by_logits), torch.from_numpy(by_offsets)])
        losses.append(value)
        if step == 0:
            found |= {f"gradient/{name}": parameter.grad.numpy().copy() for name, parameter in parameters.items()}
        for name, weight in current.items():
            gradient, decay = parameters[name].grad.numpy(), made.parameter_rule(name).decay
            current[name], velocities[name] = optimizers.sgd(
                weight, velocities[name], gradient, made.learning_rate(step), momentum, decay
            )
        load(model, current)
        if step == 0:
            found |= states("first", current, model, velocities)
    np.savez(out, **found, **states("state", current, model, velocities), losses=np.array(losses))


if __name__ == "__main__":
    main()
