import math

import numpy as np
import pytest

from workloads.resnet50 import network
from workloads.resnet50.settings import REFERENCE_MODEL


def test_fifty_layers_have_the_published_parameters():
    model = network.build(REFERENCE_MODEL)
    assert network.parameter_count(model) == 25_557_032
    assert (
        network.parameter_count(network.build({**REFERENCE_MODEL, "classes": 1001})) == 25_559_081
    )
    norms = [
        math.prod(shape)
        for name, shape in network.shapes(model).items()
        if network.is_norm(name, model)
    ]
    assert sum(norms) == 53_120
    # There are 49 convolutions, 4 projections, and the classifier.
    assert len(list(model.trunk_convolutions)) + 1 == 54


@pytest.mark.parametrize(
    ("name", "gain", "cut_off", "classifier"),
    [
        ("truncated_normal", 1.0, True, 0.01),
        ("truncated_normal_glorot", 1.0, True, math.sqrt(2 / (2048 + 1000))),
        ("truncated_normal_2", 2.0, True, 0.01),
        ("gaussian_2", 2.0, False, 0.01),
        ("gaussian_2_everywhere", 2.0, False, math.sqrt(2 / 2048)),
    ],
)
def test_initial_weights(name, gain, cut_off, classifier):
    """Check deviation and range of the weights.

    A normal distribution that is truncated at two deviations has a deviation of 0.8796, so that its
    largest values are 2 / 0.8796 deviations. Without truncation, the largest values are more than 4
    deviations.
    """
    model, uniform = (
        network.build({**REFERENCE_MODEL, "blocks": [1, 1, 1, 1]}),
        name == "truncated_normal_glorot",
    )
    found = dict(network.initial_weights(model, name, 1))
    assert {name: value.shape for name, value in found.items()} == network.shapes(model)
    for name in ("conv1", "layer3.0.conv2", "layer4.0.downsample.0"):
        weight = found[f"{name}.weight"]
        assert weight.std() * math.sqrt(math.prod(weight.shape[1:])) == pytest.approx(
            math.sqrt(gain), rel=0.02
        )
        reach = np.abs(weight).max() / weight.std()
        assert (reach < 2.4) if cut_off else (reach > 3.3)
    assert (found["layer1.0.bn3.weight"] == 1).all()  # No residual branch starts at zero.
    assert (found["bn1.bias"] == 0).all()
    assert (found["fc.bias"] == 0).all()
    reach = np.abs(found["fc.weight"]).max() / classifier
    assert reach == pytest.approx(math.sqrt(3), rel=1e-3) if uniform else reach > 4
    assert found["fc.weight"].std() == pytest.approx(classifier, rel=0.01)
    assert all(value.dtype == np.float32 for value in found.values())
