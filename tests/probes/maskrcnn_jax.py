"""Runs in JAX's environment: functions of Mask R-CNN's trainer with JAX-specific calls.

maskrcnn_trainers.py describes the functions that all frameworks have.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from testing import synthetic_maskrcnn as synthetic
from tests.probes.maskrcnn_trainers import trainer_of
from tests.workloads.maskrcnn import regions_plain as plain
from workloads.frameworks.jax.regions import pool
from workloads.maskrcnn.regions import host
from workloads.maskrcnn.regions import jax as regions
from workloads.maskrcnn.regions.detections import detect


def suppress(boxes, scores, most_iou):
    """Return the indices of the boxes (n, 4) that are kept.

    Right and bottom edges are outside the boxes. Scores are in descending order.
    """
    box = jnp.asarray(boxes - np.array([0, 0, 1, 1], np.float32))[None]
    return np.flatnonzero(
        jax.jit(regions.kept, static_argnums=2)(box, jnp.ones((1, len(boxes)), bool), most_iou)[0]
    )


def inputs_of(trainer, batch):
    """Return a batch's inputs of `build_model` and `loss`: weights, statistics, and arrays."""
    arrays = trainer.host_arrays(batch, training=True)
    statistics = {name: value[0] for name, value in trainer.moved.items()}
    return trainer.values, statistics, {name: jnp.asarray(array) for name, array in arrays.items()}


def parts(trainer, batch):
    """Return the losses of a batch by name."""

    def computed(weights, statistics, arrays):
        return trainer.losses(trainer.build_model(weights, statistics), arrays)

    found = jax.jit(computed)(*inputs_of(trainer, batch))
    return {name: np.array(value) for name, value in found.items()}


def proposals(trainer, batch):
    """Return boxes and anchors of the proposals for each image."""
    found = between(trainer, batch, True)[1]
    return [(box[used], anchor[used]) for box, anchor, used in zip(*found, strict=True)]


def between(trainer, batch, training):
    """Return RPN's outputs for a batch, and the proposals."""

    def computed(weights, statistics, arrays):
        model = trainer.build_model(weights, statistics)
        _, objectness, deltas = model.first_half(arrays["image"], arrays["size"], training)
        return (objectness, deltas), trainer.proposals(objectness, deltas, arrays, training)

    return jax.tree.map(np.array, jax.jit(computed)(*inputs_of(trainer, batch)))


def decided(case):
    """Return training targets and detections decided on the host and on the device.

    The keys begin with `host/` or `device/`. Both use the same outputs of RPN. Detections have
    random scores.
    """
    workload, trainer = trainer_of("jax", case)
    batch, rules, model = synthetic.batch(workload, 1), trainer.rules, trainer.settings.model
    arrays = inputs_of(trainer, batch)[2]
    outputs, proposed = between(trainer, batch, True)
    on_host = host.proposals(batch.arrays, *outputs, model, rules, plain.suppress_edges, True)
    learned = host.sampled(on_host, batch.arrays, trainer.settings.seed, rules, every_slot=True)
    on_device = jax.jit(functools.partial(regions.sample, rules=rules))(proposed, arrays)
    outputs, proposed = between(trainer, batch, False)
    on_host = host.proposals(batch.arrays, *outputs, model, rules, plain.suppress_edges, False)
    shape, rng = (
        (*proposed.is_present.shape, workload.network.classes + 1),
        np.random.default_rng(6),
    )
    scores = np.array(jax.nn.softmax(3 * rng.normal(size=shape).astype(np.float32)))
    deltas, sizes = rng.normal(size=(*shape, 4)).astype(np.float32), batch.arrays["size"]
    found = detect(
        [proposal.box for proposal in on_host], scores, deltas, sizes, rules, plain.suppress_edges
    )
    detections = jax.jit(functools.partial(regions.detect, rules=rules))(
        proposed, scores, deltas, sizes
    )
    trainer.close()
    pairs = {"host": (learned, vars(found)), "device": (on_device, detections)}
    return {
        f"{where}/{what}/{name}": np.array(value)
        for where, pair in pairs.items()
        for what, arrays in zip(("learned", "detected"), pair, strict=True)
        for name, value in arrays.items()
    }


def pooled(side):
    """Return `values` and `gradients` of regions pooled from three maps, in PyTorch's layout."""
    maps, box, level, wanted = synthetic.maps_and_regions(side)
    arrays = [jnp.asarray(array.transpose(0, 2, 3, 1)) for array in maps]
    pool_maps = functools.partial(
        pool, strides=synthetic.STRIDES, box=jnp.asarray(box), level=level, side=side
    )
    values, back = jax.vjp(pool_maps, arrays)
    (gradients,) = back(jnp.asarray(wanted.transpose(0, 2, 3, 1)))
    flat = np.concatenate([np.array(array).transpose(0, 3, 1, 2).ravel() for array in gradients])
    return {"values": np.array(values).transpose(0, 3, 1, 2), "gradients": flat}
