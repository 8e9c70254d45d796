"""Run inside PyTorch's environment: what Mask R-CNN's trainer computes of the synthetic cases."""

import functools
from unittest import mock

import numpy as np
import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

from suite.common.registry import load_trainer
from tests.probes.image_trainers import digest, place_here, under
from tests.workloads.maskrcnn import synthetic_maskrcnn as synthetic
from workloads.frameworks.pytorch import regions
from workloads.maskrcnn import pytorch as module
from workloads.maskrcnn.regions import pytorch as on_gpu
from workloads.maskrcnn.regions import rules


def trainer_of(case, devices=None, **changes):
    """A trainer with the case's weights."""
    workload = synthetic.workload(case, "pytorch", devices or 1, **changes)
    trainer = load_trainer("maskrcnn", "pytorch")(workload, place_here(devices))
    trainer.setup(synthetic.weights(workload).items(), warm_up=True)
    return workload, trainer


def computed(case):
    """As maskrcnn_torchvision.py names it; gradients in float64; `losses` of ten steps, `digests` of the state."""
    workload, trainer = trainer_of(case)
    batch, initial = synthetic.batch(workload, 0), trainer.state()
    trainer.load_state({**initial, **synthetic.statistics(workload)})
    ((_, outputs),) = trainer.predict([[batch]])
    there = outputs["label"] > 0
    found = {name: outputs[name][there] for name in ("box", "score", "label", "mask")}
    found["count"] = there.sum(1)
    proposed = []
    keep = trainer.proposals
    trainer.proposals = lambda *given, **words: proposed.append(keep(*given, **words)) or proposed[-1]
    found |= {f"loss/{name}": value.detach().numpy() for name, value in trainer.parts(batch).items()}
    found["proposals"] = synthetic.by_anchor([(one.box, one.anchor) for one in proposed[0]])
    trainer.load_state(initial)
    batches = [synthetic.batch(workload, step) for step in range(10)]
    losses = [trainer.train([[one]], step).loss for step, one in enumerate(batches)]
    state = trainer.state()
    weights = synthetic.weights(workload)
    trainer.setup(weights.items(), False)
    trainer.load_state(state)
    found |= {"losses": np.array(losses), "digests": np.array([digest(state), digest(trainer.state())])}
    moved = [name for name, value in weights.items() if not np.array_equal(value, state[name])]
    found["moved"] = np.array(moved)
    trainer.load_state({**initial, **synthetic.statistics(workload)})
    trainer.model.double()
    trainer.loss(batch).backward()
    gradients = {name: value.grad.numpy() for name, value in trainer.parameters.items() if value.requires_grad}
    trainer.close()
    return {**found, **under("gradient", gradients)}


def pooled(side):
    """Values and gradients of regions of three maps: by products, by level, as on a GPU, and by torchvision alone.

    `at_one_place`: how many regions a GPU's level pools from the same place, for each level.
    """
    from torchvision.ops import roi_align

    maps, box, level, wanted = synthetic.maps_and_regions(side)
    strides, box, level, wanted = synthetic.STRIDES, *map(torch.from_numpy, (box, level, wanted))
    images = torch.arange(2.0).repeat_interleave(40)[:, None]
    rows = torch.cat([images, box.flatten(0, 1)], 1)

    def alone(given):
        parts = [
            roi_align(given[number], row[None], side, 1 / strides[number], 2)
            for row, number in zip(rows, level.flatten().tolist(), strict=True)
        ]
        return torch.cat(parts)

    ways = {
        "torchvision": alone,
        "products": lambda given: regions._pool_by_products(given, strides, box, level, side),
        "levels": lambda given: regions._pool_by_level(given, strides, rows, level.flatten(), side),
        "device": lambda given: regions._pool_on_device(given, strides, rows, level.flatten(), side),
    }
    found = {}
    for name, way in ways.items():
        given = [torch.from_numpy(one).requires_grad_() for one in maps]
        values = way(given)
        (values * wanted).sum().backward()
        gradients = np.concatenate([one.grad.numpy().ravel() for one in given])
        found |= {f"{name}/values": values.detach().numpy(), f"{name}/gradients": gradients}
    with mock.patch.object(regions, "roi_align", wraps=regions.roi_align) as align:
        ways["device"]([torch.from_numpy(one) for one in maps])
    places = [call.args[1].unique(dim=0, return_counts=True)[1] for call in align.call_args_list]
    return {**found, "at_one_place": np.array([int(counts.max()) for counts in places])}


def suppressed(count):
    """What `suppress` keeps of clustered boxes, and those boxes with their scores; many scores are equal."""
    box, score = synthetic.clustered(count)
    on_device = on_gpu.kept(torch.from_numpy(box)[None], torch.from_numpy(score)[None], 0.7)[0].nonzero()[:, 0]
    kept = rules.suppressed(regions.suppress, box, score, 0.7)
    return {"box": box, "score": score, "kept": kept, "on_device": on_device.numpy()}


