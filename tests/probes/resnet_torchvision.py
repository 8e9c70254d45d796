"""Run inside PyTorch's environment: the cases of synthetic_resnet.py by torchvision's own ResNet in float64, as .npz.

    python resnet_torchvision.py CASE OUT.npz

An independent reference: its model, PyTorch's cross-entropy, the optimizers in NumPy (workloads/common/optimizers.py).
Holds `logits`, `training_loss`, `losses` and `state/…` as resnet_probe.py does.
"""

import sys

import numpy as np
import torch
from torchvision.models.resnet import Bottleneck, ResNet

from tests.workloads.resnet50 import synthetic_resnet
from workloads.common import optimizers
from workloads.resnet50 import network


def load(model, values):
    model.load_state_dict({name: torch.from_numpy(np.float64(value)) for name, value in values.items()}, strict=False)


def main():
    case, out = sys.argv[1:3]
    made = synthetic_resnet.workload(case, "pytorch")
    values = made.settings.hyperparameters
    model = ResNet(Bottleneck, list(made.settings.model["blocks"]), num_classes=made.network.classes).double()
    weights = synthetic_resnet.weights(made)
    parameters = dict(model.named_parameters())
    assert {name: tuple(value.shape) for name, value in parameters.items()} == network.shapes(made.network)

    def images(batch):
        return torch.from_numpy(np.float64(batch.arrays["image"]) - network.MEAN).permute(0, 3, 1, 2)

    def loss(batch):
        label = torch.from_numpy(batch.arrays["label"]).long()
        return torch.nn.functional.cross_entropy(model(images(batch)), label, label_smoothing=values["label_smoothing"])

    load(model, {**weights, **synthetic_resnet.statistics(made)})
    found = {"logits": model.eval()(images(synthetic_resnet.batch(made, 0))).detach().numpy()}
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.reset_running_stats()
    load(model, weights)
    current = {name: np.float64(value) for name, value in weights.items()}
    velocities = {name: np.zeros_like(value) for name, value in current.items()}
    losses = []
    for step in range(1 if case == "full" else synthetic_resnet.STEPS):
        model.zero_grad()
        value = loss(synthetic_resnet.batch(made, step))
        value.backward()
        losses.append(value.item())
        rate = made.learning_rate(step)
        for name, weight in current.items():
            gradient, rule = parameters[name].grad.numpy(), made.parameter_rule(name)
            if made.uses_lars:
                update = optimizers.lars(
                    weight, velocities[name], gradient, rate, values["momentum"], values["lars_coefficient"], rule
                )
            else:
                update = optimizers.sgd(weight, velocities[name], gradient, rate, values["momentum"], rule.decay)
            current[name], velocities[name] = update
        load(model, current)
    statistics = {name: value.numpy() for name, value in model.named_buffers() if "running" in name}
    state = {**current, **statistics, **{f"velocity.{name}": value for name, value in velocities.items()}}
    found |= {"losses": np.array(losses), "training_loss": np.array(losses[0])}
    states = {f"state/{name}": value for name, value in state.items()} if case != "full" else {}
    np.savez(out, **found, **states)


if __name__ == "__main__":
    main()
