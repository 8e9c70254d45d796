"""Runs in PyTorch's environment: five training steps of the zoo in float64.

The results of every framework are compared with them.
"""

import numpy as np
import torch
import torch.nn.functional as F

from tests.probes.zoo_trainers import STEPS
from tests.workloads.zoo import synthetic_zoo
from workloads.common import optimizers
from workloads.frameworks.pytorch.layer_lists import LayerNetwork, run


def model_of(workload, weights):
    """Return the suite's list of layers in float64, with the given weights, and the parameters."""
    model = LayerNetwork(workload.network).double()
    normalised, network = model.normalised, workload.network
    normalised.scale.copy_(
        1 / (255 * torch.tensor(network.deviation, dtype=torch.float64)).view(1, 3, 1, 1)
    )
    normalised.shift.copy_(
        -(torch.tensor(network.mean, dtype=torch.float64).view(1, 3, 1, 1)) * 255 * normalised.scale
    )
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(torch.from_numpy(weights[name]))
    return model, parameters


def loss_of(workload, model, batch):
    """Return the cross-entropy of a batch, normalized as in the trainers."""
    masks = {
        label: torch.from_numpy(mask).double()
        for label, mask in workload.dropout_masks(batch).items()
    }
    masks = {
        label: mask.permute(0, 3, 1, 2) if mask.ndim == 4 else mask for label, mask in masks.items()
    }
    images = torch.from_numpy(batch.arrays["image"])
    logits = run(model.steps, model.normalised(images), masks)
    labels = torch.from_numpy(batch.arrays["label"]).long()
    return F.cross_entropy(logits, labels, reduction="sum") / batch.global_weight_sum


def update(workload, parameters, states, rate):
    """Execute a step of the optimizer in `workloads.common.optimizers`."""
    settings = workload.optimizer()
    for name, parameter in parameters.items():
        weight, gradient = parameter.detach().numpy(), parameter.grad.numpy()
        rule = workload.parameter_rule(name)
        slots = states.setdefault(
            name, [np.zeros_like(weight) for _ in optimizers.SLOTS[settings.name]]
        )
        weight[...], *states[name] = optimizers.updated(
            settings, rule, rate, 0, gradient, weight, *slots
        )
        parameter.grad = None


def trained(model_name, image_size, chosen="sgd"):
    """Return the losses of five steps with small images."""
    workload = synthetic_zoo.workload(model_name, "pytorch", image_size, chosen)
    weights = {
        name: value.astype(np.float64) for name, value in synthetic_zoo.weights(workload).items()
    }
    model, parameters = model_of(workload, weights)
    states, losses = {}, []
    for step in range(STEPS):
        loss = loss_of(workload, model, synthetic_zoo.batch(workload, step))
        loss.backward()
        update(workload, parameters, states, workload.learning_rate(step))
        losses.append(loss.item())
    return {"losses": np.array(losses)}
