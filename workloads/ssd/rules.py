"""SSD's closed rules of rounds v0.5 and v0.7 (docs/rules.md prints them)."""

from __future__ import annotations

from dataclasses import replace

from workloads.api.rules import (
    ANY,
    ROUND_V05,
    ROUND_V07,
    above,
    at_targets,
    multiple,
    one_of,
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
    RATE,
    STRETCHED_V05,
    warm_up,
)
from workloads.ssd.settings import REFERENCE_MODEL

_ROW_V07 = f"{HYPERPARAMETERS_V07}, ssd"
_DECAY = (160_000, 200_000)
"""Steps of 32 images (reference train.py, tag v0.5)."""

_BOTH = (
    rule("dataset", one_of("coco2017"), "Benchmarks: COCO"),
    rule("model", reference(REFERENCE_MODEL), "Model: the same as the reference"),
    rule("decay_factor", one_of(0.1), AS_REFERENCE),
    rule(
        "plateau",
        one_of("base", "last_warm_up_rate"),
        "Hyperparameters: the warm-up's formula ends at r0; train.py and NVIDIA's closed results a step earlier",
    ),
    *DETECTION,
)

V05 = replace(
    ROUND_V05,
    rows=(
        *EVERY_V05,
        *_BOTH,
        rule("targets", at_targets({"map": 0.212}), "v0.5, Benchmarks: 21.2 % mAP"),
        rule(
            "learning_rate",
            multiple(1e-3),
            f"{HYPERPARAMETERS_V05}: the reference's 1e-3 (train.py of v0.5) times a whole r",
        ),
        rule("warmup_steps", whole(0), f"{HYPERPARAMETERS_V05}: a linear warm-up of wb batches may be added"),
        warm_up(f"{HYPERPARAMETERS_V05}: the reference's rate is constant for more than wb batches", _DECAY[0] * 32),
        rule("warmup_factor", whole(0), f"{HYPERPARAMETERS_V05}: step size r0 / (wb · 2^wk), wk not negative"),
        rule("weight_decay", ANY, f"{HYPERPARAMETERS_V05}, SSD: arbitrary constant"),
        rule("max_samples", whole(1), f"{HYPERPARAMETERS_V05}, SSD: maximum number of samples attempted, at least 1"),
        rule("decay_unit", one_of("iterations_of_32"), f"{AS_REFERENCE_V05}: train.py of v0.5 counts iterations"),
        rule("decay_boundaries", stretched(_DECAY, least=0), STRETCHED_V05),
        rule(
            "evaluation_interval_epochs",
            one_of(0, 1, 2, 3, 4, 5),
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
        rule("targets", at_targets({"map": 0.230}), "v0.7, Benchmarks: 23.0 % mAP; closed_ssd.yaml"),
        rule("learning_rate", above(0), f"{_ROW_V07} opt_base_learning_rate: unconstrained{RATE}"),
        warm_up(f"{_ROW_V07} opt_base_learning_rate: the learning rate after warm up and before decay"),
        rule("warmup_steps", whole(1), f"{_ROW_V07} opt_learning_rate_warmup_steps; closed_ssd.yaml"),
        rule("warmup_factor", whole(0), f"{_ROW_V07} opt_learning_rate_warmup_factor; closed_ssd.yaml"),
        rule("weight_decay", ANY, f"{_ROW_V07} opt_weight_decay: arbitrary constant"),
        rule("max_samples", one_of(1, 50), f"{_ROW_V07} max_samples; closed_ssd.yaml"),
        rule("decay_unit", one_of("epochs"), f"{_ROW_V07} opt_learning_rate_decay_boundary_epochs"),
        rule(
            "decay_boundaries",
            stretched((40, 50)),
            f"{_ROW_V07} opt_learning_rate_decay_boundary_epochs: for some integer k; closed_ssd.yaml",
        ),
        rule("evaluation_interval_epochs", one_of(0), "v0.7, Quality measure: fixed epochs (0: those of the rules)"),
    ),
    sets={"reference": "reference", "synthetic": "reference_1gpu"},
    listed_optimizers={"sgd": frozenset({"pytorch", "tensorflow"})},
)
ROUNDS = {"v0.5": V05, "v0.7": V07}
