"""SSD's closed rules of rounds v0.5 and v0.7 (docs/rules.md prints them)."""

from __future__ import annotations

from dataclasses import replace

from workloads.api.rules import (
    ROUND_V05,
    ROUND_V07,
    Above,
    Free,
    Multiple,
    OneOf,
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
    RATE,
    UNUSED,
    warm_up,
    when,
)
from workloads.ssd.settings import REFERENCE_MODEL

_ROW_V07 = f"{HYPERPARAMETERS_V07}, ssd"
_DECAY = (160_000, 200_000)
"""Steps of 32 images (reference train.py, tag v0.5)."""

_BOTH = (
    Rule(("dataset",), OneOf(("coco2017",)), "Benchmarks: COCO"),
    Rule(("model",), Reference(REFERENCE_MODEL), "Model: the same as the reference"),
    Rule(("optimizer",), OneOf(("sgd",)), "Hyperparameters: by default the same as the reference"),
    Rule(("momentum",), OneOf((0.9,)), "Hyperparameters: by default the same as the reference"),
    Rule(("decay",), OneOf(("steps",)), "Hyperparameters: by default the same as the reference"),
    Rule(("decay_factor",), OneOf((0.1,)), "Hyperparameters: by default the same as the reference"),
    Rule(
        ("plateau",),
        OneOf(("base", "last_warm_up_rate")),
        "Hyperparameters: the warm-up's formula ends at r0; train.py and NVIDIA's closed results a step earlier",
    ),
    Rule(("horizon_epochs",), Free(), UNUSED, when(decay="steps")),
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
        Rule(("targets",), Targets({"map": 0.212}), "v0.5, Benchmarks: 21.2 % mAP"),
        Rule(
            ("learning_rate",),
            Multiple(1e-3),
            f"{HYPERPARAMETERS_V05}: the reference's 1e-3 (train.py of v0.5) times a whole r",
        ),
        Rule(("warmup_steps",), Whole(0), f"{HYPERPARAMETERS_V05}: a linear warm-up of wb batches may be added"),
        warm_up(f"{HYPERPARAMETERS_V05}: the reference's rate is constant for more than wb batches", _DECAY[0] * 32),
        Rule(("warmup_factor",), Whole(0), f"{HYPERPARAMETERS_V05}: step size r0 / (wb · 2^wk), wk not negative"),
        Rule(("weight_decay",), Free(), f"{HYPERPARAMETERS_V05}, SSD: arbitrary constant"),
        Rule(
            ("max_samples",), Whole(1), f"{HYPERPARAMETERS_V05}, SSD: maximum number of samples attempted, at least 1"
        ),
        Rule(("decay_unit",), OneOf(("iterations_of_32",)), f"{AS_REFERENCE_V05}: train.py of v0.5 counts iterations"),
        Rule(
            ("decay_boundaries",),
            Stretched(_DECAY, least=0),
            f"{HYPERPARAMETERS_V05}: the schedule scaled in time by 1 + k/10",
        ),
        Rule(
            ("evaluation_interval_epochs",),
            OneOf((0, 1, 2, 3, 4, 5)),
            "v0.5, Quality measure: when the reference does (0), or at least as frequently, which is every 5 epochs",
        ),
    ),
    sets={"reference": "reference_v0.5", "synthetic": "reference_1gpu"},
)

V07 = replace(
    ROUND_V07,
    rows=(
        *EVERY_V07,
        *_BOTH,
        Rule(("targets",), Targets({"map": 0.230}), "v0.7, Benchmarks: 23.0 % mAP; closed_ssd.yaml"),
        Rule(("learning_rate",), Above(0), f"{_ROW_V07} opt_base_learning_rate: unconstrained{RATE}"),
        warm_up(f"{_ROW_V07} opt_base_learning_rate: the learning rate after warm up and before decay"),
        Rule(("warmup_steps",), Whole(1), f"{_ROW_V07} opt_learning_rate_warmup_steps; closed_ssd.yaml"),
        Rule(("warmup_factor",), Whole(0), f"{_ROW_V07} opt_learning_rate_warmup_factor; closed_ssd.yaml"),
        Rule(("weight_decay",), Free(), f"{_ROW_V07} opt_weight_decay: arbitrary constant"),
        Rule(("max_samples",), OneOf((1, 50)), f"{_ROW_V07} max_samples; closed_ssd.yaml"),
        Rule(("decay_unit",), OneOf(("epochs",)), f"{_ROW_V07} opt_learning_rate_decay_boundary_epochs"),
        Rule(
            ("decay_boundaries",),
            Stretched((40, 50)),
            f"{_ROW_V07} opt_learning_rate_decay_boundary_epochs: for some integer k; closed_ssd.yaml",
        ),
        Rule(
            ("evaluation_interval_epochs",), OneOf((0,)), "v0.7, Quality measure: fixed epochs (0: those of the rules)"
        ),
    ),
    sets={"reference": "reference", "synthetic": "reference_1gpu"},
    listed_optimizers={"sgd": frozenset({"pytorch", "tensorflow"})},
)
ROUNDS = {"v0.5": V05, "v0.7": V07}
