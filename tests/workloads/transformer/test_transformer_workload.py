"""The Transformer workload: schedule, sets, batches by tokens, loss, and rejected sizes."""

import dataclasses
import math

import numpy as np
import pytest

from suite.catalog.rounds import get_round
from testing import synthetic, synthetic_transformer
from workloads.api import DatasetInfo, LossScaling
from workloads.transformer.settings import REFERENCE_MODEL
from workloads.transformer.trainers import TRAINERS
from workloads.transformer.workload import Transformer

SIZES = {
    "vocabulary": 33_708,
    "dev": 3_000,
    "dev_longest": 150,
    "test_longest": 150,
    "pairs": 4_590_101,
    "end": 1,
}
"""Sizes of WMT17."""
WMT = DatasetInfo(4_590_101, 3_003, SIZES, "published")


def build_workload(set_name, rules="v0.7", dataset_info=WMT, **changes):
    """Return the workload with a hyperparameter set and the full data set."""
    defaults = Transformer.defaults(
        "demo" if set_name == "demo" else "reference", get_round(rules, Transformer), {}
    )
    of_round = {
        "dataset": defaults.dataset,
        "model": defaults.model,
        "targets": dict(defaults.targets),
    }
    values = {"devices": 8, "rules": rules, **of_round, **changes}
    return Transformer(synthetic.of_set(Transformer, set_name, **values), dataset_info)


def test_the_rate_rises_linearly_and_falls_with_the_inverse_root():
    """Compare with the reference: 2.0 · d^-0.5 · min(1, s / 16000) / √max(s, 16000), s ≥ 0."""
    rate = build_workload("reference", devices=1).learning_rate
    for step in (0, 1, 8_000, 16_000, 16_001, 64_000):
        wanted = 2.0 * 1_024**-0.5 * min(1.0, step / 16_000) / math.sqrt(max(step, 16_000))
        assert rate(step) == pytest.approx(wanted, rel=1e-12)


def test_rates_equal_those_of_nvidias_v07_entry():
    rate = build_workload("nvidia_v0.7_dgxa100").learning_rate
    assert [rate(step) for step in (0, 375, 750, 3_000)] == [
        0,
        0.95e-3,
        1.9e-3,
        pytest.approx(0.95e-3),
    ]


def test_the_reference_has_the_logged_parameters_and_buckets():
    """Build the network, whose constructor asserts 210,804,736 parameters."""
    workload = build_workload("reference", devices=1)
    assert workload.network.vocabulary == 33_708
    edges = [bucket.edge for bucket in workload.buckets()]
    assert (edges[0], edges[1], edges[-2], edges[-1]) == (8, 9, 236, 256)
    assert all(bucket.batch_samples == 4_096 // bucket.edge for bucket in workload.buckets())


def test_batches_by_tokens_are_shared_equally():
    workload = build_workload("nvidia_v0.7_dgx1")
    for bucket in workload.buckets():
        assert bucket.edge % 2 == 0
        assert bucket.batch_samples % 8 == 0
        assert 81_920 - 8 * bucket.edge < bucket.batch_samples * bucket.edge <= 81_920


def test_demo_has_six_shapes(demo_data):
    folder = demo_data("translation-demo")
    settings = build_workload("demo").settings
    settings = dataclasses.replace(settings, profile="demo", data_dir=str(folder), devices=2)
    workload = Transformer(settings, Transformer.load_dataset_info(settings))
    assert len(workload.shapes()) == 6
    assert workload.counts.too_long == 0
    assert 0.76 < workload.counts.fill < 0.78
    assert workload.end == 3, "the corpus has ids of a separate vocabulary"
    assert (workload.beam.start, workload.beam.end) == (0, 3)


@pytest.mark.parametrize("over", ["others", "all"])
def test_the_loss_of_a_token(over):
    """Compare the weights of the label and of the mean with soft targets.

    The least loss is the entropy of the soft targets.
    """
    workload = synthetic_transformer.workload("steps" if over == "others" else "fairseq", "pytorch")
    words, smoothing = workload.network.vocabulary, 0.1
    soft = np.full(words, smoothing / (words - 1) if over == "others" else smoothing / words)
    soft[3] = 1 - smoothing if over == "others" else soft[3] + 1 - smoothing
    assert soft.sum() == pytest.approx(1)
    on_label, on_mean = workload.label_shares
    assert on_label + on_mean == pytest.approx(1)
    logarithms = np.log(np.arange(1, words + 1) / np.arange(1, words + 1).sum())
    assert -(soft * logarithms).sum() == pytest.approx(
        -(on_label * logarithms[3] + on_mean * logarithms.mean())
    )
    entropy = -(soft * np.log(soft)).sum()
    assert workload.least_loss == pytest.approx(entropy if over == "others" else 0.0)


def test_settings_of_adam_and_of_fp16():
    settings = build_workload("reference").optimizer()
    assert (settings.name, settings.beta1, settings.beta2, settings.epsilon) == (
        "adam",
        0.9,
        0.997,
        1e-9,
    )
    assert settings.clip_norm is None
    assert settings.loss_scaling == LossScaling()
    scaling = (
        build_workload("reference", framework="pytorch", precision="fp16").optimizer().loss_scaling
    )
    assert scaling == TRAINERS["pytorch"].fp16_loss_scaling


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 6}, "workload.heads=6: not a multiple of 4. Set workload.heads=8"),
        (
            {"hidden": 1_000},
            (
                "workload.hidden=1000: not a multiple of 32 (twice the 16 heads). Set"
                " workload.hidden=1024"
            ),
        ),
        (
            {"feed_forward": 6},
            "workload.feed_forward=6: not a multiple of 4. Set workload.feed_forward=8",
        ),
    ],
)
def test_invalid_sizes_are_rejected(options, message):
    with pytest.raises(ValueError, match="not a multiple") as caught:
        Transformer.defaults("reference", get_round("v0.7", Transformer), options)
    assert str(caught.value) == message


def test_sizes_for_scaling_studies_and_profiles():
    model = Transformer.defaults(
        "synthetic", get_round("v0.7", Transformer), {"hidden": 512, "heads": 8, "layers": 3}
    ).model
    assert build_workload("reference", model=model, profile="synthetic").network.layers == 3
    assert (
        Transformer.defaults("synthetic", get_round("v0.7", Transformer), {}).model
        == REFERENCE_MODEL
    )


def test_a_batch_too_small_for_its_longest_pair_is_refused():
    with pytest.raises(
        ValueError,
        match=r"cannot give each of 8 devices a sample of 256 tokens. Set batch=global:2048",
    ):
        build_workload("reference", global_batch_size=1_024)


def test_memory_of_a_token_on_cpu_cores():
    """Check that a token needs at least the memory of its log-probabilities."""
    assert Transformer.activation_bytes(build_workload("reference").settings) > 33_708 * 4
