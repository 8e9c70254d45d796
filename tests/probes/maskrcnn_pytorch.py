"""Runs in PyTorch's environment: functions of Mask R-CNN's trainer with PyTorch-specific calls.

maskrcnn_trainers.py describes the functions that all frameworks have.
"""

import functools
from unittest import mock

import numpy as np
import torch

from testing import synthetic_maskrcnn as synthetic
from tests.probes.image_trainers import under
from tests.probes.maskrcnn_trainers import trainer_of
from workloads.frameworks.pytorch import regions
from workloads.frameworks.pytorch.residual import FrozenNorm
from workloads.maskrcnn import pytorch as module
from workloads.maskrcnn.regions import pytorch as on_gpu

suppress = regions.suppress


def losses_of(trainer, batch):
    return trainer.losses(trainer.training_model, trainer.device_arrays(batch, training=True))


def parts(trainer, batch):
    """Return the losses of a batch by name."""
    return {name: value.detach().numpy() for name, value in losses_of(trainer, batch).items()}


def folded():
    """Return maps and gradients of the frozen case's trunk, with norms folded in two ways.

    Norms are folded stage by stage and layer by layer: in fp32, in bf16, and after the norms have
    changed. `left` is the number of norms with a prepared weight that was not used.
    """
    workload = synthetic.workload("frozen", "pytorch")
    model = module.Detector(workload.network).to(memory_format=torch.channels_last)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with torch.no_grad():
        for name, value in synthetic.weights(workload).items():
            tensors[name].copy_(torch.from_numpy(value))
    trunk = {
        name: parameter
        for name, parameter in model.named_parameters()
        if name.startswith(("conv1", "layer"))
    }
    for name, parameter in trunk.items():
        parameter.requires_grad_(not workload.parameter_rule(name).frozen)
    trained = {name: parameter for name, parameter in trunk.items() if parameter.requires_grad}
    x = (
        torch.linspace(-50, 50, 2 * 3 * 64 * 96)
        .sin()
        .view(2, 3, 64, 96)
        .contiguous(memory_format=torch.channels_last)
    )
    found = {}
    for case in ("fp32", "bf16", "changed"):
        if case == "changed":
            tensors["layer2.0.bn2.weight"].mul_(1.5)
            tensors["layer3.0.bn1.bias"].add_(0.5)
        for way in ("stages", "layers"):
            with torch.autocast("cpu", torch.bfloat16, enabled=case != "fp32"):
                if way == "stages":
                    model.fold("cpu")
                maps = model.stage_maps(x)
            gradients = torch.autograd.grad(
                sum(array.float().square().mean() for array in maps), [*trained.values()]
            )
            of_maps = {f"map{number}": array.detach().float() for number, array in enumerate(maps)}
            for name, value in {**of_maps, **dict(zip(trained, gradients, strict=True))}.items():
                found[f"{way}/{case}/{name}"] = value.numpy()
    left = sum(
        norm.prepared is not None for norm in model.modules() if isinstance(norm, FrozenNorm)
    )
    return {**found, "left": np.array(left)}


def pooled(side):
    """Return values and gradients of regions pooled from three maps.

    The ways are: by products, by level, as on a GPU, and by torchvision alone. `at_one_place` is
    the number of regions that a GPU's level pools from the same place, for each level.
    """
    from torchvision.ops import roi_align

    maps, box, level, wanted = synthetic.maps_and_regions(side)
    strides, box, level, wanted = synthetic.STRIDES, *map(torch.from_numpy, (box, level, wanted))
    images = torch.arange(2.0).repeat_interleave(40)[:, None]
    rows = torch.cat([images, box.flatten(0, 1)], 1)

    def alone(leaves):
        parts = [
            roi_align(leaves[number], row[None], side, 1 / strides[number], 2)
            for row, number in zip(rows, level.flatten().tolist(), strict=True)
        ]
        return torch.cat(parts)

    ways = {
        "torchvision": alone,
        "products": lambda leaves: regions._pool_by_products(leaves, strides, box, level, side),
        "levels": lambda leaves: regions._pool_by_level(
            leaves, strides, rows, level.flatten(), side
        ),
        "device": lambda leaves: regions._pool_on_device(
            leaves, strides, rows, level.flatten(), side
        ),
    }
    found = {}
    for name, way in ways.items():
        leaves = [torch.from_numpy(array).requires_grad_() for array in maps]
        values = way(leaves)
        (values * wanted).sum().backward()
        gradients = np.concatenate([array.grad.numpy().ravel() for array in leaves])
        found |= {f"{name}/values": values.detach().numpy(), f"{name}/gradients": gradients}
    with mock.patch.object(regions, "roi_align", wraps=regions.roi_align) as align:
        ways["device"]([torch.from_numpy(array) for array in maps])
    places = [call.args[1].unique(dim=0, return_counts=True)[1] for call in align.call_args_list]
    return {**found, "at_one_place": np.array([int(counts.max()) for counts in places])}


def suppressed_on_device(count):
    """Return the indices of clustered boxes that are kept as on a GPU."""
    box, score = map(torch.from_numpy, synthetic.clustered(count))
    return {"kept": on_gpu.kept(box[None], score[None], 0.7)[0].nonzero()[:, 0].numpy()}


def on_device(case, empty=False):
    """Return training targets decided on the host (`host/NAME`) and as on a GPU (`device/NAME`).

    `losses` has the losses of both.
    """
    workload, trainer = trainer_of("pytorch", case)
    batch = synthetic.batch(workload, 1, empty=empty)
    names = ("image", "size", "anchor", "anchor_label", "anchor_weight", "anchor_offset")
    arrays = {name: trainer.to_device(batch.arrays[name]) for name in names}
    decided, found, losses = trainer.between(batch.arrays, arrays), {}, []
    for name, between in (
        ("host", functools.partial(trainer.learned, batch.arrays)),
        ("device", decided),
    ):
        outputs = trainer.model(arrays["image"], arrays["size"], between)
        outputs["mask"] = torch.from_numpy(
            on_gpu.Positives(outputs).masks(batch.arrays, trainer.rules.mask_side)
        )
        losses.append([value.item() for value in module.losses(outputs, arrays).values()])
        kept = ("box", "level", "label", "weight", "delta", "mask")
        found |= under(name, {key: outputs[key].numpy() for key in kept})
    trainer.close()
    return {**found, "losses": np.array(losses)}


def detected(case):
    """Return detections decided on the host (`host/NAME`) and as on a GPU (`device/NAME`)."""
    workload, trainer = trainer_of("pytorch", case)
    trainer.load_state_dict({**trainer.state_dict(), **synthetic.statistics(workload)})
    batch = synthetic.batch(workload, 0)
    trainer.model.eval()
    with torch.no_grad():
        arrays = trainer.device_arrays(batch, training=False)
        host, device = (
            way(trainer.model, arrays) for way in (trainer.outputs, trainer.outputs_on_device)
        )
    trainer.close()
    found = {**under("host", host), **under("device", device)}
    return {name: value.numpy() for name, value in found.items()}
