"""Runs in a framework's environment: gradients of a batch per device, summed over devices.

They are returned by name, in canonical layout.
"""

import numpy as np


def alone(trainer, batch):
    """Return the factor that makes one device's gradient comparable with the sum over two devices.

    A device that is alone divides a batch of two devices by their number.
    """
    return batch.global_weight_sum / batch.weight_sum if trainer.worker.num_replicas == 1 else 1


def of_pytorch(trainer, batch):
    """Return the gradients of all trained parameters, in the type of the model."""
    trainer.backward(batch)
    factor = alone(trainer, batch)
    found = {
        name: factor * value.grad.numpy()
        for name, value in trainer.parameters.items()
        if value.requires_grad
    }
    trainer.clear_gradients()
    return found


def of_tensorflow(trainer, batch):
    """Return the same as `of_pytorch`."""
    factor = alone(trainer, batch)
    return {
        name: factor * trainer.model.outside(name, value.numpy())
        for name, value in trainer.backward(batch).items()
    }


def of_jax(trainer, batch):
    """Return the same as `of_pytorch`."""
    from workloads.frameworks.jax.trainer import here

    factor = alone(trainer, batch)
    trainer.backward(batch)
    return {
        name: factor * trainer.outside(name, here(value))
        for name, value in trainer.gradients.items()
    }


def of_mxnet(trainer, *batches):
    """Return the gradients before the optimizer sums them."""
    from workloads.frameworks.mxnet.flat import views

    trainer.backward(list(batches))
    parts, factor = (
        [views(replica.gradient, trainer.layout.shapes) for replica in trainer.replicas],
        alone(trainer, batches[0]),
    )
    return {name: factor * np.sum([part[name].asnumpy() for part in parts], 0) for name in parts[0]}


OF = {"pytorch": of_pytorch, "tensorflow": of_tensorflow, "jax": of_jax, "mxnet": of_mxnet}
