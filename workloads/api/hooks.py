"""Functions that a workload's trainer defines for its model.

The functions have the same signatures in all frameworks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from workloads.api.data import Batch
from workloads.api.values import Arrays

Model = TypeVar("Model")
Tensor = TypeVar("Tensor")


class ModelHooks(Generic[Model, Tensor]):
    """Loss and outputs of a model.

    The framework's `ModelTrainer` implements the rest of a training step.

    `model` is the network with its parameters: a module in PyTorch, variables in TensorFlow, arrays
    or symbols in MXNet and JAX. `batch` maps names to arrays on the device. The host prepares these
    arrays in `host_arrays`. The first axis of an array is the sample axis. With
    `accumulation_steps`, each call receives one micro-batch. All micro-batches of a replica have
    the same size.
    """

    inputs: tuple[str, ...] = ()
    """Names of the batch arrays that `loss` needs."""
    evaluation_inputs: tuple[str, ...] = ()
    """Names of the batch arrays that `outputs` needs."""

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the sum of the loss terms of a batch in training mode, as a scalar in fp32.

        Each loss term is multiplied by the weight of its sample. The caller divides the sum by
        `Batch.global_weight_sum` and sums the quotients over all replicas. The loss of a step is
        therefore the weighted mean over the global batch.
        """
        raise NotImplementedError

    def outputs(self, model: Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the arrays for `Workload.eval_batch_metrics` by name.

        The model runs in evaluation mode.
        """
        raise NotImplementedError

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        """Return the host arrays for `loss` if `training` is true, or for `outputs`.

        By default, the method returns the arrays of the batch that `inputs` or `evaluation_inputs`
        lists. A subclass may add arrays that the host computes, such as dropout masks.
        """
        names = self.inputs if training else self.evaluation_inputs
        return {name: batch.arrays[name] for name in names}
