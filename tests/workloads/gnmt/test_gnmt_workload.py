"""The GNMT workload: schedules, sets, log keys, sizes, and rejected values."""

import math

import numpy as np
import pytest

from suite.catalog.rounds import get_round
from testing import synthetic
from workloads.api import DatasetInfo, LossScaling
from workloads.gnmt.settings import REFERENCE_MODEL
from workloads.gnmt.trainers import TRAINERS
from workloads.gnmt.workload import GNMT

SIZES = {
    "vocabulary": 32_317,
    "dev": 5_168,
    "dev_longest": 123,
    "test_longest": 148,
    "pairs": 3_969_024,
}
"""Sizes of WMT16."""
WMT = DatasetInfo(3_969_024, 3_003, SIZES, "published")


def build_workload(set_name, rules="v0.7", dataset_info=WMT, **changes):
    """Return the workload with a hyperparameter set and the full data set."""
    targets = dict(GNMT.defaults("reference", get_round(rules, GNMT), {}).targets)
    values = {
        "devices": 8,
        "dataset": "wmt16-en-de",
        "model": REFERENCE_MODEL,
        "targets": targets,
        **changes,
    }
    return GNMT(synthetic.of_set(GNMT, set_name, rules=rules, **values), dataset_info)


def with_values(set_name, rules="v0.7", **values):
    """Return the workload with a set and some changed hyperparameters."""
    return build_workload(
        set_name,
        rules,
        hyperparameters={**build_workload(set_name).settings.hyperparameters, **values},
    )


def test_the_rate_warms_up_is_constant_and_is_halved_four_times():
    """Check the rates of NVIDIA's v0.6 entry for updates u, which are counted from 1.

    The rate is 2e-3 · 0.01^((200 - u) / 200) during the warm-up, then 2e-3. It is halved at update
    6,453 and every 809 updates after that, four times in total.
    """
    workload = build_workload("nvidia_v0.6_dgx1")

    def rate(update):
        return workload.learning_rate(update - 1)

    assert rate(1) == pytest.approx(2.047e-5, abs=5e-9), (
        "the first rate of NVIDIA's code, whose scheduler is stepped before the update"
    )
    assert rate(100) == pytest.approx(2e-4)
    assert rate(150) == pytest.approx(2e-3 * 0.01**0.25)
    assert [rate(200), rate(6_452)] == [2e-3, 2e-3]
    updates = [6_453, 6_453 + 808, 6_453 + 809, 6_453 + 2 * 809, 6_453 + 3 * 809, 6_453 + 100 * 809]
    assert [rate(update) for update in updates] == [1e-3, 1e-3, 5e-4, 2.5e-4, 1.25e-4, 1.25e-4]


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("reference", {}),
        ("nvidia_v0.7_dgxa100", {}),
        ("reference", {"warmup_steps": 300, "remain_steps": 100.0}),
        # A value of 1.0 means all steps, not a single step: the rules of v0.7 use it to switch the
        # decay off.
        ("reference", {"remain_steps": 1.0}),
    ],
)
def test_rates_equal_those_of_the_references_scheduler(name, changed):
    """Compare with a reimplementation of lr_scheduler.py (mlcommons/training aa344c7f).

    The reference steps its scheduler before each update.
    """
    workload = with_values(name, **changed)
    values, total = workload.options, workload.options.max_epochs * workload.steps_per_epoch
    remain = (
        int(values.remain_steps * total) if values.remain_steps <= 1 else int(values.remain_steps)
    )
    interval = values.decay_interval or max((total - remain) // 4, 1)
    warm = min(values.warmup_steps, remain)

    def scheduled(last_epoch):
        if last_epoch <= warm:
            return values.learning_rate * math.exp(math.log(0.01) / warm) ** (warm - last_epoch)
        if last_epoch >= remain:
            return values.learning_rate * 0.5 ** min((last_epoch - remain) // interval + 1, 4)
        return values.learning_rate

    updates = [1, 2, *range(warm - 1, warm + 2), *range(remain - 1, remain + 2)]
    updates += [remain + interval, total]
    got = [workload.learning_rate(update - 1) for update in updates]
    np.testing.assert_allclose(got, [scheduled(update) for update in updates], rtol=1e-12)


def test_v05_reference_has_a_constant_rate():
    workload, later = build_workload("reference_v0.5", "v0.5"), build_workload("reference")
    assert {workload.learning_rate(step) for step in (0, 100, 10**6)} == {5e-4}
    for name in ("opt_learning_rate_alt_decay_func", "opt_learning_rate_alt_warmup_func"):
        assert (workload.log_keys()[name], later.log_keys()[name]) == (False, True)


def test_logged_values_of_the_schedule_are_positive():
    """Check values that the rules of v0.6 require to be positive, for a set that contains 0."""
    found = build_workload("nvidia_v0.7_dgxa100").log_keys()
    values = [
        found[name] for name in found if name.startswith("opt_learning_rate") and "alt" not in name
    ]
    assert len(values) == 5
    assert min(values) > 0
    assert (
        with_values("reference", remain_steps=100.0).log_keys()["opt_learning_rate_warmup_steps"]
        == 100
    )


def test_adam_clips_and_fp16_scales_as_in_the_reference():
    settings = build_workload("reference").optimizer()
    assert (settings.name, settings.beta1, settings.beta2, settings.epsilon) == (
        "adam",
        0.9,
        0.999,
        1e-8,
    )
    assert settings.clip_norm == 5.0
    assert settings.loss_scaling == LossScaling()
    scaling = (
        build_workload("reference", framework="pytorch", precision="fp16").optimizer().loss_scaling
    )
    assert scaling == TRAINERS["pytorch"].fp16_loss_scaling
    assert (scaling.start, scaling.maximum, scaling.growth_interval) == (8192, 8192, 128)


def test_hidden_and_layers_can_be_set_for_scaling_studies():
    model = GNMT.defaults(
        "synthetic", get_round("v0.7", GNMT), {"hidden": 2_048, "layers": 2}
    ).model
    workload = build_workload("reference", model=model, profile="synthetic")
    assert (workload.network.hidden, len(workload.network.decoder)) == (2_048, 2)
    with pytest.raises(
        ValueError, match=r"workload.hidden=1001: not a multiple of 8. Set workload.hidden=1008"
    ):
        GNMT.defaults("synthetic", get_round("v0.7", GNMT), {"hidden": 1_001})


@pytest.mark.parametrize(
    ("precision", "words", "parameters"), [("fp32", 32_317, 6_147), ("fp16", 32_320, 0)]
)
def test_the_vocabulary_is_padded_only_in_half_precision(precision, words, parameters):
    workload = build_workload("reference", precision=precision)
    assert workload.network.vocabulary == words
    assert workload.log_keys()["model_parameters"] == 160_671_297 - parameters


def test_memory_of_a_batch_on_cpu_cores():
    """Check that a batch needs at least the memory of the logits of the longest pair."""
    assert GNMT.activation_bytes(build_workload("reference").settings) > 50 * 32_320 * 4
    half = GNMT.activation_bytes(build_workload("reference", precision="bf16").settings)
    assert 2 * half == GNMT.activation_bytes(build_workload("reference").settings)
