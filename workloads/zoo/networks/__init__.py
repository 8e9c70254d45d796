"""The networks by name, built for a size of image; their layers are `workloads.common.networks.layer_lists`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from workloads.common.networks.layer_lists import Builder, Layer, Network, Small
from workloads.zoo.networks import inception, inception_v3, plain, residual

LARGEST_SMALLEST_SIDE = 128
"""Every network can be built for images of this size."""

PADDINGS = ("same", "valid")


@dataclass(frozen=True)
class Kind:
    """A network of the zoo."""

    image_size: int
    """Its publication's, in pixels."""
    append: Callable[[Builder, int], object]
    """Append all layers for so many classes."""
    classes: int = 1000
    """Of the data that it was published for."""
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    deviation: tuple[float, float, float] = (0.229, 0.224, 0.225)
    """torchvision's, of ImageNet's images. LittleCNN takes pixels of 0 … 1, as the scaling article has it."""
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
"""Name on the command line to the network. Inception-v3's epsilon is torchvision's; Inception-BN's, of MXNet's example, differs
from 1e-5 by 1e-10."""
MODELS = tuple(KINDS)
MOMENTUM = 0.1
"""Share of the new statistic in the running one: torchvision's and MXNet's examples'."""


def build(model: str, image_size: int, classes: int, padding: str = "same") -> Network:
    """The network for images of `image_size` × `image_size` pixels.

    `padding`: `valid` leaves LittleCNN's second convolution of each block without padding, as in Keras' example.
    Raises ValueError that names the smallest size where images are too small, or where `padding` means nothing.
    """
    kind = KINDS[model]
    if padding != "same" and model != "littlecnn":
        raise ValueError(f"workload.padding={padding}: of littlecnn alone; type workload.padding=same")
    append = partial(plain.littlecnn, padding=0) if padding == "valid" else kind.append
    try:
        layers = _layers(append, image_size, classes)
    except Small:
        raise ValueError(
            f"workload.image_size={image_size}: too small for {model}; type workload.image_size={smallest(append)} or more"
        ) from None
    return Network(model, layers, kind.mean, kind.deviation, kind.epsilon, MOMENTUM, kind.gain)


def smallest(append: Callable[[Builder, int], object]) -> int:
    """Pixels of a side from which on a network can be built."""
    size = LARGEST_SMALLEST_SIDE
    with contextlib.suppress(Small):
        while _layers(append, size - 1, 2):
            size -= 1
    return size


def _layers(append: Callable[[Builder, int], object], image_size: int, classes: int) -> tuple[Layer, ...]:
    builder = Builder(3, image_size, image_size)
    append(builder, classes)
    return tuple(builder.layers)
