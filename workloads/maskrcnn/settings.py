"""Mask R-CNN's settings: sizes, the named hyperparameter sets with a source per field, targets, options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Defaults, Hyperparameter, HyperparameterSet, Json, option
from workloads.common.coco.average_precision import EVALUATORS
from workloads.common.images.workload import ImageOptions
from workloads.common.networks.backbones import BackboneOptions

TARGETS: Mapping[str, float] = {"BBOX": 0.377, "SEGM": 0.339}
"""COCO AP of boxes and of masks, both to be met at one evaluation (rules texts of v0.5 to v0.7). Named as logs name them."""
DEMO_TARGETS: Mapping[str, float] = {"BBOX": 0.35, "SEGM": 0.28}
DATASETS: Mapping[str, str] = {"v0.5": "coco2014"}
"""Rules to data set, where it is not COCO 2017: round v0.5 split the same images under other names."""

REFERENCE_MODEL: Mapping[str, Json] = {
    "image_size": 800,
    "image_size_most": 1333,
    "padded_shapes": [[800, 1344], [800, 1216], [800, 1088], [1344, 800], [1216, 800], [1088, 800]],
    "trunk_blocks": [3, 4, 6, 3],
    "trunk_width": 64,
    "trunk_norm": "frozen",
    "fpn_channels": 256,
    "anchor_sizes": [32, 64, 128, 256, 512],
    "anchor_ratios": [0.5, 1.0, 2.0],
    "strides": [4, 8, 16, 32, 64],
    "rpn_samples": 256,
    "rois": 512,
    "roi_positive_fraction": 0.25,
    "proposals_before_nms": [2000, 1000],
    "proposals_after_nms": [2000, 1000],
    "proposals_test": 1000,
    "detections": 100,
    "roi_level_size": 224,
    "roi_level_base": 4,
    "box_features": 1024,
    "mask_convolutions": 4,
    "mask_channels": 256,
    "box_pool": 7,
    "mask_pool": 14,
    "classes": 80,
}
"""Reference config/defaults.py and configs/e2e_mask_rcnn_R_50_FPN_1x.yaml, but for `padded_shapes`: (height, width), of which a
batch takes the smallest that holds its images, where the reference pads to the batch's maximum. Pairs (training, test)."""
DEMO_MODEL: Mapping[str, Json] = {
    "image_size": 96,
    "image_size_most": 128,
    "padded_shapes": [[96, 128], [128, 96]],
    "trunk_blocks": [1, 1, 1],
    "trunk_width": 16,
    "trunk_norm": "batch",
    "fpn_channels": 32,
    "anchor_sizes": [17, 26, 38, 58],
    "anchor_ratios": [0.5, 1.0, 2.0],
    "strides": [4, 8, 16, 32],
    "rpn_samples": 64,
    "rois": 32,
    "roi_positive_fraction": 0.25,
    "proposals_before_nms": [100, 100],
    "proposals_after_nms": [100, 100],
    "proposals_test": 50,
    "detections": 50,
    "roi_level_size": 24,
    "roi_level_base": 3,
    "box_features": 128,
    "mask_convolutions": 2,
    "mask_channels": 32,
    "box_pool": 7,
    "mask_pool": 14,
    "classes": 10,
}
"""The same code, smaller (docs/demos.md)."""


def _set(source: str, other: Mapping[str, str], **values: Json) -> HyperparameterSet:
    """A set whose fields come from `source`, but for those that `other` gives another."""
    return {name: Hyperparameter(value, other.get(name, source)) for name, value in values.items()}


