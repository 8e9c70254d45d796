"""What SSD and Mask R-CNN have in common: options, schedule, backbone, and what COCO's metric is given."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from workloads.api import Array, Arrays, DatasetInfo, Json, Settings, hyperparameter, option
from workloads.common import schedules
from workloads.common.coco import average_precision
from workloads.common.coco.average_precision import GROUND_TRUTH
from workloads.common.images.workload import ImageWorkload
from workloads.common.networks import backbones
from workloads.common.networks.backbones import Decode, Published, Shapes


@dataclass(frozen=True, kw_only=True)
class DetectionOptions:
    """Hyperparameters and options of object detection. A value that the decay of a set does not use is 0 or empty."""

    optimizer: str = hyperparameter("update rule", choices=("sgd",), overridable=False)
    learning_rate: float = hyperparameter("rate after the warm-up", minimum=0.0)
    momentum: float = hyperparameter("momentum", minimum=0.0, overridable=False)
    weight_decay: float = hyperparameter("L2 decay", minimum=0.0)
    warmup_steps: int = hyperparameter("steps of warm-up", minimum=0)
    decay: str = hyperparameter(
        "steps: times decay_factor at each of decay_boundaries; cosine: to 0 at horizon_epochs",
        choices=("steps", "cosine"),
        overridable=False,
    )
    decay_boundaries: tuple[float, ...] = hyperparameter("of decay=steps", default=(), minimum=0.0, overridable=False)
    decay_factor: float = hyperparameter("of decay=steps", default=1.0, minimum=0.0, overridable=False)
    horizon_epochs: int = hyperparameter("of decay=cosine", default=0, minimum=0, overridable=False)
    evaluator: str = option(
        "pycocotools", "what computes COCO's AP; both give the same number", choices=average_precision.EVALUATORS
    )


class DetectionWorkload(ImageWorkload):
    """Object detection on COCO, from a pretrained backbone."""

    runs_required = 5
    options: DetectionOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        self.model: Mapping[str, Json] = {**settings.model, "classes": dataset_info.sizes["classes"]}
        """`settings.model` with the classes of the data."""

    @classmethod
    @abstractmethod
    def backbone(cls, model: Mapping[str, Json]) -> tuple[Published, Shapes, Decode]:
        """What a reference run starts from (from random weights it is another task): the file, the arrays of it that a model
        takes, and what reads them."""

    @classmethod
    @abstractmethod
    def counts(cls, settings: Settings) -> DatasetInfo:
        """Those of the prepared data; COCO's published ones under profile=synthetic."""

    @classmethod
    def resolve(cls, settings: Settings) -> Settings:
        return backbones.resolve(settings, *cls.backbone(settings.model))

    @classmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """`counts`; another backbone than the published one is a note."""
        of_data, (published, *_) = cls.counts(settings), cls.backbone(settings.model)
        return replace(of_data, notes=(*of_data.notes, *backbones.notes(settings, published)))

    # -- schedule -------------------------------------------------------------------------------------------------

    def decayed_rate(self, step: int) -> float:
        """The rate after the warm-up: in steps, or half a cosine."""
        values = self.options
        if values.decay == "steps":
            return schedules.step_decay(step, self.decay_steps, values.learning_rate, values.decay_factor)
        decaying = values.horizon_epochs * self.steps_per_epoch - values.warmup_steps
        return schedules.cosine_decay(step, values.warmup_steps, decaying, values.learning_rate)

    @property
    def warmup_steps(self) -> int:
        return self.options.warmup_steps

    @property
    @abstractmethod
    def decay_steps(self) -> Sequence[int]:
        """The steps from which on the rate is lower."""

    @property
    def first_decay_step(self) -> int | None:
        """The first of the steps; a cosine begins where the warm-up ends."""
        return self.decay_steps[0] if self.options.decay == "steps" else None

    # -- weights, quality -----------------------------------------------------------------------------------------

    @abstractmethod
    def drawn_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        """Those of a run from random weights."""

    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        """Drawn by hash, the same bytes in every framework; the backbone from `backbone.weights`, if there is one."""
        _, shapes, _ = self.backbone(self.settings.model)
        return backbones.initial_weights(self.settings, shapes, self.drawn_weights(seed))


def judged(folder: Path, images: Array, found: Arrays) -> tuple[dict[str, Any], Array]:
    """The ground truth of a prepared data set, and detections beside it as COCO's metric takes them (`average_precision.rows`).

    `images` (N,): COCO's ids of the validation images; `found`: of n detections `number` (n,) of its image, `box`, `score`,
    and `label` from 1.
    """
    truth = average_precision.read_ground_truth(folder / GROUND_TRUTH)
    categories = np.sort([category["id"] for category in truth["categories"]])
    category = categories[found["label"] - 1]
    return truth, average_precision.rows(images[found["number"]], found["box"], found["score"], category)
