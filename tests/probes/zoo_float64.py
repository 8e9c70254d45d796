"""Run inside PyTorch's environment: five training steps of the zoo in float64, which every
framework's are held against.
"""

import numpy as np
import torch
import torch.nn.functional as F

from tests.probes.zoo_trainers import STEPS
from tests.workloads.zoo import synthetic_zoo
from workloads.common import optimizers
from workloads.frameworks.pytorch.layer_lists import LayerNetwork, run


def model_of(workload, weights):
    """The suite's list of layers in float64, with weights by name."""
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
    """Cross-entropy of a batch, as the trainers take it."""
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
    """One step of the optimizer, as `workloads.common.optimizers` has it."""
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
    """Losses of five steps of small images."""
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
