import hashlib

import numpy as np
import pytest

from suite.catalog.sets import named_sets
from tests.workloads.resnet50.test_imagenet_demo import ridge_top1
from tests.workloads.zoo import synthetic_zoo
from workloads.api import Batch, ParameterRule, hyperparameter_fields
from workloads.zoo.datasets import cifar_demo
from workloads.zoo.settings import TARGETS_TOP1, ZooOptions, profile_defaults
from workloads.zoo.stock import check
from workloads.zoo.workload import Zoo

SETS = named_sets(Zoo)
DRAWN_SHA256 = "f37c49c6ebb151ec11d341292aa875ea3214098c8b843b6ddba4d6d5a72f04b9"


@pytest.mark.parametrize(
    ("profile", "options", "dataset", "size", "chosen", "variant"),
    [
        ("reference", {}, "cifar10", 32, "keras_article", "littlecnn at 32 px"),
        ("demo", {}, "cifar-demo", 32, "rmsprop_demo", "littlecnn at 32 px"),
        ("synthetic", {"image_size": 224}, "cifar10", 224, "keras_article", "littlecnn at 224 px"),
        (
            "synthetic",
            {"padding": "valid"},
            "cifar10",
            32,
            "keras_article",
            "littlecnn, valid padding at 32 px",
        ),
        (
            "reference",
            {"dataset": "fashion-mnist"},
            "cifar10",
            28,
            "rmsprop_fashion",
            "littlecnn at 28 px",
        ),
        ("synthetic", {"model": "inception_v3"}, "imagenet", 299, "sgd", "inception_v3 at 299 px"),
        ("demo", {"model": "inception_v3"}, "imagenet-demo", 75, "sgd", "inception_v3 at 75 px"),
        ("demo", {"model": "vgg16"}, "imagenet-demo", 64, "sgd", "vgg16 at 64 px"),
        (
            "synthetic",
            {"model": "vgg16", "implementation": "stock"},
            "imagenet",
            224,
            "sgd",
            "vgg16, stock at 224 px",
        ),
    ],
)
def test_profiles(profile, options, dataset, size, chosen, variant):
    found = profile_defaults(profile, options)
    assert (found.dataset, found.model["image_size"], found.hyperparameter_set) == (
        dataset,
        size,
        chosen,
    )
    assert found.variant == variant
    assert bool(found.targets) == (options.get("model", "littlecnn") == "littlecnn")


def test_sets_hold_every_hyperparameter():
    for values in SETS.values():
        assert set(values.plain) == set(hyperparameter_fields(ZooOptions))
    article = {name: value.value for name, value in SETS["keras_article"].items()}
    assert {
        "optimizer": "rmsprop",
        "learning_rate": 1e-4,
        "rho": 0.9,
        "epsilon": 1e-7,
    }.items() <= article.items()


def test_only_weights_are_decayed():
    workload = synthetic_zoo.workload("inception_bn", "pytorch", 64)
    assert workload.parameter_rule("conv2.conv.weight") == ParameterRule(1e-4)
    assert workload.parameter_rule("fc.weight") == ParameterRule(1e-4)
    for name in ("conv2.conv.bias", "conv2.bn.weight", "conv2.bn.bias", "fc.bias"):
        assert workload.parameter_rule(name) == ParameterRule(0.0)


def test_dropout_masks_have_the_shapes_and_rates_of_the_network():
    """Check LittleCNN's masks: rows, columns, and channels of two pools, and 512 features."""
    workload = synthetic_zoo.workload("littlecnn", "pytorch", 32, "rmsprop_demo")
    masks = workload.dropout_masks(synthetic_zoo.batch(workload, 0))
    assert [mask.shape for mask in masks.values()] == [(4, 16, 16, 32), (4, 8, 8, 64), (4, 512)]
    for mask, rate in zip(masks.values(), (0.25, 0.25, 0.5), strict=True):
        assert set(np.unique(mask)) == {np.float32(0), np.float32(1 / (1 - rate))}
        assert (mask == 0).mean() == pytest.approx(rate, abs=0.03)


def test_eval_loss_is_the_mean_cross_entropy_of_the_valid_images():
    workload = synthetic_zoo.workload("littlecnn", "pytorch", 32)
    random = np.random.default_rng(3)
    logits = random.normal(0, 40, (6, 10)).astype(np.float32)
    # Exponentials without a maximum per row would underflow.
    logits[0] -= 1000
    labels, valid = (
        np.array([1, 9, 0, 4, 4, 7], np.int32),
        np.array([True, True, False, True, True, True]),
    )
    batch = Batch({"label": labels, "valid": valid}, 5.0, 5.0, 5)
    results = workload.eval_batch_metrics(batch, {"logits": logits})
    wide = logits.astype(np.float64)
    shares = np.exp(wide - np.logaddexp.reduce(wide, axis=1, keepdims=True))
    expected = -np.log(shares[np.arange(6), labels])[valid]
    assert results["loss"] == pytest.approx(expected, rel=1e-9)
    workload.dataset_info = type(workload.dataset_info)(5, 5, {"classes": 10}, "")
    found = workload.compute_metrics(results)
    # The metric that has a target is the first.
    assert list(found) == ["top1", "eval_loss"]
    assert found["eval_loss"] == pytest.approx(expected.mean())
    assert found["top1"] == np.mean(np.argmax(logits, axis=1)[valid] == labels[valid])


def test_log_names_the_network():
    found = synthetic_zoo.workload("vgg16", "pytorch").log_keys()
    assert (found["model_name"], found["model_parameters"], found["input_image_size"]) == (
        "vgg16",
        138_357_544,
        224,
    )
    assert "model_difference" not in found
    keras = synthetic_zoo.workload("inception_v3", "tensorflow", implementation="stock").log_keys()
    assert "17,216 parameters fewer" in keras["model_difference"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mxnet", "googlenet", 224, 224, "fp32"), "mxnet has no googlenet"),
        (("tensorflow", "vgg16", 64, 224, "fp32"), "Set workload.image_size=224"),
        (("mxnet", "inception_v3", 107, 299, "fp32"), "Set workload.image_size=299"),
        (("mxnet", "vgg16", 224, 224, "fp16"), "Set precision=fp32"),
    ],
)
def test_unavailable_stock_networks_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=r"workload\.implementation=stock") as error:
        check(*arguments)
    assert message in str(error.value)
    check("pytorch", "resnet50", 64, 224, "bf16")
    check("pytorch", "inception_v3", 107, 299, "fp32")
    check("mxnet", "inception_v3", 299, 299, "fp32")


@pytest.mark.full  # The golden digest detects changes of the data in every run.
def test_a_linear_classifier_stays_far_below_the_demos_target():
    """Fit ridge regression to raw pixels and use the best of several penalties."""
    splits = [cifar_demo.images(split) for split in cifar_demo.SIZES]
    pixels = [
        value
        for images, labels in splits
        for value in (images.reshape(len(images), -1) / 255.0, labels)
    ]
    assert 0.2 < max(ridge_top1(*pixels)) < 0.45 < TARGETS_TOP1["cifar-demo"] - 0.25


def test_the_demos_images_have_the_golden_digest():
    drawn = np.stack(
        [
            cifar_demo.draw(split, number)
            for split in cifar_demo.SIZES
            for number in range(0, 300, 7)
        ]
    )
    assert (drawn.shape, str(drawn.dtype)) == ((86, 32, 32, 3), "uint8")
    assert hashlib.sha256(drawn.tobytes()).hexdigest() == DRAWN_SHA256
