"""Functions that a workload's trainer defines for its model.

The functions have the same signatures in every framework.
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

    The framework's `ModelTrainer` implements all other work of a step.

    `model` is the network with its parameters: a module in PyTorch, variables in TensorFlow, arrays
    or symbols in MXNet and JAX. `batch` contains arrays on the device by name, which `host_arrays`
    prepared on the host. The first axis of an array is the sample axis. With `accumulation_steps`,
    a call receives one of the equal fractions of a replica's batch.
    """

    inputs: tuple[str, ...] = ()
    """Names of the arrays that `loss` needs."""
    evaluation_inputs: tuple[str, ...] = ()
    """Names of the arrays that `outputs` needs."""

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the sum of the loss terms of a batch in training mode, as a scalar in fp32.

        Each term is multiplied by the weight of its sample. The caller divides the sum by
        `Batch.global_weight_sum` and sums over the replicas, so the loss of a step is the weighted
        mean over the global batch.
        """
        raise NotImplementedError

    def outputs(self, model: Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the arrays for `Workload.eval_batch_metrics` by name.

        The outputs are computed in evaluation mode.
        """
        raise NotImplementedError

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        """Return the arrays, on the host, for `loss` (if `training`) or `outputs`.

        The default is the arrays of the batch whose names are in `inputs` or `evaluation_inputs`. A
        subclass may add arrays that the host computes, such as dropout masks.
        """
        names = self.inputs if training else self.evaluation_inputs
        return {name: batch.arrays[name] for name in names}
