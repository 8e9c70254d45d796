"""ResNet-50's closed rules of rounds v0.5 and v0.7 (docs/rules.md prints them)."""

from __future__ import annotations

from dataclasses import replace

from workloads.api.rules import (
    ANY,
    ROUND_V05,
    ROUND_V07,
    above,
    at_least,
    at_targets,
    below,
    multiple,
    one_of,
    per_batch,
    power_of_two,
    reference,
    rule,
    stretched,
    whole,
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
    STRETCHED_V05,
    UNUSED,
    warm_up,
    when,
)
from workloads.resnet50.settings import REFERENCE_MODEL

_ROW_V07 = f"{HYPERPARAMETERS_V07}, resnet"
_NVIDIA_V05 = "NVIDIA's closed results of v0.5 (config_DGX1.sh)"
_OF_STEPS = "decay_epochs decay_factor"
_OF_POLYNOMIAL = "horizon_epochs end_learning_rate power"
_SGD, _LARS = when(optimizer="sgd"), when(optimizer="lars")
_STEPS, _POLYNOMIAL = when(decay="steps"), when(decay="polynomial")

_BOTH = (
    rule("dataset", one_of("imagenet"), "Benchmarks: ImageNet"),
    rule("model", reference(REFERENCE_MODEL), "Model: the same as the reference"),
    rule("evaluation_offset_epochs", whole(1, 4), "Quality measure: every 4 epochs, offset 0 to 3"),
    rule("lars_coefficient", ANY, UNUSED, _SGD),
    *IMAGES,
)

