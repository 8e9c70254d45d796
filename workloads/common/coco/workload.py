"""Common base of SSD and Mask R-CNN.

The base class defines options, schedule, backbone, and the input of COCO's metric.
"""

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
    """Hyperparameters and options of object detection.

    A hyperparameter set uses step decay or cosine decay of the learning rate. The values for the
    unused decay are 0 or empty.
    """

    optimizer: str = hyperparameter("update rule", choices=("sgd",), overridable=False)
    learning_rate: float = hyperparameter("learning rate after the warm-up", minimum=0.0)
    momentum: float = hyperparameter("momentum", minimum=0.0, overridable=False)
    weight_decay: float = hyperparameter("L2 decay", minimum=0.0)
    warmup_steps: int = hyperparameter("number of warm-up steps", minimum=0)
    decay: str = hyperparameter(
        "steps: multiply by decay_factor at each of decay_boundaries. cosine: decay to 0 at"
        " horizon_epochs",
        choices=("steps", "cosine"),
        overridable=False,
    )
    decay_boundaries: tuple[float, ...] = hyperparameter(
        "boundaries of decay=steps", default=(), minimum=0.0, overridable=False
    )
    decay_factor: float = hyperparameter(
        "factor of decay=steps", default=1.0, minimum=0.0, overridable=False
    )
    horizon_epochs: int = hyperparameter(
        "end of decay=cosine in epochs", default=0, minimum=0, overridable=False
    )
    evaluator: str = option(
        "pycocotools",
        "package that computes COCO's AP. Both compute the same value",
        choices=average_precision.EVALUATORS,
    )


class DetectionWorkload(ImageWorkload):
    """Object detection on COCO, trained from a pretrained backbone."""

    runs_required = 5
    options: DetectionOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        self.model: Mapping[str, Json] = {
            **settings.model,
            "classes": dataset_info.sizes["classes"],
        }
        """Value of `settings.model`, extended by the number of classes in the data set."""

    @classmethod
    @abstractmethod
    def backbone(cls, model: Mapping[str, Json]) -> tuple[Published, Shapes, Decode]:
        """Return the pretrained backbone of a reference run.

        Training from random weights would be a different task. The method returns the published
        weights file, the shapes of the arrays that the model needs, and the function that decodes
        the file.
        """

    @classmethod
    @abstractmethod
    def counts(cls, settings: Settings) -> DatasetInfo:
        """Return the sample counts of the prepared data.

        Under `profile=synthetic`, the method returns COCO's published sample counts.
        """

    @classmethod
    def resolve(cls, settings: Settings) -> Settings:
        return backbones.resolve(settings, *cls.backbone(settings.model))

    @classmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """Return `counts`, with a note if the backbone is not the published backbone."""
        of_data, (published, *_) = cls.counts(settings), cls.backbone(settings.model)
        return replace(of_data, notes=(*of_data.notes, *backbones.notes(settings, published)))

    # -- schedule
    # ----------------------------------------------------------------------------------------------

    def decayed_rate(self, step: int) -> float:
        """Return the learning rate of a step after the warm-up, with step or cosine decay."""
        values = self.options
        if values.decay == "steps":
            return schedules.step_decay(
                step, self.decay_steps, values.learning_rate, values.decay_factor
            )
        decaying = values.horizon_epochs * self.steps_per_epoch - values.warmup_steps
        return schedules.cosine_decay(step, values.warmup_steps, decaying, values.learning_rate)

    @property
    def warmup_steps(self) -> int:
        return self.options.warmup_steps

    @property
    @abstractmethod
    def decay_steps(self) -> Sequence[int]:
        """Return the steps at which the learning rate is reduced."""

    @property
    def first_decay_step(self) -> int | None:
        """Return the first of `decay_steps`, or None for a cosine decay.

        A cosine decay begins at the end of the warm-up.
        """
        return self.decay_steps[0] if self.options.decay == "steps" else None

    # -- weights, quality
    # -----------------------------------------------------------------------------------------

    @abstractmethod
    def drawn_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        """Yield the weights of a run that starts from random weights."""

    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        """Yield initial weights that are identical in every framework.

        The weights are computed from hashes. If `backbone.weights` is set, the backbone is loaded
        from that file.
        """
        _, shapes, _ = self.backbone(self.settings.model)
        return backbones.initial_weights(self.settings, shapes, self.drawn_weights(seed))


def judged(folder: Path, images: Array, found: Arrays) -> tuple[dict[str, Any], Array]:
    """Return the ground truth of a data set and the detections, for COCO's metric.

    Args:
        folder: Folder of the prepared data.
        images: COCO ids (N,) of the validation images.
        found: Arrays of n detections: `number`, `box`, `score`, and `label`. `number` (n,) is the
            index of the detection's image in `images`. `label` starts at 1.

    Returns:
        The ground truth and the detections (n, 7) as returned by `average_precision.rows`.
    """
    truth = average_precision.read_ground_truth(folder / GROUND_TRUTH)
    categories = np.sort([category["id"] for category in truth["categories"]])
    category = categories[found["label"] - 1]
    return truth, average_precision.rows(
        images[found["number"]], found["box"], found["score"], category
    )
