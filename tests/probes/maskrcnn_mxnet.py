"""Runs in MXNet's environment: functions of Mask R-CNN's trainer with MXNet-specific calls.

maskrcnn_trainers.py describes the functions that all frameworks have.
"""

import functools

import mxnet as mx
import numpy as np

from testing import synthetic_maskrcnn as synthetic
from workloads.frameworks.mxnet import regions
from workloads.frameworks.mxnet.trainer import in_turn

suppress = functools.partial(regions.suppress, context=mx.cpu())


def parts(trainer, batch):
    """Return the losses of a batch by name."""
    (found,) = in_turn([trainer.run_halves(0, batch, trainer.graphs_of(trainer.losses))])
    return {name: value.asscalar() for name, value in found.items()}


def replicas(trainer):
    """Return the parameters of each context."""
    return [
        {name: array.asnumpy() for name, array in replica.parameters.items()}
        for replica in trainer.replicas
    ]


def pooled(side):
    """Return `values` and `gradients` of regions pooled from three maps, in PyTorch's layout.

    `operator/…` are computed as on a GPU, `parts/…` with matrices of a few regions each.
    """
    maps, box, level, wanted = synthetic.maps_and_regions(side)
    shapes = [array.shape[2:] for array in maps]
    cells = mx.nd.array(
        np.concatenate([array.reshape(2, 5, -1).transpose(0, 2, 1) for array in maps], 1)
    )
    gradient = mx.nd.array(wanted.reshape(80, 5, -1).transpose(0, 2, 1))
    limit, found = regions.MAX_VALUES, {}
    for name, kind, most in (
        ("", regions.BySamples, limit),
        ("parts/", regions.BySamples, 20 * side * side * cells.shape[0] * cells.shape[1]),
        ("operator/", regions.ByOperator, limit),
    ):
        regions.MAX_VALUES = most
        pool = kind(shapes, synthetic.STRIDES, box, level, side, mx.cpu())
        values = pool(cells).asnumpy().transpose(0, 2, 1).reshape(wanted.shape)
        back = np.split(
            pool.back(gradient).asnumpy().transpose(0, 2, 1),
            np.cumsum([h * w for h, w in shapes])[:-1],
            2,
        )
        found |= {
            f"{name}values": values,
            f"{name}gradients": np.concatenate([array.ravel() for array in back]),
        }
        found[f"{name}matrices"] = np.array(len(getattr(pool, "matrices", ())))
    regions.MAX_VALUES = limit
    return found