V05 = replace(
    ROUND_V05,
    rows=(
        *EVERY_V05,
        *_BOTH,
        rule("targets", at_targets({"top1": 0.749}), "v0.5, Benchmarks: 74.90 %"),
        rule("optimizer", one_of("sgd"), AS_REFERENCE_V05),
        rule(
            "learning_rate",
            multiple(0.1),
            f"{HYPERPARAMETERS_V05}, ResNet: base learning rate 0.1 or 0.128; times a whole r",
        ),
        rule("learning_rate", multiple(0.128), f"{HYPERPARAMETERS_V05}: the same with base 0.128"),
        rule(
            "learning_rate", per_batch(0.128, 256), f"{AS_REFERENCE_V05}: resnet_run_loop.py computes it from the batch"
        ),
        rule("learning_rate", per_batch(0.1, 256), f"{HYPERPARAMETERS_V05}: the same with base 0.1"),
        rule("warmup_epochs", whole(0), f"{HYPERPARAMETERS_V05}: a linear warm-up of wb batches may be added"),
        warm_up(f"{HYPERPARAMETERS_V05}: the reference's rate is constant for more than wb batches", 30 * 1_281_167),
        rule("momentum", one_of(0.9), AS_REFERENCE_V05),
        rule("weight_decay", one_of(1e-4), AS_REFERENCE_V05),
        rule("label_smoothing", one_of(0.0), AS_REFERENCE_V05),
        rule("momentum_rate", one_of("outside"), f"{AS_REFERENCE_V05}: tf.train.MomentumOptimizer"),
        rule("momentum_rate", one_of("inside"), f"MXNet's own SGD: {_NVIDIA_V05}"),
        rule(
            "initialisation",
            one_of("truncated_normal_glorot"),
            "v0.5, Weight and Bias Initialization: the same distribution as the reference, whose classifier at tag v0.5 has "
            "tf.layers.dense's own, Glorot uniform",
        ),
        rule("initialisation", one_of("gaussian_2_everywhere"), _NVIDIA_V05),
        rule("decay", one_of("steps"), AS_REFERENCE_V05),
        rule("decay_factor", one_of(0.1), AS_REFERENCE_V05),
        rule("decay_epochs", stretched((30, 60, 80, 90), least=0), STRETCHED_V05),
        rule("decay_epochs", stretched((30, 60, 80), least=0), f"without the last step: {_NVIDIA_V05}"),
        rule(_OF_POLYNOMIAL, ANY, UNUSED, _STEPS),
        rule(
            "evaluation_interval_epochs",
            whole(1, 4),
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
        rule("targets", at_targets({"top1": 0.759}), "v0.7, Benchmarks: 75.90 %; closed_resnet.yaml"),
        rule("optimizer", one_of("sgd", "lars"), f"{_ROW_V07} opt_name; closed_resnet.yaml"),
        rule("learning_rate", multiple(0.001), f"{_ROW_V07} sgd_opt_base_learning_rate; closed_resnet_sgd.yaml", _SGD),
        rule("learning_rate", above(0), f"{_ROW_V07} lars_opt_base_learning_rate: arbitrary constant{RATE}", _LARS),
        warm_up(f"v0.7, {PEAK}"),
        rule("warmup_epochs", whole(0), f"{_ROW_V07} opt_learning_rate_warmup_epochs", _SGD),
        rule("warmup_epochs", ANY, f"{_ROW_V07} lars_opt_learning_rate_warmup_epochs", _LARS),
        rule("momentum", one_of(0.9), f"{_ROW_V07} sgd_opt_momentum", _SGD),
        rule(
            "momentum",
            one_of(0.9),
            f"{_ROW_V07} lars_opt_momentum: 0.9 for batch < 32k",
            {**_LARS, **when(batch_size_global=below(32_768))},
        ),
        rule(
            "momentum",
            ANY,
            f"{_ROW_V07} lars_opt_momentum: otherwise an arbitrary constant",
            {**_LARS, **when(batch_size_global=at_least(32_768))},
        ),
        rule("weight_decay", power_of_two(1e-4), f"{_ROW_V07} …_opt_weight_decay; closed_resnet_sgd.yaml, …_lars.yaml"),
        rule("label_smoothing", one_of(0.0, 0.1), f"{_ROW_V07} label smoothing"),
        rule(
            "initialisation",
            one_of("truncated_normal", "gaussian_2"),
            f"{_ROW_V07} truncated norm initialization: boolean; without it as in NVIDIA's closed results of v0.7",
        ),
        rule("decay", one_of("polynomial"), f"{_ROW_V07} …_decay_poly_power: no row has steps"),
        rule(
            "end_learning_rate",
            one_of(1e-4),
            f"{_ROW_V07} …_opt_end_learning_rate; closed_resnet_sgd.yaml, …_lars.yaml",
            _POLYNOMIAL,
        ),
        rule("power", one_of(2.0), f"{_ROW_V07} …_decay_poly_power", _POLYNOMIAL),
        rule("horizon_epochs", at_least("warmup_epochs"), f"{_ROW_V07} …_decay_steps: at least 0", _POLYNOMIAL),
        rule(_OF_STEPS, ANY, UNUSED, _POLYNOMIAL),
        rule(f"{_OF_STEPS} {_OF_POLYNOMIAL}", ANY, UNUSED, _STEPS),
        rule("lars_coefficient", one_of(0.001), AS_REFERENCE_V07, _LARS),
        rule(
            "momentum_rate",
            one_of("outside"),
            "v0.7, Allowed Optimizers: torch.optim.SGD, FusedSGD or tf.train.MomentumOptimizer",
            _SGD,
        ),
        rule(
            "momentum_rate",
            one_of("inside", "outside"),
            "v0.7, Allowed Optimizers: MLPERF_LARSOptimizer or SGDwFASTLARS",
            _LARS,
        ),
        rule("evaluation_interval_epochs", one_of(4), "v0.7, Quality measure: every 4 epochs"),
    ),
    sets={"reference": "closed_v0.7", "synthetic": "reference_1gpu"},
    sets_of_frameworks={"mxnet": "nvidia_v0.7_dgx1"},  # LARS, which the round lists for it
    listed_optimizers={"sgd": frozenset({"pytorch", "tensorflow"}), "lars": frozenset({"tensorflow", "mxnet"})},
)
ROUNDS = {"v0.5": V05, "v0.7": V07}
