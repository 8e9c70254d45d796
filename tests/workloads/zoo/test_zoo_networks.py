"""Counts of the zoo's networks are those of their publications and of torchvision, Keras and MXNet (exactly)."""

import numpy as np
import pytest

from workloads.common.networks import layer_lists
from workloads.zoo import networks

COUNTS = {
    ("littlecnn", 32, "same"): (2_168_362, 12, 0.027, 0.10),
    ("littlecnn", 32, "valid"): (1_250_858, 12, 0.021, 0.09),
    ("littlecnn", 224, "same"): (102_831_658, 12, 1.30, 4.82),
    ("littlecnn", 224, "valid"): (95_622_698, 12, 1.26, 4.73),
    ("alexnet", 224, "same"): (61_100_840, 16, 0.714, 0.49),
    ("overfeat", 231, "same"): (145_920_872, 16, 2.80, 0.83),
    ("vgg11", 224, "same"): (132_863_336, 22, 7.61, 7.44),
    ("vgg16", 224, "same"): (138_357_544, 32, 15.47, 13.56),
    ("vgg19", 224, "same"): (143_667_240, 38, 19.63, 14.86),
    ("googlenet", 224, "same"): (6_998_552, 116, 1.58, 3.23),
    ("inception_bn", 224, "same"): (11_295_240, 278, 1.99, 3.64),
    ("inception_v3", 299, "same"): (23_834_568, 284, 5.71, 8.97),
    ("resnet18", 224, "same"): (11_689_512, 62, 1.81, 2.48),
    ("resnet34", 224, "same"): (21_797_672, 110, 3.66, 3.74),
    ("resnet50", 224, "same"): (25_557_032, 161, 4.09, 11.11),
    ("resnet101", 224, "same"): (44_549_160, 314, 7.80, 16.23),
    ("resnet152", 224, "same"): (60_192_808, 467, 11.51, 22.56),
}
"""Model, image size, padding to trained values, tensors, 10^9 multiply-adds, 10^6 outputs of convolutions and linear layers."""


@pytest.mark.parametrize("row", COUNTS)
def test_counts(row):
    model, size, padding = row
    network = networks.build(model, size, networks.KINDS[model].classes, padding)
    parameters, tensors, gigas, megas = COUNTS[row]
    assert layer_lists.parameter_count(network) == parameters
    assert len(layer_lists.shapes(network)) == tensors
    digits = 3 if gigas < 1 else 2
    assert round(layer_lists.multiply_adds(network) / 1e9, digits) == gigas
    assert round(layer_lists.activation_values(network) / 1e6, 2) == megas
    assert network.classes == networks.KINDS[model].classes


def test_every_network_has_a_row_at_its_own_size():
    assert {(model, kind.image_size) for model, kind in networks.KINDS.items()} <= {row[:2] for row in COUNTS}


@pytest.mark.parametrize("model", networks.MODELS)
def test_the_smallest_image_is_named_and_works(model):
    append = networks.KINDS[model].append
    least = networks.smallest(append)
    networks.build(model, least, 10)
    with pytest.raises(ValueError, match=rf"too small for {model}; type workload.image_size={least} or more"):
        networks.build(model, least - 1, 10)


def test_padding_is_littlecnns_alone():
    with pytest.raises(ValueError, match=r"of littlecnn alone; type workload\.padding=same"):
        networks.build("vgg16", 224, 1000, "valid")


def test_googlenets_maps_are_the_papers():
    """112, 56, 28, 14, 7 (Szegedy et al. 2014, table 1): pools whose last window goes beyond the border count."""
    network = networks.build("googlenet", 224, 1000)
    sizes = dict.fromkeys(size for _, size in layer_lists.convolutions(network.layers))
    assert list(sizes) == [(side, side) for side in (112, 56, 28, 14, 7)]


def test_start_weights():
    """Uniform with the variance of He or Glorot, biases 0, scales 1; by name, so equal wherever they are drawn."""
    network = networks.build("littlecnn", 32, 10)
    weights = dict(layer_lists.initial_weights(network, 3))
    assert {name: value.shape for name, value in weights.items()} == layer_lists.shapes(network)
    first, limit = weights["fc1.weight"], np.sqrt(6 / (4096 + 512))
    assert first.dtype == np.float32
    assert 0.999 * limit < np.abs(first).max() <= limit
    assert first.std() == pytest.approx(limit / np.sqrt(3), rel=0.01)
    normed = dict(layer_lists.initial_weights(networks.build("inception_bn", 64, 10), 3))
    assert (normed["conv1.bn.weight"] == 1).all()
    assert not normed["conv1.bn.bias"].any()
    assert not normed["conv1.conv.bias"].any()
    assert normed["conv2.conv.weight"].std() == pytest.approx(np.sqrt(2 / (64 * 9)), rel=0.01)


def test_dropout_lies_in_no_branch():
    """What `Network.dropouts` takes for granted."""

    def inside(layers):
        for layer in layers:
            if isinstance(layer, layer_lists.Concatenation):
                for branch in layer.branches:
                    yield from branch
                    yield from inside(branch)

    for model, kind in networks.KINDS.items():
        network = networks.build(model, kind.image_size, 10)
        assert not any(isinstance(layer, layer_lists.Dropout) for layer in inside(network.layers))
        assert len({layer.label for layer in network.dropouts}) == len(network.dropouts)
