"""What trainers of image models have in common beside their framework: dummy batches to warm up on, fp16's loss scale."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workloads.api import ArraySpec, Batch

FP16_LOSS_SCALE = 128.0
"""Static: the default of ResNet's reference (resnet_run_loop.py), and that of NVIDIA's v0.5 entry of SSD. Gradients are
divided by it before the update."""
GREY = 128
"""Of dummy pixels."""


def training_batch(specs: Mapping[str, ArraySpec]) -> Batch:
    """Grey images `image` (B, H, W, 3) of one of the shapes, and targets of 0: the first class, background."""
    arrays = {name: np.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}
    arrays["image"].fill(GREY)
    count = len(arrays["image"])
    return Batch(arrays, float(count), float(count), count)


def evaluation_batch(specs: Mapping[str, ArraySpec], count: int) -> Batch:
    """`count` grey images of the shape of a training batch's."""
    return training_batch({"image": ArraySpec((count, *specs["image"].shape[1:]), "uint8")})