_COMMON = {
    "optimizer": "sgd",
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "decay": "steps",
    "decay_factor": 0.1,
    "lr_scaling": "linear",
    "evaluation_interval_epochs": 1,
}
_STRETCHED = {**_COMMON, "warmup_start": 0.0, "decay_boundaries": [72_000, 96_000]}
"""The schedule of NVIDIA's entries: 60,000 and 80,000 steps of 16 images, times 1.2; warm-up from 0."""
_LIKE_REFERENCE = "published: MLPerf reference (config/defaults.py, e2e_mask_rcnn_R_50_FPN_1x.yaml)"
_AS_RULES = "published: rules, an evaluation after every epoch"
_SILENT = {
    **dict.fromkeys(("optimizer", "momentum", "weight_decay", "decay", "decay_factor"), _LIKE_REFERENCE),
    "lr_scaling": "published: rules, rate proportional to the batch",
    "evaluation_interval_epochs": _AS_RULES,
    "decay_boundaries": "derived: the published steps times batch / 16",
    "warmup_start": "derived: the published factor is rate / warm-up steps, so the first rate is 0",
}
_LAST_STEP = "derived: the published last step, in epochs of 117,266 images, rounded up"
_V06 = "published: NVIDIA v0.6, config_DGX1.sh"
_V07 = "published: NVIDIA v0.7, config_DGX1.sh"
_NOT_SAID = "presumed: as NVIDIA's v0.5 entry, whose last step is step 80,000"
_ARTICLE = "published: DGX-1 scaling article, table 2"
_RATE = "derived: 0.02 for 16 images, in proportion (reference)"
_REFERENCE_SOURCE = "published: MLPerf reference, one GPU (run_and_time.sh)"
_REFERENCE_WARM = "published: reference config/defaults.py, from a third of the rate"
_REFERENCE_SILENT = {
    **_SILENT,
    "warmup_start": _REFERENCE_WARM,
    "warmup_steps": _REFERENCE_WARM,
    "max_epochs": _LAST_STEP,
}
_AS_ONE_GPU = "presumed: as the reference on one GPU"
_AS_V05 = "presumed: as NVIDIA's v0.5 DGX-1 entry, whose batch and epochs the article repeats"
_ARTICLE_VALUES = ("warmup_start", "warmup_steps", "decay_boundaries", "num_image_candidates", "max_epochs")

SETS: Mapping[str, HyperparameterSet] = {
    "reference": _set(
        _REFERENCE_SOURCE,
        _REFERENCE_SILENT,
        **_COMMON,
        batch_size_global=2,
        learning_rate=0.0025,
        warmup_start=1 / 3,
        warmup_steps=500,
        decay_boundaries=[60_000, 80_000],
        num_image_candidates=2_000,
        max_epochs=13,
    ),
    "nvidia_v0.5_dgx1": _set(
        "published: NVIDIA v0.5, config_DGX1.sh",
        {**_SILENT, "max_epochs": _LAST_STEP},
        **_STRETCHED,
        batch_size_global=32,
        learning_rate=0.04,
        warmup_steps=625,
        num_image_candidates=4_000,
        max_epochs=22,
    ),
    "nvidia_v0.6_dgx1": _set(
        _V06,
        {**_SILENT, "max_epochs": _NOT_SAID},
        **_STRETCHED,
        batch_size_global=48,
        learning_rate=0.06,
        warmup_steps=625,
        num_image_candidates=6_000,
        max_epochs=22,
    ),
    "nvidia_v0.7_dgx1": _set(
        _V07,
        {**_SILENT, "max_epochs": _NOT_SAID},
        **_STRETCHED,
        batch_size_global=48,
        learning_rate=0.06,
        warmup_steps=625,
        num_image_candidates=6_000,
        max_epochs=22,
    ),
    "nvidia_v0.7_dgxa100": _set(
        "published: NVIDIA v0.7, config_DGXA100.sh",
        {**_SILENT, "max_epochs": _LAST_STEP},
        **_STRETCHED,
        batch_size_global=64,
        learning_rate=0.08,
        warmup_steps=800,
        num_image_candidates=8_000,
        max_epochs=22,
    ),
    "dgx1_article_1gpu": _set(
        _ARTICLE,
        {**_SILENT, "learning_rate": _RATE, **dict.fromkeys(_ARTICLE_VALUES, _AS_ONE_GPU)},
        **_COMMON,
        batch_size_global=2,
        learning_rate=0.0025,
        warmup_start=1 / 3,
        warmup_steps=500,
        decay_boundaries=[60_000, 80_000],
        num_image_candidates=2_000,
        max_epochs=13,
    ),
    "dgx1_article_4gpu": _set(
        _ARTICLE,
        {**_SILENT, "learning_rate": _RATE, **dict.fromkeys(_ARTICLE_VALUES, _AS_V05)},
        **_STRETCHED,
        batch_size_global=16,
        learning_rate=0.02,
        warmup_steps=625,
        num_image_candidates=4_000,
        max_epochs=22,
    ),
    "dgx1_article_8gpu": _set(
        _ARTICLE,
        {**_SILENT, "learning_rate": _RATE, **dict.fromkeys(_ARTICLE_VALUES, _AS_V05)},
        **_STRETCHED,
        batch_size_global=32,
        learning_rate=0.04,
        warmup_steps=625,
        num_image_candidates=4_000,
        max_epochs=22,
    ),
    "demo": _set(
        "presumed: trials on the generated data (docs/demos.md)",
        {},
        optimizer="sgd",
        batch_size_global=8,
        learning_rate=0.02,
        momentum=0.9,
        weight_decay=1e-4,
        warmup_start=0.0,
        warmup_steps=250,
        decay="cosine",
        horizon_epochs=10,
        num_image_candidates=800,
        evaluation_interval_epochs=2,
        lr_scaling="linear",
        max_epochs=10,
    ),
}
"""`warmup_start`: the first rate, as a share of `learning_rate`. `decay_boundaries`: in steps of 16 images, as the rules have
them. `num_image_candidates`: proposals of a device's batch that go on to the box head. Other batches than the set's scale."""


