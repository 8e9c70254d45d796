"""Functions that a workload's trainer defines for its model.

They have the same signature in every framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from workloads.api.data import Batch
from workloads.api.values import Arrays

Model = TypeVar("Model")
Tensor = TypeVar("Tensor")


class ModelHooks(Generic[Model, Tensor]):
    """Loss and outputs of a model. The `ModelTrainer` of each framework does the rest of a step.

    `model` is the network with its parameters: a module in PyTorch, variables in TensorFlow, arrays
    or symbols in MXNet and JAX. `batch` maps names to arrays on the device, which `host_arrays`
    prepared on the host. The first axis of an array counts samples. With `accumulation_steps` a
    call gets one of the equal parts of a replica's batch.
    """

    inputs: tuple[str, ...] = ()
    """Names of the arrays that `loss` takes."""
    evaluation_inputs: tuple[str, ...] = ()
    """Names of the arrays that `outputs` takes."""

    def loss(self, model: Model, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the sum of the loss terms of a batch in training mode: a scalar in fp32.

        Each term counts with the weight of its sample. The caller divides the sum by
        `Batch.global_weight_sum` and adds up the replicas, so the loss of a step is the weighted
        mean over the global batch.
        """
        raise NotImplementedError

    def outputs(self, model: Model, batch: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the arrays, by name, for `Workload.eval_batch_metrics`.

        They are computed in evaluation mode.
        """
        raise NotImplementedError

    def host_arrays(self, batch: Batch, training: bool) -> Arrays:
        """Return the arrays that `loss` (if `training`) or `outputs` takes, on the host.

        Default: the arrays of the batch that `inputs` or `evaluation_inputs` names. A subclass adds
        arrays that the host computes, such as dropout masks.
        """
        names = self.inputs if training else self.evaluation_inputs
        return {name: batch.arrays[name] for name in names}
