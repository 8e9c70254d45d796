"""ResNet-50's closed rules of rounds v0.5 and v0.7 (docs/rules.md prints them)."""

from __future__ import annotations

from dataclasses import replace

from workloads.api.rules import (
    ROUND_V05,
    ROUND_V07,
    Above,
    AtLeast,
    Below,
    Free,
    Multiple,
    OneOf,
    PerBatch,
    PowerOfTwo,
    Reference,
    Rule,
    Stretched,
    Targets,
    Whole,
)
from workloads.common.rules import (
    AS_REFERENCE_V05,
    AS_REFERENCE_V07,
    EVERY_V05,
    EVERY_V07,
    HYPERPARAMETERS_V05,
    HYPERPARAMETERS_V07,
    IMAGES,
    PEAK,
    RATE,
    UNUSED,
    warm_up,
    when,
)
from workloads.resnet50.settings import REFERENCE_MODEL

_ROW_V07 = f"{HYPERPARAMETERS_V07}, resnet"
_NVIDIA_V05 = "NVIDIA's closed results of v0.5 (config_DGX1.sh)"
_OF_STEPS = ("decay_epochs", "decay_factor")
_OF_POLYNOMIAL = ("horizon_epochs", "end_learning_rate", "power")
_SGD, _LARS = when(optimizer="sgd"), when(optimizer="lars")

_BOTH = (
    Rule(("dataset",), OneOf(("imagenet",)), "Benchmarks: ImageNet"),
    Rule(("model",), Reference(REFERENCE_MODEL), "Model: the same as the reference"),
    Rule(("evaluation_offset_epochs",), Whole(1, 4), "Quality measure: every 4 epochs, offset 0 to 3"),
    Rule(("lars_coefficient",), Free(), UNUSED, _SGD),
    *IMAGES,
)

V05 = replace(
    ROUND_V05,
    rows=(
        *EVERY_V05,
        *_BOTH,
        Rule(("targets",), Targets({"top1": 0.749}), "v0.5, Benchmarks: 74.90 %"),
        Rule(("optimizer",), OneOf(("sgd",)), AS_REFERENCE_V05),
        Rule(
            ("learning_rate",),
            Multiple(0.1),
            f"{HYPERPARAMETERS_V05}, ResNet: base learning rate 0.1 or 0.128; times a whole r",
        ),
        Rule(("learning_rate",), Multiple(0.128), f"{HYPERPARAMETERS_V05}: the same with base 0.128"),
        Rule(
            ("learning_rate",),
            PerBatch(0.128, 256),
            f"{AS_REFERENCE_V05}: resnet_run_loop.py computes it from the batch",
        ),
        Rule(("learning_rate",), PerBatch(0.1, 256), f"{HYPERPARAMETERS_V05}: the same with base 0.1"),
        Rule(
            ("warmup_epochs",),
            Whole(0),
            f"{HYPERPARAMETERS_V05}: a linear warm-up of wb batches may be added",
        ),
        warm_up(f"{HYPERPARAMETERS_V05}: the reference's rate is constant for more than wb batches", 30 * 1_281_167),
        Rule(("momentum",), OneOf((0.9,)), AS_REFERENCE_V05),
        Rule(("weight_decay",), OneOf((1e-4,)), AS_REFERENCE_V05),
        Rule(("label_smoothing",), OneOf((0.0,)), AS_REFERENCE_V05),
        Rule(("momentum_rate",), OneOf(("outside",)), f"{AS_REFERENCE_V05}: tf.train.MomentumOptimizer"),
        Rule(("momentum_rate",), OneOf(("inside",)), f"MXNet's own SGD: {_NVIDIA_V05}"),
        Rule(
            ("initialisation",),
            OneOf(("truncated_normal_glorot",)),
            "v0.5, Weight and Bias Initialization: the same distribution as the reference, whose classifier at tag v0.5 has "
            "tf.layers.dense's own, Glorot uniform",
        ),
        Rule(("initialisation",), OneOf(("gaussian_2_everywhere",)), _NVIDIA_V05),
        Rule(("decay",), OneOf(("steps",)), AS_REFERENCE_V05),
        Rule(("decay_factor",), OneOf((0.1,)), AS_REFERENCE_V05),
        Rule(
            ("decay_epochs",),
            Stretched((30, 60, 80, 90), least=0),
            f"{HYPERPARAMETERS_V05}: the schedule scaled in time by 1 + k/10",
        ),
        Rule(("decay_epochs",), Stretched((30, 60, 80), least=0), f"without the last step: {_NVIDIA_V05}"),
        Rule(_OF_POLYNOMIAL, Free(), UNUSED, when(decay="steps")),
        Rule(
            ("evaluation_interval_epochs",),
            Whole(1, 4),
            "v0.5, Quality measure: at least as frequently as the reference, every 4 epochs",
        ),
    ),
    sets={"reference": "reference_v0.5", "synthetic": "reference_v0.5_1gpu"},
)

