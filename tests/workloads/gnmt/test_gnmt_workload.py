"""Schedules, sets, log keys and sizes; what is refused."""

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
"""Of WMT16."""
WMT = DatasetInfo(3_969_024, 3_003, SIZES, "published")


def made(set_name, rules="v0.7", dataset_info=WMT, **changes):
    """The full workload with one of the sets."""
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
    """The same with some hyperparameters changed."""
    return made(
        set_name, rules, hyperparameters={**made(set_name).settings.hyperparameters, **values}
    )


def test_warm_up_hold_and_four_halvings():
    """NVIDIA's v0.6 entry, update u from 1: 2e-3 · 0.01^((200 - u) / 200), then 2e-3, from 6,453
    halved every 809.
    """
    workload = made("nvidia_v0.6_dgx1")

    def rate(update):
        return workload.learning_rate(update - 1)

    assert rate(1) == pytest.approx(2.047e-5, abs=5e-9), (
        "the first that NVIDIA's code uses: its scheduler steps first"
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
        (
            "reference",
            {"remain_steps": 1.0},
        ),  # all steps (v0.7's rules: it switches the decay off), not the first one
    ],
)
def test_rates_are_those_of_the_references_scheduler(name, changed):
    """Written anew from lr_scheduler.py (mlcommons/training aa344c7f), which is stepped before each
    update.
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

    updates = [
        1,
        2,
        warm - 1,
        warm,
        warm + 1,
        remain - 1,
        remain,
        remain + 1,
        remain + interval,
        total,
    ]
    got = [workload.learning_rate(update - 1) for update in updates]
    np.testing.assert_allclose(got, [scheduled(update) for update in updates], rtol=1e-12)


def test_v05_reference_has_a_constant_rate():
    workload, later = made("reference_v0.5", "v0.5"), made("reference")
    assert {workload.learning_rate(step) for step in (0, 100, 10**6)} == {5e-4}
    for name in ("opt_learning_rate_alt_decay_func", "opt_learning_rate_alt_warmup_func"):
        assert (workload.log_keys()[name], later.log_keys()[name]) == (False, True)


def test_what_is_logged_of_the_schedule_is_positive():
    """As the rules of v0.6 want it, also where a set says 0."""
    found = made("nvidia_v0.7_dgxa100").log_keys()
    values = [
        found[name] for name in found if name.startswith("opt_learning_rate") and "alt" not in name
    ]
    assert len(values) == 5
    assert min(values) > 0
    assert (
        with_values("reference", remain_steps=100.0).log_keys()["opt_learning_rate_warmup_steps"]
        == 100
    )


def test_adam_clips_and_fp16_scales_as_the_reference():
    settings = made("reference").optimizer()
    assert (settings.name, settings.beta1, settings.beta2, settings.epsilon) == (
        "adam",
        0.9,
        0.999,
        1e-8,
    )
    assert settings.clip_norm == 5.0
    assert settings.loss_scaling == LossScaling()
    scaling = made("reference", framework="pytorch", precision="fp16").optimizer().loss_scaling
    assert scaling == TRAINERS["pytorch"].fp16_loss_scaling
    assert (scaling.start, scaling.maximum, scaling.growth_interval) == (8192, 8192, 128)


def test_hidden_and_layers_for_scaling_studies():
    model = GNMT.defaults(
        "synthetic", get_round("v0.7", GNMT), {"hidden": 2_048, "layers": 2}
    ).model
    workload = made("reference", model=model, profile="synthetic")
    assert (workload.network.hidden, len(workload.network.decoder)) == (2_048, 2)
    with pytest.raises(
        ValueError, match=r"workload.hidden=1001: not a multiple of 8. Set workload.hidden=1008"
    ):
        GNMT.defaults("synthetic", get_round("v0.7", GNMT), {"hidden": 1_001})


@pytest.mark.parametrize(
    ("precision", "words", "parameters"), [("fp32", 32_317, 6_147), ("fp16", 32_320, 0)]
)
def test_the_vocabulary_is_filled_up_in_half_precision_alone(precision, words, parameters):
    workload = made("reference", precision=precision)
    assert workload.network.vocabulary == words
    assert workload.log_keys()["model_parameters"] == 160_671_297 - parameters


def test_memory_of_a_batch_on_cpu_cores():
    """At least the logits of the longest pair."""
    assert GNMT.activation_bytes(made("reference").settings) > 50 * 32_320 * 4
    half = GNMT.activation_bytes(made("reference", precision="bf16").settings)
    assert 2 * half == GNMT.activation_bytes(made("reference").settings)