def shared(case, devices=2):
    """Losses, digest of the state and gradients, summed over the devices, of a step with objects and of one without any."""
    workload, trainer = trainer_of(case, devices)
    found, place = {}, trainer.place.replicas[0]
    for name, empty in (("full", False), ("empty", True)):
        trainer.backward(synthetic.batch(workload, 0, place, empty))
        gradients = {key: value.grad.numpy().copy() for key, value in trainer.parameters.items() if value.requires_grad}
        found |= under(name, gradients)
        trainer.clear_gradients()
    stats = trainer.train([[synthetic.batch(workload, step, place, step == 1)] for step in range(3)], 0)
    found |= {"loss": np.array(stats.loss), "digest": np.array(digest(trainer.state()))}
    trainer.close()
    return found


def halves(case):
    """Of one device: gradients of each of the two devices' batches, and of one without objects."""
    workload, trainer = trainer_of(case)
    two, found = synthetic.workload(case, "pytorch", 2), {}
    for name, batch in (
        ("first", synthetic.batch(two, 0, 0)),
        ("second", synthetic.batch(two, 0, 1)),
        ("empty", synthetic.batch(workload, 0, 0, True)),
    ):
        trainer.backward(batch)
        gradients = {key: value.grad.numpy().copy() for key, value in trainer.parameters.items() if value.requires_grad}
        found |= under(name, gradients)
        trainer.clear_gradients()
    dummies = [trainer.loss_alone(workload.dummy_batch(specs)).item() for specs in workload.shapes()]
    trainer.close()
    return {**found, "dummies": np.array(dummies)}


def on_device(case, empty=False):
    """`host/NAME` and `device/NAME` of what a batch learns, decided on the host and as on a GPU; `losses` of both."""
    workload, trainer = trainer_of(case)
    batch = synthetic.batch(workload, 1, empty=empty)
    names = ("image", "size", "anchor", "anchor_label", "anchor_weight", "anchor_offset")
    arrays = {name: trainer.to_device(batch.arrays[name]) for name in names}
    there, found, losses = trainer.between(batch.arrays, arrays), {}, []
    for name, between in (("host", functools.partial(trainer.learned, batch.arrays)), ("device", there)):
        outputs = trainer.model(arrays["image"], arrays["size"], between)
        outputs["mask"] = torch.from_numpy(on_gpu.Positives(outputs).masks(batch.arrays, trainer.rules.mask_side))
        losses.append([value.item() for value in module.losses(outputs, arrays).values()])
        found |= under(
            name, {key: outputs[key].numpy() for key in ("box", "level", "label", "weight", "delta", "mask")}
        )
    trainer.close()
    return {**found, "losses": np.array(losses)}


def detected(case):
    """`host/NAME` and `device/NAME` of what is detected in a batch, decided on the host and as on a GPU."""
    workload, trainer = trainer_of(case)
    trainer.load_state({**trainer.state(), **synthetic.statistics(workload)})
    batch = synthetic.batch(workload, 0)
    trainer.model.eval()
    with torch.no_grad():
        host, device = trainer.outputs(batch), trainer.outputs_on_device(batch)
    trainer.close()
    return {
        f"{name}/{key}": value.numpy()
        for name, one in (("host", host), ("device", device))
        for key, value in one.items()
    }


def waits(case):
    """Whether anything between the halves but suppression, or in pooling, looks at values: fake tensors have none."""
    workload, trainer = trainer_of(case)
    batch = synthetic.batch(workload, 1)
    names = ("image", "size", "anchor", "anchor_label", "anchor_weight", "anchor_offset")
    arrays = {name: trainer.to_device(batch.arrays[name]) for name in names}
    between = trainer.between(batch.arrays, arrays)
    with torch.no_grad():
        maps, objectness, deltas = trainer.model.first_half(arrays["image"], arrays["size"])
    found, strides = {}, trainer.model.strides
    every = mock.patch.object(on_gpu, "kept", lambda boxes, scores, most_iou: torch.ones_like(scores))
    with every, FakeTensorMode() as mode:
        words = {
            name: torch.utils._pytree.tree_map(mode.from_tensor, between.keywords[name])
            for name in ("anchors", "batch")
        }
        fake = between.func(*map(mode.from_tensor, (objectness, deltas)), **words, rules=trainer.rules)
        found |= {f"shape/{name}": np.array(value.shape) for name, value in fake.items()}
        rows = torch.cat([fake["box"].flatten(0, 1)[:, :1] * 0, fake["box"].flatten(0, 1)], 1)
        pooled = regions._pool_on_device(
            [mode.from_tensor(one) for one in maps], strides, rows, fake["level"].flatten(), 7
        )
        found["shape/pooled"] = np.array(pooled.shape)
        try:
            fake["weight"].nonzero()
        except DynamicOutputShapeException:
            found["noticed"] = np.array(True)
    trainer.close()
    return found
