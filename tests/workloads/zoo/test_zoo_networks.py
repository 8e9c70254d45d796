"""Counts of the zoo's networks equal those of publications, torchvision, Keras, and MXNet."""

import numpy as np
import pytest

from tests.workloads.zoo import synthetic_zoo
from tests.workloads.zoo.synthetic_zoo import COUNTS
from workloads.common.networks import layer_lists
from workloads.zoo import networks


@pytest.mark.parametrize("row", COUNTS)
def test_counts_of_parameters_tensors_multiply_adds_and_activations(row):
    model, size, padding = row
    network = networks.build(model, size, networks.KINDS[model].classes, padding)
    parameters, tensors, gigas, megas = COUNTS[row]
    assert layer_lists.parameter_count(network) == parameters
    assert len(layer_lists.shapes(network)) == tensors
    digits = 3 if gigas < 1 else 2
    assert round(layer_lists.multiply_adds(network) / 1e9, digits) == gigas
    assert round(layer_lists.activation_values(network) / 1e6, 2) == megas
    assert network.classes == networks.KINDS[model].classes


def test_every_network_has_a_row_at_its_default_size():
    assert {(model, kind.image_size) for model, kind in networks.KINDS.items()} <= {
        row[:2] for row in COUNTS
    }


def kinds(layers):
    """Yield the properties of layers that the frameworks' interpreters distinguish.

    Names and widths of layers are not included.
    """
    for layer in layers:
        match layer:
            case layer_lists.Convolution():
                yield (
                    "conv",
                    layer.kernel,
                    layer.stride,
                    layer.padding,
                    layer.norm is not None,
                    layer.has_bias,
                )
            case layer_lists.Pool():
                yield (
                    "pool",
                    layer.kind,
                    layer.kernel,
                    layer.stride,
                    layer.padding,
                    layer.ceil,
                    any(layer.extra),
                )
            case layer_lists.Residual(block):
                yield (
                    "residual",
                    *((layer.kernel, layer.stride) for layer in block.convolutions),
                    block.shortcut is None,
                )
            case layer_lists.Concatenation(branches):
                yield (
                    "fork",
                    any(
                        isinstance(layer, layer_lists.Concatenation)
                        for branch in branches
                        for layer in branch
                    ),
                )
                for branch in branches:
                    yield from kinds(branch)
            case layer_lists.Dropout():
                yield "dropout", len(layer.map)
            case layer_lists.Linear():
                yield "linear", layer.relu
            case _:
                yield (type(layer).__name__,)


@pytest.mark.parametrize("row", COUNTS)
def test_every_kind_of_layer_is_trained_in_every_framework(row):
    """Check that the small networks of test_zoo_frameworks contain every kind of layer.

    `make test-full` trains the large networks too.
    """
    small = [synthetic_zoo.small(*item) for item in synthetic_zoo.IN_SHORT.items()]
    trained = {kind for network in small for kind in kinds(network.layers)}
    model, size, padding = row
    assert {*kinds(networks.build(model, size, 10, padding).layers)} - trained == set()


@pytest.mark.parametrize("model", networks.MODELS)
def test_the_smallest_image_is_named_and_works(model):
    append = networks.KINDS[model].append
    least = networks.smallest(append)
    networks.build(model, least, 10)
    with pytest.raises(
        ValueError, match=rf"too small for {model}. Set workload.image_size={least} or more"
    ):
        networks.build(model, least - 1, 10)


def test_googlenets_maps_have_the_sizes_of_the_paper():
    """Check 112, 56, 28, 14, 7 (Szegedy et al. 2014, table 1).

    The last window of a pool may extend beyond the border.
    """
    network = networks.build("googlenet", 224, 1000)
    sizes = dict.fromkeys(size for _, size in layer_lists.convolutions(network.layers))
    assert list(sizes) == [(side, side) for side in (112, 56, 28, 14, 7)]


def test_initial_weights():
    """Check uniform weights with the variance of He or Glorot, biases of 0, and scales of 1."""
    network = networks.build("littlecnn", 32, 10)
    weights = dict(layer_lists.initial_weights(network, 3))
    assert {name: value.shape for name, value in weights.items()} == layer_lists.shapes(network)
    first, limit = weights["fc1.weight"], np.sqrt(6 / (4096 + 512))
    assert first.dtype == np.float32
    assert 0.999 * limit < np.abs(first).max() <= limit
    assert first.std() == pytest.approx(limit / np.sqrt(3), rel=0.01)
    normed = dict(layer_lists.initial_weights(networks.build("inception_bn", 64, 10), 3))
    assert (normed["conv1.bn.weight"] == 1).all()
    assert not np.concatenate([normed["conv1.bn.bias"], normed["conv1.conv.bias"]]).any()
    assert normed["conv2.conv.weight"].std() == pytest.approx(np.sqrt(2 / (64 * 9)), rel=0.01)


def test_no_branch_contains_dropout():
    """Check the assumption of `Network.dropouts`."""
    for model, kind in networks.KINDS.items():
        network = networks.build(model, kind.image_size, 10)
        everywhere = sum(kind == "dropout" for kind, *_ in kinds(network.layers))
        assert (
            len({layer.label for layer in network.dropouts}) == len(network.dropouts) == everywhere
        )
