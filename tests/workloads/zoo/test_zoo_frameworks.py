"""All frameworks compute the same outputs and losses for every network of the zoo.

The outputs also equal those of the networks that the frameworks contain.
"""

import numpy as np
import pytest

from tests.frameworks_probe import begins, below, probe, relative
from tests.workloads.zoo.synthetic_zoo import IN_SHORT, small
from workloads.common.networks import layer_lists
from workloads.zoo import networks
from workloads.zoo.stock import EQUAL
from workloads.zoo.trainers import TRAINERS

FULL = pytest.mark.full
FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet")
TRAINED, COMPARED = "probes.zoo_trainers.trained", "probes.zoo_trainers.compared"
LARGE = {
    **{
        "alexnet": 64,
        "overfeat": 71,
        "vgg11": 64,
        "vgg16": 64,
        "vgg19": 64,
        "resnet18": 64,
        "resnet34": 64,
    },
    **{"inception_bn": 64, "inception_v3": 75, "resnet50": 64, "resnet101": 64, "resnet152": 64},
}
"""Image size of large networks. Their kinds of layers are in IN_SHORT too (test_zoo_networks)."""
TRAINED_ALL = [*IN_SHORT.items(), *(pytest.param(*item, marks=FULL) for item in LARGE.items())]
OFF_FLOAT64 = {
    "inception_bn": 2e-5,
    "inception_v3": 5e-4,
    "resnet50": 4e-5,
    "resnet101": 3e-4,
    "resnet152": 2e-3,
}
"""Limit of a loss's relative distance from float64.

The default is 5e-6, so that two frameworks are within 1e-5 of each other. In deep networks the
first loss is already 1e-5 away in float32. The documentation of the zoo has the measurements.
"""
STOCK = [(framework, model) for framework, models in EQUAL.items() for model in models]
STOCK_IN_SHORT = (("pytorch", "resnet18"), ("pytorch", "inception_v3"), ("mxnet", "resnet18"))


def trained(framework, model, image_size):
    """Return the arrays that a trainer computes on small images."""
    return probe(framework, TRAINED, model, framework, image_size, chosen(model))


def chosen(model):
    """Return the hyperparameter set of a network's steps."""
    return "rmsprop_demo" if model == "littlecnn" else "sgd"


all_at_once = begins(
    lambda framework, model, image_size: (
        framework,
        TRAINED,
        model,
        framework,
        image_size,
        chosen(model),
    )
)


@pytest.mark.parametrize(("model", "image_size"), TRAINED_ALL)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_outputs_agree_and_every_parameter_of_the_list_exists(framework, model, image_size):
    found, wanted = trained(framework, model, image_size), trained("pytorch", model, image_size)
    assert relative(found["outputs"], wanted["outputs"]) <= 1e-5
    network, sizes = small(model, image_size), below(found, "sizes/")
    assert sum(
        int(sizes[name]) for name in layer_lists.shapes(network)
    ) == layer_lists.parameter_count(network)
    assert layer_lists.statistics(network).keys() <= sizes.keys()


def in_float64(model, image_size):
    """Return the losses of the same five steps in float64."""
    return probe("pytorch", "probes.zoo_float64.trained", model, image_size, chosen(model))[
        "losses"
    ]


@pytest.mark.parametrize(("model", "image_size"), TRAINED_ALL)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_losses_of_five_steps_equal_float64(framework, model, image_size):
    """Compare the losses with float64, and those of OverFeat with PyTorch.

    OverFeat's 143 million weights would take 5 GB in float64.
    """
    found = trained(framework, model, image_size)["losses"]
    reference = in_float64 if model != "overfeat" else lambda *of: trained("pytorch", *of)["losses"]
    wanted = reference(model, image_size)
    assert len(found) == len(set(np.round(wanted, 4))) == 5
    np.testing.assert_allclose(found, wanted, rtol=OFF_FLOAT64.get(model, 5e-6))


@pytest.mark.parametrize(
    "framework", [name for name, info in TRAINERS.items() if info.async_updates]
)
def test_a_single_asynchronous_worker_equals_a_synchronous_worker(framework):
    found = probe(framework, "probes.zoo_trainers.asynchronous", framework)
    np.testing.assert_array_equal(found["losses"], trained(framework, "littlecnn", 32)["losses"])
    # The warm-up of setup has left no update.
    assert found["versions"].tolist() == [0, 1, 2, 3, 4, 5]
    assert found["staleness"].tolist() == [[0, 5]]
    assert found["value"] == 1 / 3
    np.testing.assert_array_equal(found["gathered/large"], np.arange(300_000))
    assert found["gathered/none"].shape == (0,)


@pytest.mark.parametrize(
    ("framework", "model"),
    [pytest.param(*pair, marks=[FULL] * (pair not in STOCK_IN_SHORT)) for pair in STOCK],
)
def test_outputs_equal_those_of_the_frameworks_network(framework, model):
    """Compare at the network's default size, with the same weights and a single image."""
    found = probe(framework, COMPARED, model, framework)
    network = networks.build(model, networks.KINDS[model].image_size, 1000)
    assert found["parameters/suite"] == layer_lists.parameter_count(network)
    assert found["parameters/stock"] == found["parameters/suite"]
    assert found["logits/suite"].shape == (1, 1000)
    assert relative(found["logits/suite"], found["logits/stock"]) <= 1e-4


@pytest.mark.full  # Every run compares the suite's network with its list of layers.
def test_keras_inception_v3_differs_as_documented():
    """Check that outputs differ slightly.

    Keras's batch norms have no scale, and its average pools do not count padding.
    """
    found = probe("tensorflow", COMPARED, "inception_v3", "tensorflow")
    assert found["parameters/suite"] - found["parameters/stock"] == 17_216
    assert relative(found["logits/suite"], found["logits/stock"]) > 1e-4


@pytest.mark.parametrize(
    ("model", "image_size", "images"),
    [
        *(("littlecnn", 32, 64), ("googlenet", 64, 16), ("resnet18", 64, 32)),
        *(pytest.param(*case, marks=FULL) for case in (("vgg16", 96, 8), ("inception_v3", 107, 8))),
    ],
)
def test_the_estimate_of_activations_is_near_the_peak_of_a_step(model, image_size, images):
    """Check the estimate that rejects large batches, in PyTorch.

    The measured peaks were 0.91 to 2.1 times the estimate.
    """
    found = probe("pytorch", "probes.zoo_memory.peak_of_a_step", model, image_size, images)
    peak, estimate = int(found["peak"]), int(found["estimate"])
    network = networks.build(model, image_size, networks.KINDS[model].classes)
    assert estimate == images * 2 * 4 * layer_lists.activation_values(network)
    assert estimate / 2.5 <= peak <= 2.5 * estimate
