"""Image classification: ResNet-50 v1.5 on ImageNet, MLPerf Training v0.5 to v0.7.

This module does not import a framework.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from workloads.api import (
    Array,
    DataPipeline,
    DatasetInfo,
    Defaults,
    Json,
    OptimizerSettings,
    ParameterRule,
    Round,
    Settings,
    WorkerContext,
)
from workloads.common import schedules
from workloads.common.images.batches.classifier import ClassifierWorkload
from workloads.common.networks import residual
from workloads.resnet50 import network
from workloads.resnet50.settings import DEMO, REFERENCE_MODEL, ResNet50Options

REFERENCE_PARAMETERS = 25_557_032
"""Number of parameters with 1,000 classes (reference resnet_model.py)."""


class ResNet50(ClassifierWorkload):
    """Image classification with ResNet-50."""

    name = "resnet50"
    mlperf_name = "resnet"
    reference_model = REFERENCE_MODEL
    known_deviations = (
        (
            "images are resized with half-pixel centres, the TensorFlow reference's without"
            " (docs/reference/workloads/resnet50.md)"
        ),
        (
            "the max pool pads on every side, as NVIDIA's; the TensorFlow reference's below and to"
            " the right (docs/reference/workloads/resnet50.md)"
        ),
    )
    runs_required = 5
    Options = ResNet50Options
    options: ResNet50Options

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        self.network = network.build({**settings.model, "classes": dataset_info.sizes["classes"]})
        if settings.profile != "demo" and self.network.classes == 1000:
            count = network.parameter_count(self.network)
            assert count == REFERENCE_PARAMETERS, (
                f"{count} parameters, not the reference's {REFERENCE_PARAMETERS}"
            )

    @classmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        """Return the defaults of a profile.

        The target accuracy is 0.749 in v0.5 and 0.759 in v0.7.
        """
        return round.defaults(cls.name, profile, REFERENCE_MODEL, DEMO)

    @classmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """Return the sizes of the prepared data set.

        With `profile=synthetic`, the method returns the published sizes of ImageNet.

        Raises:
            ValueError: The batch cannot be divided equally among the devices.
        """
        from workloads.common.images.counts import IMAGENET

        return IMAGENET.for_settings(settings)

    @classmethod
    def activation_values(cls, settings: Settings) -> int:
        """Return the number of activations for an image.

        In fp32, the activations of 50 layers at 224 pixels need 89 MB.
        """
        size = int(settings.model["image_size"])
        return residual.activation_values(network.build(settings.model), size, size)

    # -- schedule
    # ----------------------------------------------------------------------------------------------

    def learning_rate(self, step: int) -> float:
        """Return the learning rate: a linear warm-up, then step decay or polynomial decay."""
        values = self.options
        base, warmup_steps = values.learning_rate, self.warmup_steps
        warming = schedules.warmup(step, warmup_steps, base)
        if warming is not None:
            return warming
        if values.decay == "steps":
            return schedules.step_decay(step, self.decay_boundaries, base, values.decay_factor)
        end, power = values.end_learning_rate, values.power
        return schedules.polynomial_decay(step, warmup_steps, self.decay_steps, base, end, power)

    @property
    def warmup_steps(self) -> int:
        """Return the number of warm-up steps.

        With `decay=steps`, the number of steps per epoch is a fraction, as in the reference.
        """
        epochs = self.options.warmup_epochs
        return (
            self._reference_steps(epochs)
            if self.options.decay == "steps"
            else epochs * self.steps_per_epoch
        )

    @property
    def decay_boundaries(self) -> list[int]:
        """Return the first step after each reduction of the learning rate.

        In the reference (resnet_run_loop.py), the step at a boundary still uses the learning rate
        before the reduction.
        """
        return [self._reference_steps(epoch) + 1 for epoch in self.options.decay_epochs]

    def _reference_steps(self, epochs: int) -> int:
        """Return the number of steps in `epochs` passes over the images, rounded down.

        The reference uses the formula num_images / batch_size · epochs.
        """
        return epochs * self.epoch_samples.trained // self.settings.global_batch_size

    @property
    def first_decay_step(self) -> int | None:
        """Return the first step of the decay with `decay=steps`.

        With polynomial decay, the property is None, because the decay begins at the end of the
        warm-up.
        """
        return self.decay_boundaries[0] if self.options.decay == "steps" else None

    @property
    def decay_steps(self) -> int:
        """Return the number of steps of the polynomial decay after the warm-up."""
        values = self.options
        return (values.horizon_epochs - values.warmup_epochs) * self.steps_per_epoch

    def evaluation_steps(self) -> Iterator[int]:
        """Yield the numbers of completed steps after which the model is evaluated.

        The first evaluation follows epoch `evaluation_offset_epochs`. The next evaluations follow
        every `evaluation_interval_epochs` epochs.
        """
        values = self.options
        first, interval = values.evaluation_offset_epochs, values.evaluation_interval_epochs
        return itertools.count(first * self.steps_per_epoch, interval * self.steps_per_epoch)

    def optimizer(self) -> OptimizerSettings:
        return replace(super().optimizer(), trust_coefficient=self.options.lars_coefficient)

    def parameter_rule(self, parameter: str) -> ParameterRule:
        """Return the update rule of a parameter.

        The scale and shift of batch norms have no weight decay. With SGD, the bias of the
        classifier has weight decay, as in the reference. With LARS, parameters that are not
        matrices have no weight decay, so the bias of the classifier has no weight decay, as in the
        reference. In contrast, NVIDIA's LARS applies weight decay to the bias of the classifier.
        """
        decay, lars = self.options.weight_decay, self.uses_lars
        if parameter == "fc.bias":
            return ParameterRule(0.0 if lars else decay)
        if network.is_norm(parameter, self.network):
            return ParameterRule()
        return ParameterRule(decay, lars_adapt=lars)

    @property
    def uses_lars(self) -> bool:
        """Return True for LARS and False for SGD with momentum."""
        return self.options.optimizer == "lars"

    # -- weights, data, quality
    # -----------------------------------------------------------------------------------

    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        """Yield the initial weights of every layer, identical in every framework.

        Hashes determine the weights. The option `initialisation` selects the distribution.
        """
        return network.initial_weights(self.network, self.options.initialisation, seed)

    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        from workloads.common.images.batches.labelled import ImageNetData, SyntheticImageData

        kind = SyntheticImageData if self.settings.profile == "synthetic" else ImageNetData
        return kind(self.settings, self.dataset_info, worker, seed)

    def log_keys(self) -> Mapping[str, Json]:
        values = self.options
        common = {
            "opt_name": values.optimizer,
            "model_bn_span": self.images_per_replica,
            "opt_label_smoothing": values.label_smoothing,
            "input_image_size": self.settings.model["image_size"],
            "input_area_minimum": self.settings.model["area_minimum"],
            "input_decode": self.options.decode,
        }
        if self.uses_lars:
            return {
                **common,
                "lars_opt_base_learning_rate": values.learning_rate,
                "lars_opt_end_learning_rate": values.end_learning_rate,
                "lars_opt_learning_rate_decay_poly_power": _whole(values.power),
                "lars_opt_learning_rate_decay_steps": self.decay_steps,
                "lars_epsilon": 0.0,
                "lars_opt_learning_rate_warmup_epochs": values.warmup_epochs,
                "lars_opt_momentum": values.momentum,
                "lars_opt_weight_decay": values.weight_decay,
            }
        sgd_keys = {
            "sgd_opt_base_learning_rate": values.learning_rate,
            "opt_learning_rate_warmup_epochs": values.warmup_epochs,
            "sgd_opt_momentum": values.momentum,
            "sgd_opt_weight_decay": values.weight_decay,
        }
        if values.decay == "steps":
            boundaries = {"opt_learning_rate_decay_boundary_epochs": list(values.decay_epochs)}
            return {
                **common,
                **sgd_keys,
                **boundaries,
                "opt_learning_rate_decay_factor": values.decay_factor,
            }
        return {
            **common,
            **sgd_keys,
            "sgd_opt_end_learning_rate": values.end_learning_rate,
            "sgd_opt_learning_rate_decay_poly_power": _whole(values.power),
            "sgd_opt_learning_rate_decay_steps": self.decay_steps,
        }


def _whole(value: float) -> Json:
    """Return an integer for numbers such as 2.0, as in published logs."""
    return int(value) if math.isclose(value, round(value)) else value