def profile_defaults(profile: str, rules: str, options: Mapping[str, Json]) -> Defaults:
    """What a profile means, with the padded shapes that the user typed. Raises ValueError for one that there is not."""
    given = str(options.get("padded_shapes") or "auto")
    if profile == "demo":
        return Defaults("coco-demo", "demo", with_shapes(DEMO_MODEL, given), DEMO_TARGETS)
    if profile in ("reference", "synthetic"):
        model = with_shapes(REFERENCE_MODEL, given)
        return Defaults(DATASETS.get(rules, "coco2017"), "reference", model, TARGETS)
    raise ValueError(f"profile={profile}: maskrcnn has reference, demo, synthetic")


def with_shapes(model: Mapping[str, Json], given: str) -> Mapping[str, Json]:
    """The model with `padded_shapes` as typed: `800x1344+1344x800`, height before width; `auto` changes nothing.

    Raises ValueError for sides that are no multiples of 32, and if one orientation has no shape.
    """
    if given == "auto":
        return model
    shapes = [tuple(int(side) for side in shape.split("x")) for shape in given.split("+")]
    wrong = [side for shape in shapes for side in shape if side % 32 or not side]
    if wrong:
        raise ValueError(
            f"workload.padded_shapes={given}: {wrong[0]} is no multiple of 32; type {default_shapes(model)}"
        )
    if min(width - height for height, width in shapes) >= 0 or max(width - height for height, width in shapes) <= 0:
        raise ValueError(
            f"workload.padded_shapes={given}: lying and standing images need a shape each; type {default_shapes(model)}"
        )
    ordered = sorted(set(shapes), key=lambda shape: (shape[0] > shape[1], -shape[0] * shape[1], shape))
    return {**model, "padded_shapes": [list(shape) for shape in ordered]}


def default_shapes(model: Mapping[str, Json]) -> str:
    """The model's shapes as they are typed."""
    return "+".join(f"{height}x{width}" for height, width in model["padded_shapes"])


@dataclass(frozen=True)
class MaskRCNNHyperparameters:
    """What a set holds beside the batch size; 0 or empty where its decay has no such value."""

    optimizer: str
    learning_rate: float
    """After the warm-up."""
    momentum: float
    weight_decay: float
    warmup_steps: int
    warmup_start: float
    """The first rate, as a share of `learning_rate`: 1 - 2^-k for a whole k by the rules' formula."""
    num_image_candidates: int
    """Proposals of one device's whole batch that training goes on with."""
    decay: str
    """`steps`: times `decay_factor` at each of `decay_boundaries`; `cosine`: to 0 at `horizon_epochs`."""
    evaluation_interval_epochs: int
    max_epochs: int
    decay_boundaries: tuple[float, ...] = ()
    """Steps of 16 images."""
    decay_factor: float = 1.0
    horizon_epochs: int = 0


@dataclass(frozen=True)
class MaskRCNNOptions(BackboneOptions, ImageOptions):
    """`workload.*` on the command line. Fields named like a hyperparameter override the set's value."""

    name: str = "maskrcnn"
    dataset: str = option("auto", "prepared data set; auto: the profile's")
    hyperparameter_set: str = option("auto", "named set; auto: the profile's")
    learning_rate: float | None = option(None, "rate after the warm-up", minimum=0.0)
    weight_decay: float | None = option(None, "L2 decay; biases have none", minimum=0.0)
    warmup_steps: int | None = option(None, "steps of warm-up", minimum=0)
    warmup_start: float | None = option(None, "the first rate, as a share of the rate", minimum=0.0)
    num_image_candidates: int | None = option(
        None, "proposals of a device's batch that training goes on with; rules: a multiple of 1000", minimum=1
    )
    max_epochs: int | None = option(None, "give up after so many epochs", minimum=1)
    padded_shapes: str = option(
        "auto",
        "HEIGHTxWIDTH+… of the shapes that batches are padded to, multiples of 32; auto: the profile's",
        pattern=r"auto|\d+x\d+(\+\d+x\d+)*",
        example="800x1344+1344x800",
    )
    evaluation_batch_size: int = option(8, "images per device and evaluation step", minimum=1)
    evaluator: str = option("pycocotools", "what computes COCO's AP; both give the same number", choices=EVALUATORS)
    target: float | None = option(None, "workload.target.BBOX and workload.target.SEGM: AP to reach", minimum=0.0)
