import itertools
import math

import numpy as np
import pytest

from suite.catalog.sets import named_sets
from testing import synthetic, synthetic_resnet
from workloads.api import Batch, DatasetInfo, ParameterRule
from workloads.resnet50.settings import REFERENCE_MODEL
from workloads.resnet50.workload import ResNet50

SETS = named_sets(ResNet50)

IMAGENET = DatasetInfo(1_281_167, 50_000, {"classes": 1000}, "published")


def build_workload(set_name, dataset_info=IMAGENET, rules="v0.7", **changes):
    """Return the workload with a hyperparameter set and the full data set."""
    values = {
        "devices": 8,
        "dataset": "imagenet",
        "model": REFERENCE_MODEL,
        "targets": {"top1": 0.759},
        **changes,
    }
    return ResNet50(synthetic.of_set(ResNet50, set_name, rules=rules, **values), dataset_info)


def rates(workload, *epochs):
    """Return the learning rates at the start of epochs, which are counted from 0."""
    return [workload.learning_rate(round(epoch * workload.steps_per_epoch)) for epoch in epochs]


def test_reference_schedule():
    """Check the boundaries int(epoch · 1,251.14), at which the rate is still unchanged.

    An epoch has num_images / batch_size = 1,251.14 steps.
    """
    workload = build_workload("reference")
    assert workload.steps_per_epoch == 1252
    assert workload.decay_boundaries == [37_535, 75_069, 100_092, 112_603]
    steps = (0, 3_128, 6_254, 6_255, 37_534, 37_535, 75_068, 75_069, 112_603)
    assert [workload.learning_rate(step) for step in steps] == pytest.approx(
        [
            0,
            0.512 * 3_128 / 6_255,
            0.512 * 6_254 / 6_255,
            0.512,
            0.512,
            0.0512,
            0.0512,
            0.00512,
            0.0000512,
        ]
    )


def test_published_lars_schedules():
    """Check the learning rates of NVIDIA's v0.6 and v0.7.

    In v0.6, the rate decays for 51,590 steps, up to epoch 72 of 770 steps each. In v0.7, it decays
    up to epoch 37.
    """
    v06, v07 = build_workload("nvidia_v0.6_dgx1"), build_workload("nvidia_v0.7_dgx1")
    assert v06.steps_per_epoch == 770
    assert v06.decay_steps == 51_590
    assert rates(v06, 0, 2.5, 5, 72, 80) == pytest.approx([0, 2.5, 5.0, 1e-4, 1e-4])
    assert rates(v06, 5 + 67 / 2) == pytest.approx([1e-4 + (5 - 1e-4) / 4])
    assert rates(v07, 1, 2, 37) == pytest.approx([3.7, 7.4, 1e-4])


@pytest.mark.parametrize(
    ("name", "epochs"),
    [
        ("nvidia_v0.5_dgx1", [3, 7, 11]),
        ("nvidia_v0.6_dgx1", [4, 8, 12]),
        ("nvidia_v0.7_dgx1", [1, 5, 9]),
    ],
)
def test_evaluation_schedules(name, epochs):
    workload = build_workload(name)
    steps = list(itertools.islice(workload.evaluation_steps(), 3))
    assert [step / workload.steps_per_epoch for step in steps] == epochs


@pytest.mark.parametrize(
    ("name", "lr_in_momentum", "initialisation"),
    [
        ("reference", False, "truncated_normal"),
        ("reference_1gpu", False, "truncated_normal"),
        ("reference_v0.5", False, "truncated_normal_glorot"),
        ("reference_v0.5_1gpu", False, "truncated_normal_glorot"),
        ("nvidia_v0.5_dgx1", True, "gaussian_2_everywhere"),
        ("dgx1_article_8gpu", True, "gaussian_2_everywhere"),
        ("nvidia_v0.6_dgx1", False, "gaussian_2"),
        ("nvidia_v0.7_dgx1", False, "gaussian_2"),
        ("demo", False, "truncated_normal_2"),
    ],
)
def test_sets_define_the_kind_of_momentum_and_the_initial_weights(
    name, lr_in_momentum, initialisation
):
    """Check the values of the original code. The article's entries are presumed to equal v0.5's."""
    workload, values = build_workload(name), SETS[name]
    assert workload.optimizer().lr_in_momentum is values["lr_in_momentum"].value is lr_in_momentum
    assert values["initialisation"].value == initialisation
    for key in ("lr_in_momentum", "initialisation"):
        kind = "published" if name.startswith(("reference", "nvidia")) else "presumed"
        assert values[key].source.startswith(kind)
    stem = next(weight for _, weight in workload.initial_weights(1))
    gain = 1 if name.startswith("reference") else 2
    assert stem.std() * math.sqrt(3 * 7 * 7) == pytest.approx(math.sqrt(gain), rel=0.03)


def test_rules_of_the_optimizers():
    sgd, lars = build_workload("nvidia_v0.5_dgx1"), build_workload("nvidia_v0.7_dgx1")
    assert sgd.parameter_rule("layer1.0.conv1.weight") == ParameterRule(1e-4, False)
    # The reference decays the bias of the classifier.
    assert sgd.parameter_rule("fc.bias") == ParameterRule(1e-4, False)
    for name in ("layer1.0.downsample.1.weight", "bn1.bias"):
        assert sgd.parameter_rule(name) == ParameterRule(0.0, False)
    assert lars.parameter_rule("fc.weight") == ParameterRule(1e-4, True)
    for name in ("nvidia_v0.6_dgx1", "nvidia_v0.7_dgx1"):
        assert "also decays the classifier's bias" in SETS[name]["weight_decay"].source
    assert (
        lars.parameter_rule("fc.bias")
        == lars.parameter_rule("bn1.weight")
        == ParameterRule(0.0, False)
    )


def test_the_batch_must_fit_devices_and_data():
    with pytest.raises(ValueError, match=r"1664 .* 3 devices .*\. Set batch=global:1665"):
        build_workload("nvidia_v0.5_dgx1", devices=3)
    with pytest.raises(ValueError, match=r"1664 .*\(1000 images\)\. Set batch=global:1000"):
        build_workload(
            "nvidia_v0.5_dgx1", dataset_info=DatasetInfo(1000, 10, {"classes": 10}, "small")
        )


def test_padding_is_ignored_and_every_image_is_counted_once():
    workload = synthetic_resnet.workload("sgd", "pytorch")
    logits = np.eye(10, dtype=np.float32)[[1, 2, 3, 4]]
    arrays = {
        "label": np.array([1, 2, 0, 4], np.int32),
        "valid": np.array([True, True, True, False]),
    }
    assert workload.eval_batch_metrics(Batch(arrays, 3, 3, 3), {"logits": logits})[
        "correct"
    ].tolist() == [
        True,
        True,
        False,
    ]
    assert workload.compute_metrics({"correct": np.arange(96) < 72}) == {"top1": 0.75}
    with pytest.raises(ValueError, match="saw 95 images of 96"):
        workload.compute_metrics({"correct": np.ones(95, bool)})


def test_log_keys_of_both_optimizers():
    lars = build_workload("nvidia_v0.7_dgx1").log_keys()
    assert lars["lars_opt_learning_rate_decay_steps"] == 35 * 770
    assert lars["lars_opt_learning_rate_decay_poly_power"] == 2
    assert lars["model_bn_span"] == 208
    sgd = build_workload("nvidia_v0.5_dgx1").log_keys()
    assert sgd["opt_learning_rate_decay_boundary_epochs"] == [30, 60, 80]
    assert not any(name.startswith("lars") for name in sgd)
