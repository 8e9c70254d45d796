"""Runs in TensorFlow's environment: functions of Mask R-CNN's trainer for TensorFlow.

maskrcnn_trainers.py describes the functions that all frameworks have.
"""

import numpy as np
import tensorflow as tf

from testing import synthetic_maskrcnn as synthetic
from tests.probes.gradients import of_tensorflow
from tests.probes.image_trainers import under
from tests.probes.maskrcnn_trainers import trainer_of
from workloads.frameworks.tensorflow import regions

suppress = regions.suppress


def parts(trainer, batch):
    """Return the losses of a batch by name."""
    arrays = dict(zip(trainer.inputs, trainer.tensors(batch, training=True), strict=True))
    found = trainer.losses(trainer.model, arrays)
    return {name: value.numpy() for name, value in found.items()}


def pooled(side):
    """Return `values` and `gradients` of regions pooled from three maps, in PyTorch's layout."""
    maps, box, level, wanted = synthetic.maps_and_regions(side)
    arrays = [tf.constant(array.transpose(0, 2, 3, 1)) for array in maps]

    @tf.function(autograph=False)
    def both():
        with tf.GradientTape() as tape:
            tape.watch(arrays)
            pooled = regions.pool(
                regions.bordered(arrays), synthetic.STRIDES, box, tf.constant(level, tf.int32), side
            )
            total = tf.reduce_sum(pooled * wanted.transpose(0, 2, 3, 1))
        return pooled, tape.gradient(total, arrays)

    values, gradients = both()
    flat = np.concatenate([array.numpy().transpose(0, 3, 1, 2).ravel() for array in gradients])
    return {"values": values.numpy().transpose(0, 3, 1, 2), "gradients": flat}


def compiled():
    """Return loss, gradients and outputs of a batch with XLA (`on/…`) and without (`off/…`)."""
    found = {}
    for compile in ("on", "off"):
        workload, trainer = trainer_of("tensorflow", "frozen", compile=compile)
        batch = synthetic.batch(workload, 0)
        found |= under(compile, of_tensorflow(trainer, batch))
        ((_, outputs),) = trainer.predict([[batch]])
        found |= under(compile, {**outputs, "loss": np.array(trainer.forward([[batch]]).loss)})
        trainer.close()
    return found
