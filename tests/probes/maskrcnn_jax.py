"""Run inside JAX's environment: what Mask R-CNN's trainer calls in its own way, and what only it has."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from suite_jax import regions
from suite_jax.maskrcnn import Detector

from testing import synthetic_maskrcnn as synthetic


def suppress(boxes, scores, most_iou):
    """Places of the boxes (n, 4) that are kept, whose right and bottom edges do not belong to them; scores fall."""
    box = jnp.asarray(boxes - np.array([0, 0, 1, 1], np.float32))[None]
    return np.flatnonzero(jax.jit(regions.kept, static_argnums=2)(box, jnp.ones((1, len(boxes)), bool), most_iou)[0])


def given(trainer, batch):
    """Weights, statistics and arrays of a batch, as `loss_of` takes them."""
    arrays = trainer.training_batch(batch).arrays
    statistics = {name: value[0] for name, value in trainer.moved.items()}
    return trainer.values, statistics, {name: jnp.asarray(arrays[name]) for name in trainer.inputs}


def parts(trainer, batch):
    """The losses of a batch by name."""
    found, _ = jax.jit(trainer.parts_of)(*given(trainer, batch))
    return {name: np.array(value) for name, value in found.items()}


def proposals(trainer, batch):
    """Those of each image, boxes and anchors."""

    def proposed(weights, statistics, arrays):
        model = Detector(weights, statistics, trainer.dtype, True, trainer.workload.network)
        _, objectness, deltas = model.first_half(arrays["image"], arrays["size"])
        return trainer.proposals(objectness, deltas, arrays, True)

    found = jax.jit(proposed)(*given(trainer, batch))
    return [(box[there], anchor[there]) for box, anchor, there in zip(*map(np.array, found), strict=True)]


def pooled(side):
    """`values` and `gradients` of regions of three maps, laid out as PyTorch's."""
    maps, box, level, wanted = synthetic.maps_and_regions(side)
    given = [jnp.asarray(one.transpose(0, 2, 3, 1)) for one in maps]
    pool = functools.partial(regions.pool, strides=synthetic.STRIDES, box=jnp.asarray(box), level=level, side=side)
    values, back = jax.vjp(pool, given)
    (gradients,) = back(jnp.asarray(wanted.transpose(0, 2, 3, 1)))
    flat = np.concatenate([np.array(one).transpose(0, 3, 1, 2).ravel() for one in gradients])
    return {"values": np.array(values).transpose(0, 3, 1, 2), "gradients": flat}
