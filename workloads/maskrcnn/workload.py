"""Object detection and instance segmentation: Mask R-CNN R50-FPN on COCO.

MLPerf Training v0.5 to v0.7 includes this benchmark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
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
)
from workloads.common.coco.workload import DetectionWorkload
from workloads.common.images.counts import stream_steps
from workloads.common.images.shape_groups import count_name
from workloads.common.networks import backbones
from workloads.common.networks.backbones import Decode, Published, Shapes
from workloads.maskrcnn import backbone, network
from workloads.maskrcnn.regions.rules import RegionRules
from workloads.maskrcnn.settings import (
    DEMO_MODEL,
    DEMO_TARGETS,
    REFERENCE_MODEL,
    MaskRCNNOptions,
    with_shapes,
)

BOUNDARY_IMAGES = 16
"""Number of images per step that `decay_boundaries` assume (rules of v0.7,
opt_learning_rate_decay_steps).
"""


class MaskRCNN(DetectionWorkload):
    """Heavy-weight object detection and instance segmentation with Mask R-CNN."""

    name = "maskrcnn"
    mlperf_name = "maskrcnn"
    reference_model = REFERENCE_MODEL
    measure_threads = 2
    Options = MaskRCNNOptions
    options: MaskRCNNOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        self.network = network.build(self.model)
        self.region_rules = RegionRules.of(self.model, self.options.num_image_candidates)
        if settings.profile != "demo" and self.network.classes == 80:
            network.check_reference_counts(self.network)

    @classmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        """Return the defaults of a profile, with the padded shapes that the user set.

        All rounds have the same targets for boxes and masks. Round v0.5 uses COCO 2014.
        """
        shapes = str(options.get("padded_shapes") or "auto")
        demo = Defaults("coco-demo", "demo", with_shapes(DEMO_MODEL, shapes), DEMO_TARGETS)
        return round.defaults(cls.name, profile, with_shapes(REFERENCE_MODEL, shapes), demo)

    @classmethod
    def backbone(cls, model: Mapping[str, Json]) -> tuple[Published, Shapes, Decode]:
        """Return the published backbone weights of Detectron or torchvision."""
        layers = network.build(model)
        return backbone.PUBLISHED, backbone.shapes(layers), partial(backbone.decode, layers=layers)

    @classmethod
    def counts(cls, settings: Settings) -> DatasetInfo:
        from workloads.maskrcnn.input.dataset_info import load_dataset_info

        return load_dataset_info(settings)

    @classmethod
    def activation_values(cls, settings: Settings) -> int:
        """Return the number of activations for an image of the largest padded shape."""
        height, width = max(settings.model["padded_shapes"], key=lambda shape: shape[0] * shape[1])
        return network.activation_values(
            network.build(settings.model), settings.model, height, width
        )

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Return the number of bytes of `activation_values`.

        Each activation is stored once, because a frozen batch norm stores no activations.
        """
        return cls.activation_values(settings) * (
            2 if settings.precision in ("bf16", "fp16") else 4
        )

    @property
    def steps_per_epoch(self) -> int:
        """Return the number of steps in an epoch.

        From its share of the images, each device fills batches of a single orientation.
        """
        orientations = sum(
            self.dataset_info.sizes.get(count_name(shape), 0) > 0 for shape in self.image_shapes
        )
        batch, devices = self.settings.global_batch_size, self.settings.devices
        return stream_steps(self.dataset_info.train_samples, batch, devices, max(orientations, 1))

    # -- schedule
    # ----------------------------------------------------------------------------------------------

    def learning_rate(self, step: int) -> float:
        """Return the learning rate: a linear warm-up, then step decay or cosine decay."""
        values = self.options
        base, warmup_steps = values.learning_rate, values.warmup_steps
        if step < warmup_steps:
            return base * (1 - (1 - values.warmup_start) * ((warmup_steps - step) / warmup_steps))
        return self.decayed_rate(step)

    @property
    def warmup_slope(self) -> float:
        """Return the increase of the learning rate per warm-up step.

        In the rules, this increase is `opt_learning_rate_warmup_factor`: rate / (steps · 2^k).
        """
        values = self.options
        return values.learning_rate * (1 - values.warmup_start) / max(values.warmup_steps, 1)

    @property
    def decay_steps(self) -> list[int]:
        batch = self.settings.global_batch_size
        return [
            int(boundary) * BOUNDARY_IMAGES // batch for boundary in self.options.decay_boundaries
        ]

    def evaluation_steps(self) -> Iterator[int]:
        epoch = 0
        while True:
            epoch += self.options.evaluation_interval_epochs
            yield epoch * self.steps_per_epoch

    def parameter_rule(self, parameter: str) -> ParameterRule:
        """Return the update rule of a parameter.

        Biases have twice the learning rate of weights and no weight decay. The reference has the
        same frozen parameters.
        """
        return network.parameter_rule(self.network, parameter, self.options.weight_decay)

    # -- shapes
    # ----------------------------------------------------------------------------------------------

    @property
    def objects_most(self) -> int:
        """Return the number of object slots per image, which is the maximum number of objects."""
        return self.dataset_info.sizes["objects_per_image_most"]

    def target_shapes(self, count: int) -> Mapping[str, ArraySpec]:
        """Return the shapes of the training arrays of `data.SampleData`.

        The mapping does not contain the image, the ragged polygons, and `epoch`.
        """
        samples, objects = int(self.settings.model["rpn_samples"]), self.objects_most
        return {
            "size": ArraySpec((count, 2), "int32"),
            "anchor": ArraySpec((count, samples), "int32"),
            "anchor_label": ArraySpec((count, samples), "float32"),
            "anchor_weight": ArraySpec((count, samples), "float32"),
            "anchor_offset": ArraySpec((count, samples, 4), "float32"),
            "box": ArraySpec((count, objects, 4), "float32"),
            "label": ArraySpec((count, objects), "int32"),
            "number": ArraySpec((count,), "int64"),
        }

    def evaluation_shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """Return the shapes of the image and of `size`.

        `size` (B, 2) contains the sizes of the images without padding.
        """
        count = self.evaluation_batch_size
        return [
            {**specs, "size": ArraySpec((count, 2), "int32")}
            for specs in super().evaluation_shapes()
        ]

    def dummy_batch(self, specs: Mapping[str, ArraySpec]) -> Batch:
        """Return gray images that fill the padded shape, without objects and sampled anchors.

        The loss of this batch is 0.
        """
        batch = super().dummy_batch(specs)
        count, height, width, _ = batch.arrays["image"].shape
        arrays = {
            **batch.arrays,
            "size": np.tile(np.array([height, width], np.int32), (count, 1)),
            "points": np.zeros((0, 2), np.float32),
            "polygon_ends": np.zeros(0, np.int64),
            "object_ends": np.zeros(count * self.objects_most, np.int64),
            "epoch": np.zeros(1, np.int64),
        }
        return replace(batch, arrays=arrays)

    # -- weights, data, quality
    # -----------------------------------------------------------------------------------

    def drawn_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        return network.initial_weights(self.network, seed)

    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        """Open the prepared arrays.

        During training, threads read, decode, and resize images and match their objects with
        anchors.
        """
        from workloads.maskrcnn.input.data import SampleData
        from workloads.maskrcnn.input.synthetic import SyntheticSampleData

        kind = SyntheticSampleData if self.settings.profile == "synthetic" else SampleData
        return kind(self.settings, self.dataset_info, worker, seed)

    def eval_batch_metrics(self, batch: Batch, outputs: Arrays) -> Arrays:
        from workloads.maskrcnn import results

        return results.eval_batch_metrics(batch, outputs)

    def compute_metrics(self, arrays: Arrays) -> dict[str, float]:
        """Return the COCO AP of boxes and of masks.

        The method raises ValueError unless each validation image was evaluated exactly once.
        """
        from workloads.maskrcnn import results

        return results.compute_metrics(
            arrays,
            Path(self.settings.data_dir),
            self.dataset_info.evaluation_samples,
            self.options.evaluator,
        )

    def log_keys(self) -> Mapping[str, Json]:
        values, model = self.options, self.settings.model
        keys = {
            "opt_name": f"{values.optimizer}_with_momentum",
            "opt_base_learning_rate": values.learning_rate,
            "opt_momentum": values.momentum,
            "opt_weight_decay": values.weight_decay,
            "opt_learning_rate_warmup_steps": values.warmup_steps,
            "opt_learning_rate_warmup_factor": self.warmup_slope,
            "num_image_candidates": values.num_image_candidates,
            "min_image_size": model["image_size"],
            "max_image_size": model["image_size_most"],
            "input_decode": self.options.decode,
            "input_padded_shapes": [list(shape) for shape in self.image_shapes],
            "backbone_weights": backbones.described(self.settings),
        }
        if "padding_fill_permille" in self.dataset_info.sizes:
            keys["input_padding_fill"] = self.dataset_info.sizes["padding_fill_permille"] / 1000
        if values.decay == "steps":
            keys["opt_learning_rate_decay_steps"] = self.decay_steps
            keys["opt_learning_rate_decay_factor"] = values.decay_factor
        return keys
