"""Light-weight object detection: SSD-ResNet34-300 on COCO.

MLPerf Training v0.5 to v0.7 includes this benchmark. This module does not import a framework.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from workloads.api import (
    Array,
    Arrays,
    ArraySpec,
    Batch,
    DataPipeline,
    DatasetInfo,
    Defaults,
    Json,
    ParameterRule,
    Round,
    Settings,
    WorkerContext,
    check_evaluation_coverage,
)
from workloads.common import schedules
from workloads.common.coco import average_precision
from workloads.common.coco.workload import DetectionWorkload, judged
from workloads.common.images import index
from workloads.common.images.counts import COCO2017
from workloads.common.networks import backbones, residual, torch_files
from workloads.common.networks.backbones import Decode, Published, Shapes
from workloads.ssd import backbone, network, priors
from workloads.ssd.detections import detect
from workloads.ssd.settings import (
    DEMO,
    REFERENCE_MODEL,
    SSDOptions,
)

REFERENCE_PARAMETERS = 19_972_534
"""Number of parameters with 80 classes (reference ssd300.py)."""


class SSD(DetectionWorkload):
    """Light-weight object detection with SSD."""

    name = "ssd"
    mlperf_name = "ssd"
    reference_model = REFERENCE_MODEL
    measure_threads = 1
    Options = SSDOptions
    options: SSDOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        self.network = network.build(self.model)
        self.priors = priors.build(self.model)
        sizes = network.map_sizes(self.network, int(self.model["image_size"]))
        assert sizes == list(self.model["map_sizes"]), (
            f"maps {sizes}, but priors for {self.model['map_sizes']}"
        )
        if settings.profile != "demo" and self.network.classes == 80:
            count = sum(network.parameter_counts(self.network).values())
            assert count == REFERENCE_PARAMETERS, (
                f"{count} parameters, not the reference's {REFERENCE_PARAMETERS}"
            )

    @classmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        """Return the defaults of a profile.

        The target AP is 0.212 in v0.5 and 0.230 in v0.7.
        """
        return round.defaults(cls.name, profile, REFERENCE_MODEL, DEMO)

    @classmethod
    def backbone(cls, model: Mapping[str, Json]) -> tuple[Published, Shapes, Decode]:
        """Return the published backbone weights of torchvision.

        The names of the backbone weights equal the parameter names of the network.
        """
        return backbone.PUBLISHED, backbone.shapes(network.build(model)), torch_files.decode

    @classmethod
    def counts(cls, settings: Settings) -> DatasetInfo:
        return COCO2017.for_settings(settings)

    @classmethod
    def activation_values(cls, settings: Settings) -> int:
        """Return the number of activations for an image.

        At 300 pixels in fp32, the activations need 81 MB.
        """
        size = int(settings.model["image_size"])
        return residual.activation_values(network.build(settings.model), size, size)

    # -- schedule
    # ----------------------------------------------------------------------------------------------

    def learning_rate(self, step: int) -> float:
        """Return the learning rate: SSD's warm-up, then step decay or cosine decay."""
        values = self.options
        if (
            values.plateau == "last_warmup_rate"
            and values.warmup_steps
            and step < self.decay_steps[0]
        ):
            step = min(step, values.warmup_steps - 1)
        warming = schedules.warm_up_from(
            step, values.warmup_steps, values.learning_rate, values.warmup_factor
        )
        return self.decayed_rate(step) if warming is None else warming

    @property
    def decay_steps(self) -> list[int]:
        values = self.options
        if values.decay_unit == "epochs":
            return [int(epoch) * self.steps_per_epoch for epoch in values.decay_boundaries]
        return [self._step_of(int(iteration)) for iteration in values.decay_boundaries]

    def _step_of(self, iteration: int) -> int:
        """Return the step that corresponds to a step of the v0.5 reference.

        Step numbers start at 0. A step of the v0.5 reference has 32 images.
        """
        return iteration * 32 // self.settings.global_batch_size

    @property
    def decay_epochs(self) -> list[float]:
        """Return the option `decay_steps` in epochs, for the log."""
        values = self.options
        if values.decay_unit == "epochs":
            return list(values.decay_boundaries)
        return [round(step / self.steps_per_epoch, 2) for step in self.decay_steps]

    def evaluation_steps(self) -> Iterator[int]:
        """Return the numbers of completed steps after which the model is evaluated.

        The model is evaluated every `evaluation_interval_epochs` epochs. If this interval is 0, the
        round lists the evaluations. After the end of the list, the last interval of the list is
        repeated.

        Raises:
            ValueError: The hyperparameter set has no interval, and the round lists no evaluations.
        """
        interval = self.options.evaluation_interval_epochs
        if interval:
            return (epoch * self.steps_per_epoch for epoch in itertools.count(interval, interval))
        iterations, epochs = (
            self.round.evaluations.get(unit, ()) for unit in ("iterations_of_32", "epochs")
        )
        if len(iterations) > 1:
            return (self._step_of(iteration) + 1 for iteration in _continued(iterations))
        if len(epochs) > 1:
            return (epoch * self.steps_per_epoch for epoch in _continued(epochs))
        raise ValueError(
            f"rules={self.settings.rules}: the round lists no `evaluations`, which the"
            " hyperparameter set requires"
        )

    def parameter_rule(self, parameter: str) -> ParameterRule:
        """Return the update rule of a parameter.

        SGD applies weight decay to every parameter, including batch norms and biases (reference
        train.py).
        """
        return ParameterRule(self.options.weight_decay)

    # -- weights, quality
    # -----------------------------------------------------------------------------------------

    def target_shapes(self, count: int) -> Mapping[str, ArraySpec]:
        """Return the shapes of the arrays from `boxes.targets` for P priors.

        The arrays are `offset` (B, 4, P) and `label` (B, P).
        """
        boxes = len(self.priors)
        return {
            "offset": ArraySpec((count, 4, boxes), "float32"),
            "label": ArraySpec((count, boxes), "int32"),
        }

    def drawn_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        return network.initial_weights(self.network, seed)

    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        """Open the prepared arrays.

        During training, threads read, decode, and crop images and match their objects with priors.
        """
        from workloads.ssd.data import DetectionData
        from workloads.ssd.synthetic import SyntheticDetectionData

        kind = SyntheticDetectionData if self.settings.profile == "synthetic" else DetectionData
        return kind(self.settings, self.dataset_info, worker, seed)

    def eval_batch_metrics(self, batch: Batch, outputs: Arrays) -> Arrays:
        """Return the detections of an evaluation batch, and the indices of its images.

        The detections are concatenated, without detections of padding images.

        Args:
            batch: Batch with `number` (B,), the index of each image in the validation set, `width`
                and `height` in pixels, and `valid`.
            outputs: Outputs of the trainer: `logits` (B, C + 1, P) and `offsets` (B, 4, P).

        Returns:
            `seen` (b,) contains the indices of the images. All other arrays contain the n
            detections of the batch: `number` (n,), `box` (n, 4) as left, top, width, height in
            pixels, `label` (n,) from 1, `score` (n,).
        """
        valid = batch.arrays["valid"]
        logits, offsets = outputs["logits"], outputs["offsets"]
        if not valid.all():
            logits, offsets = logits[valid], offsets[valid]
        detections = detect(logits, offsets, self.priors)
        number, width, height = (
            batch.arrays[name][valid] for name in ("number", "width", "height")
        )
        pixels = np.stack([width, height], axis=1).astype(np.float32)[detections.image]
        corner = detections.box[:, :2] * pixels
        size = detections.box[:, 2:] * pixels - corner
        return {
            "seen": number,
            "number": number[detections.image],
            "box": np.concatenate([corner, size], axis=1),
            "label": detections.label,
            "score": detections.score,
        }

    def compute_metrics(self, results: Arrays) -> dict[str, float]:
        """Return the COCO AP of boxes.

        The method raises ValueError unless each validation image was evaluated exactly once.
        """
        count = self.dataset_info.evaluation_samples
        check_evaluation_coverage(results["seen"], count, "images")
        folder = Path(self.settings.data_dir)
        truth, detections = judged(folder, index.read(folder, "val", folder, count).label, results)
        return {
            "map": average_precision.average_precision(truth, detections, self.options.evaluator)
        }

    def log_keys(self) -> Mapping[str, Json]:
        values = self.options
        keys = {
            "opt_name": values.optimizer,
            "opt_base_learning_rate": values.learning_rate,
            "opt_momentum": values.momentum,
            "opt_weight_decay": values.weight_decay,
            "opt_learning_rate_warmup_steps": values.warmup_steps,
            "opt_learning_rate_warmup_factor": values.warmup_factor,
            "max_samples": values.max_samples,
            "model_bn_span": self.images_per_replica,
            "input_image_size": self.settings.model["image_size"],
            "input_decode": self.options.decode,
            "backbone_weights": backbones.described(self.settings),
        }
        if values.decay == "steps":
            keys["opt_learning_rate_decay_boundary_epochs"] = self.decay_epochs
            keys["opt_learning_rate_decay_factor"] = values.decay_factor
        return keys


def _continued(numbers: Sequence[int]) -> Iterator[int]:
    """Yield `numbers`, and continue them at the distance of the last two numbers."""
    return itertools.chain(
        numbers, itertools.count(2 * numbers[-1] - numbers[-2], numbers[-1] - numbers[-2])
    )
