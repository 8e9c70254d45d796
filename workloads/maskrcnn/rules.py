"""Mask R-CNN's closed rules of rounds v0.5 and v0.7 (docs/rules.md prints them)."""

from __future__ import annotations

from dataclasses import replace

from workloads.api.rules import (
    ROUND_V05,
    ROUND_V07,
    Below,
    Free,
    LessHalvings,
    Multiple,
    OneOf,
    PerDevice,
    Reference,
    Rule,
    Stretched,
    Targets,
    Whole,
)
from workloads.common.rules import (
    AS_REFERENCE_V05,
    EVERY_V05,
    EVERY_V07,
    HYPERPARAMETERS_V05,
    HYPERPARAMETERS_V07,
    IMAGES,
    UNUSED,
    warm_up,
    when,
)
from workloads.maskrcnn.settings import REFERENCE_MODEL, TARGETS

_ROW_V07 = f"{HYPERPARAMETERS_V07}, maskrcnn"
_DECAY_STEPS = (60_000, 80_000)
"""Of 16 images (reference e2e_mask_rcnn_R_50_FPN_1x.yaml), as `decay_boundaries` counts them for every batch."""
_PADDING = "Data Representation: mathematically equivalent padding of images is allowed"

_BOTH = (
    Rule(
        ("model",),
        Reference(REFERENCE_MODEL, free=("padded_shapes",)),
        f"Model: the same as the reference; image sizes fixed to it. {_PADDING}",
    ),
    Rule(("padded_shapes",), Free(), _PADDING),
    Rule(("targets",), Targets(TARGETS), "Benchmarks: 0.377 box and 0.339 mask AP; closed_maskrcnn.yaml"),
    Rule(("optimizer",), OneOf(("sgd",)), "Hyperparameters: by default the same as the reference"),
    Rule(("momentum",), OneOf((0.9,)), "Hyperparameters: by default the same as the reference"),
    Rule(("weight_decay",), OneOf((1e-4,)), "Hyperparameters: by default the same as the reference"),
    Rule(("decay",), OneOf(("steps",)), "Hyperparameters: by default the same as the reference"),
    Rule(("horizon_epochs",), Free(), UNUSED, when(decay="steps")),
    Rule(("evaluation_interval_epochs",), OneOf((1,)), "Quality measure: after every epoch, as the reference"),
    Rule(("evaluator",), Free(), "Quality measure: the same; both evaluators give the same AP"),
    Rule(
        ("backbone", "backbone_weights", "backbone_allow_other"),
        Free(),
        "Pre-training: the reference's weights; other ones are a note of the data, which opens the division",
    ),
    *IMAGES,
)

V05 = replace(
    ROUND_V05,
    rows=(
        *EVERY_V05,
        *_BOTH,
        Rule(("dataset",), OneOf(("coco2014",)), "v0.5, Training and Test Sets: the reference's split, of COCO 2014"),
        Rule(
            ("learning_rate",),
            Multiple(0.0025),
            f"{HYPERPARAMETERS_V05}: the reference's 0.0025 (run_and_time.sh of v0.5) times a whole r",
        ),
        Rule(
            ("warmup_steps",),
            Whole(1),
            f"{HYPERPARAMETERS_V05}: a linear warm-up of wb batches",
        ),
        warm_up(
            f"{HYPERPARAMETERS_V05}: the reference's rate is constant for more than wb batches", _DECAY_STEPS[0] * 16
        ),
        Rule(
            ("warmup_start",),
            LessHalvings(),
            f"{HYPERPARAMETERS_V05}: step size r0 / (wb · 2^wk), wk not negative",
        ),
        Rule(
            ("warmup_start",),
            OneOf((1 / 3,)),
            f"{AS_REFERENCE_V05}: config/defaults.py, from a third in 500 steps",
            {"warmup_steps": OneOf((500,))},
        ),
        Rule(("decay_factor",), OneOf((0.1,)), AS_REFERENCE_V05),
        Rule(
            ("decay_boundaries",),
            Stretched(_DECAY_STEPS, least=0),
            f"{HYPERPARAMETERS_V05}: the schedule scaled in time by 1 + k/10",
        ),
        Rule(
            ("num_image_candidates",),
            OneOf((2_000,)),
            f"{HYPERPARAMETERS_V05}, Mask R-CNN: number of image candidates, 2000",
        ),
        Rule(
            ("num_image_candidates",),
            PerDevice(1_000),
            f"{HYPERPARAMETERS_V05}, Mask R-CNN: 1000 · batch size, from a pool of all examples (of a device)",
        ),
    ),
    sets={"reference": "reference", "synthetic": "reference"},
)

V07 = replace(
    ROUND_V07,
    rows=(
        *EVERY_V07,
        *_BOTH,
        Rule(("dataset",), OneOf(("coco2017",)), "v0.7, Benchmarks: COCO; the reference's split, of COCO 2017"),
        Rule(("learning_rate",), Multiple(0.02), f"{_ROW_V07} opt_base_learning_rate; closed_maskrcnn.yaml"),
        Rule(("warmup_steps",), Whole(0), f"{_ROW_V07} opt_learning_rate_warmup_steps; closed_maskrcnn.yaml"),
        warm_up(f"{_ROW_V07} opt_base_learning_rate: the learning rate after warm up and before decay"),
        Rule(
            ("warmup_start",),
            Below((1.0,)),
            f"{_ROW_V07} opt_learning_rate_warmup_factor: unconstrained; closed_maskrcnn.yaml wants a slope above 0",
        ),
        Rule(("decay_factor",), OneOf((0.1,)), f"{_ROW_V07} opt_learning_rate_decay_factor; closed_maskrcnn.yaml"),
        Rule(
            ("decay_boundaries",),
            Stretched(_DECAY_STEPS),
            f"{_ROW_V07} opt_learning_rate_decay_steps: (60000, 80000) · (1 + K/10) · 16 / global batch",
        ),
        Rule(
            ("num_image_candidates",), OneOf((1_000, 2_000)), f"{_ROW_V07} num_image_candidates; closed_maskrcnn.yaml"
        ),
        Rule(
            ("num_image_candidates",),
            PerDevice(1_000),
            f"{_ROW_V07} num_image_candidates: 1000 · batch per chip; closed_maskrcnn.yaml",
        ),
    ),
    sets={"reference": "reference_8gpu", "synthetic": "reference"},
    listed_optimizers={"sgd": frozenset({"pytorch", "tensorflow"})},
)
ROUNDS = {"v0.5": V05, "v0.7": V07}