V07 = replace(
    ROUND_V07,
    rows=(
        *EVERY_V07,
        *_BOTH,
        Rule(("targets",), Targets({"top1": 0.759}), "v0.7, Benchmarks: 75.90 %; closed_resnet.yaml"),
        Rule(("optimizer",), OneOf(("sgd", "lars")), f"{_ROW_V07} opt_name; closed_resnet.yaml"),
        Rule(
            ("learning_rate",), Multiple(0.001), f"{_ROW_V07} sgd_opt_base_learning_rate; closed_resnet_sgd.yaml", _SGD
        ),
        Rule(("learning_rate",), Above(0), f"{_ROW_V07} lars_opt_base_learning_rate: arbitrary constant{RATE}", _LARS),
        warm_up(f"v0.7, {PEAK}"),
        Rule(("warmup_epochs",), Whole(0), f"{_ROW_V07} opt_learning_rate_warmup_epochs", _SGD),
        Rule(("warmup_epochs",), Free(), f"{_ROW_V07} lars_opt_learning_rate_warmup_epochs", _LARS),
        Rule(("momentum",), OneOf((0.9,)), f"{_ROW_V07} sgd_opt_momentum", _SGD),
        Rule(
            ("momentum",),
            OneOf((0.9,)),
            f"{_ROW_V07} lars_opt_momentum: 0.9 for batch < 32k",
            {**_LARS, **when(batch_size_global=Below((32_768,)))},
        ),
        Rule(
            ("momentum",),
            Free(),
            f"{_ROW_V07} lars_opt_momentum: otherwise an arbitrary constant",
            {**_LARS, **when(batch_size_global=AtLeast(32_768))},
        ),
        Rule(
            ("weight_decay",), PowerOfTwo(1e-4), f"{_ROW_V07} …_opt_weight_decay; closed_resnet_sgd.yaml, …_lars.yaml"
        ),
        Rule(("label_smoothing",), OneOf((0.0, 0.1)), f"{_ROW_V07} label smoothing"),
        Rule(
            ("initialisation",),
            OneOf(("truncated_normal", "gaussian_2")),
            f"{_ROW_V07} truncated norm initialization: boolean; without it as in NVIDIA's closed results of v0.7",
        ),
        Rule(("decay",), OneOf(("polynomial",)), f"{_ROW_V07} …_decay_poly_power: no row has steps"),
        Rule(
            ("end_learning_rate",),
            OneOf((1e-4,)),
            f"{_ROW_V07} …_opt_end_learning_rate; closed_resnet_sgd.yaml, …_lars.yaml",
            when(decay="polynomial"),
        ),
        Rule(("power",), OneOf((2.0,)), f"{_ROW_V07} …_decay_poly_power", when(decay="polynomial")),
        Rule(
            ("horizon_epochs",),
            AtLeast("warmup_epochs"),
            f"{_ROW_V07} …_decay_steps: at least 0",
            when(decay="polynomial"),
        ),
        Rule(_OF_STEPS, Free(), UNUSED, when(decay="polynomial")),
        Rule((*_OF_STEPS, *_OF_POLYNOMIAL), Free(), UNUSED, when(decay="steps")),
        Rule(("lars_coefficient",), OneOf((0.001,)), AS_REFERENCE_V07, _LARS),
        Rule(
            ("momentum_rate",),
            OneOf(("outside",)),
            "v0.7, Allowed Optimizers: torch.optim.SGD, FusedSGD or tf.train.MomentumOptimizer",
            _SGD,
        ),
        Rule(
            ("momentum_rate",),
            OneOf(("inside", "outside")),
            "v0.7, Allowed Optimizers: MLPERF_LARSOptimizer or SGDwFASTLARS",
            _LARS,
        ),
        Rule(("evaluation_interval_epochs",), OneOf((4,)), "v0.7, Quality measure: every 4 epochs"),
    ),
    sets={"reference": "closed_v0.7", "synthetic": "reference_1gpu"},
    sets_of_frameworks={"mxnet": "nvidia_v0.7_dgx1"},  # LARS, which the round lists for it
    listed_optimizers={"sgd": frozenset({"pytorch", "tensorflow"}), "lars": frozenset({"tensorflow", "mxnet"})},
)
ROUNDS = {"v0.5": V05, "v0.7": V07}
