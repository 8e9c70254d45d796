"""Mask R-CNN's closed rules of rounds v0.5 and v0.7 (docs/rules.md prints them)."""

from __future__ import annotations

from dataclasses import replace

from workloads.api.rules import (
    ANY,
    LESS_HALVINGS,
    ROUND_V05,
    ROUND_V07,
    at_targets,
    below,
    multiple,
    one_of,
    per_device,
    reference,
    rule,
    stretched,
    whole,
)
from workloads.common.rules import (
    AS_REFERENCE,
    AS_REFERENCE_V05,
    DETECTION,
    EVERY_V05,
    EVERY_V07,
    HYPERPARAMETERS_V05,
    HYPERPARAMETERS_V07,
    STRETCHED_V05,
    warm_up,
)
from workloads.maskrcnn.settings import REFERENCE_MODEL, TARGETS

_ROW_V07 = f"{HYPERPARAMETERS_V07}, maskrcnn"
_DECAY_STEPS = (60_000, 80_000)
"""Of 16 images (reference e2e_mask_rcnn_R_50_FPN_1x.yaml), as `decay_boundaries` counts them for every batch."""
_PADDING = "Data Representation: mathematically equivalent padding of images is allowed"

_BOTH = (
    rule(
        "model",
        reference(REFERENCE_MODEL, free=("padded_shapes",)),
        f"Model: the same as the reference; image sizes fixed to it. {_PADDING}",
    ),
    rule("padded_shapes", ANY, _PADDING),
    rule("targets", at_targets(TARGETS), "Benchmarks: 0.377 box and 0.339 mask AP; closed_maskrcnn.yaml"),
    rule("weight_decay", one_of(1e-4), AS_REFERENCE),
    rule("evaluation_interval_epochs", one_of(1), "Quality measure: after every epoch, as the reference"),
    *DETECTION,
)

V05 = replace(
    ROUND_V05,
    rows=(
        *EVERY_V05,
        *_BOTH,
        rule("dataset", one_of("coco2014"), "v0.5, Training and Test Sets: the reference's split, of COCO 2014"),
        rule(
            "learning_rate",
            multiple(0.0025),
            f"{HYPERPARAMETERS_V05}: the reference's 0.0025 (run_and_time.sh of v0.5) times a whole r",
        ),
        rule("warmup_steps", whole(1), f"{HYPERPARAMETERS_V05}: a linear warm-up of wb batches"),
        warm_up(
            f"{HYPERPARAMETERS_V05}: the reference's rate is constant for more than wb batches", _DECAY_STEPS[0] * 16
        ),
        rule("warmup_start", LESS_HALVINGS, f"{HYPERPARAMETERS_V05}: step size r0 / (wb · 2^wk), wk not negative"),
        rule(
            "warmup_start",
            one_of(1 / 3),
            f"{AS_REFERENCE_V05}: config/defaults.py, from a third in 500 steps",
            {"warmup_steps": one_of(500)},
        ),
        rule("decay_factor", one_of(0.1), AS_REFERENCE_V05),
        rule("decay_boundaries", stretched(_DECAY_STEPS, least=0), STRETCHED_V05),
        rule(
            "num_image_candidates",
            one_of(2_000),
            f"{HYPERPARAMETERS_V05}, Mask R-CNN: number of image candidates, 2000",
        ),
        rule(
            "num_image_candidates",
            per_device(1_000),
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
        rule("dataset", one_of("coco2017"), "v0.7, Benchmarks: COCO; the reference's split, of COCO 2017"),
        rule("learning_rate", multiple(0.02), f"{_ROW_V07} opt_base_learning_rate; closed_maskrcnn.yaml"),
        rule("warmup_steps", whole(0), f"{_ROW_V07} opt_learning_rate_warmup_steps; closed_maskrcnn.yaml"),
        warm_up(f"{_ROW_V07} opt_base_learning_rate: the learning rate after warm up and before decay"),
        rule(
            "warmup_start",
            below(1.0),
            f"{_ROW_V07} opt_learning_rate_warmup_factor: unconstrained; closed_maskrcnn.yaml wants a slope above 0",
        ),
        rule("decay_factor", one_of(0.1), f"{_ROW_V07} opt_learning_rate_decay_factor; closed_maskrcnn.yaml"),
        rule(
            "decay_boundaries",
            stretched(_DECAY_STEPS),
            f"{_ROW_V07} opt_learning_rate_decay_steps: (60000, 80000) · (1 + K/10) · 16 / global batch",
        ),
        rule("num_image_candidates", one_of(1_000, 2_000), f"{_ROW_V07} num_image_candidates; closed_maskrcnn.yaml"),
        rule(
            "num_image_candidates",
            per_device(1_000),
            f"{_ROW_V07} num_image_candidates: 1000 · batch per chip; closed_maskrcnn.yaml",
        ),
    ),
    sets={"reference": "reference_8gpu", "synthetic": "reference"},
    listed_optimizers={"sgd": frozenset({"pytorch", "tensorflow"})},
)
ROUNDS = {"v0.5": V05, "v0.7": V07}
