"""Networks of the zoo by name, built from layer lists for an image size."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from workloads.common.networks.layer_lists import Builder, Layer, Network, Small
from workloads.zoo.networks import inception, inception_v3, plain, residual

LARGEST_SMALLEST_SIDE = 128
"""Image side in pixels at which every network of the zoo can be built."""

PADDINGS = ("same", "valid")


@dataclass(frozen=True)
class Kind:
    """Description of a network in the zoo."""

    image_size: int
    """Image side in pixels in the publication of the network."""
    append: Callable[[Builder, int], object]
    """Function that appends all layers of the network for the given number of classes."""
    classes: int = 1000
    """Number of classes in the publication of the network."""
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    deviation: tuple[float, float, float] = (0.229, 0.224, 0.225)
    """Standard deviations of the color channels for normalization. The default contains
    torchvision's values for ImageNet. LittleCNN uses pixel values of 0 … 1 without
    normalization, as in the scaling article.
    """
    epsilon: float = 1e-5
    gain: str = "he"


KINDS: Mapping[str, Kind] = {
    "littlecnn": Kind(32, plain.littlecnn, 10, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), gain="glorot"),
    "alexnet": Kind(224, plain.alexnet),
    "overfeat": Kind(231, plain.overfeat),
    "vgg11": Kind(224, plain.vgg(1, 1, 2, 2, 2)),
    "vgg16": Kind(224, plain.vgg(2, 2, 3, 3, 3)),
    "vgg19": Kind(224, plain.vgg(2, 2, 4, 4, 4)),
    "googlenet": Kind(224, inception.googlenet),
    "inception_bn": Kind(224, inception.inception_bn),
    "inception_v3": Kind(299, inception_v3.inception_v3, epsilon=1e-3),
    **{f"resnet{depth}": Kind(224, residual.resnet(depth)) for depth in (18, 34, 50, 101, 152)},
}
"""Networks of the zoo by command-line name.

The epsilon of Inception-v3's batch norms is torchvision's value. In MXNet's example, the epsilon of
Inception-BN differs from 1e-5 by 1e-10.
"""
MODELS = tuple(KINDS)
MOMENTUM = 0.1
"""Weight of the statistic of the current batch in the running statistic, as in torchvision and
MXNet's examples.
"""


def build(model: str, image_size: int, classes: int, padding: str = "same") -> Network:
    """Build a network for images of `image_size` × `image_size` pixels.

    `padding=valid` removes the padding of the second convolution in each block of LittleCNN, as in
    Keras' example. The function raises ValueError if `padding` does not apply to the network or if
    the images are too small. For images that are too small, the error message contains the minimum
    image size.
    """
    kind = KINDS[model]
    if padding != "same" and model != "littlecnn":
        raise ValueError(
            f"workload.padding={padding}: only littlecnn supports it. Set workload.padding=same"
        )
    append = partial(plain.littlecnn, padding=0) if padding == "valid" else kind.append
    try:
        layers = _layers(append, image_size, classes)
    except Small:
        raise ValueError(
            f"workload.image_size={image_size}: too small for {model}. Set"
            f" workload.image_size={smallest(append)} or more"
        ) from None
    return Network(model, layers, kind.mean, kind.deviation, kind.epsilon, MOMENTUM, kind.gain)


def smallest(append: Callable[[Builder, int], object]) -> int:
    """Return the minimum image side in pixels for which a network can be built."""
    size = LARGEST_SMALLEST_SIDE
    with contextlib.suppress(Small):
        while _layers(append, size - 1, 2):
            size -= 1
    return size


def _layers(
    append: Callable[[Builder, int], object], image_size: int, classes: int
) -> tuple[Layer, ...]:
    builder = Builder(3, image_size, image_size)
    append(builder, classes)
    return tuple(builder.layers)
