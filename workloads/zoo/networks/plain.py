"""Networks without branches: LittleCNN, AlexNet, OverFeat, VGG.

The layers of a network that torchvision also contains have torchvision's names.
"""

from __future__ import annotations

from collections.abc import Callable

from workloads.common.networks.layer_lists import Builder

MAX = "max"


def littlecnn(net: Builder, classes: int, padding: int = 1) -> None:
    """Append the scaling article's CIFAR-10 network: two blocks and 512 features.

    A block has two convolutions and a pool. The article specifies neither padding nor dropout. The
    padding follows the article's figure. The dropout follows the similar CIFAR example of Keras 2.1
    (examples/cifar10_cnn.py). In the Keras example, the second convolution of a block has `padding`
    0.
    """
    for block, width in enumerate((32, 64), start=1):
        net.conv(f"conv{block}_1", width, 3, padding=1).conv(
            f"conv{block}_2", width, 3, padding=padding
        )
        net.pool(MAX, 2, 2).dropout(0.25)
    net.linear("fc1", 512, relu=True).dropout(0.5).linear("fc2", classes)


def alexnet(net: Builder, classes: int) -> None:
    """Append the layers of AlexNet with a single tower, as in torchvision.

    The architecture is from Krizhevsky 2014, "One weird trick".
    """
    net.conv("features.0", 64, 11, stride=4, padding=2).pool(MAX, 3, 2)
    net.conv("features.3", 192, 5, padding=2).pool(MAX, 3, 2)
    net.conv("features.6", 384, 3, padding=1).conv("features.8", 256, 3, padding=1)
    net.conv("features.10", 256, 3, padding=1).pool(MAX, 3, 2)
    net.dropout(0.5).linear("classifier.1", 4096, relu=True)
    net.dropout(0.5).linear("classifier.4", 4096, relu=True).linear("classifier.6", classes)


def overfeat(net: Builder, classes: int) -> None:
    """Append the layers of OverFeat's fast model (Sermanet et al. 2014, table 1).

    The fast model is common in convnet-benchmarks.
    """
    net.conv("conv1", 96, 11, stride=4).pool(MAX, 2, 2)
    net.conv("conv2", 256, 5).pool(MAX, 2, 2)
    net.conv("conv3", 512, 3, padding=1).conv("conv4", 1024, 3, padding=1)
    net.conv("conv5", 1024, 3, padding=1).pool(MAX, 2, 2)
    net.dropout(0.5).linear("fc6", 3072, relu=True).dropout(0.5).linear(
        "fc7", 4096, relu=True
    ).linear("fc8", classes)


def vgg(*convolutions: int) -> Callable[[Builder, int], None]:
    """Return a function that appends a VGG network (Simonyan and Zisserman 2014, table 1).

    `convolutions` is the number of convolutions in each of the five stages.
    """

    def append(net: Builder, classes: int) -> None:
        number = 0
        for count, width in zip(convolutions, (64, 128, 256, 512, 512), strict=True):
            for _ in range(count):
                net.conv(f"features.{number}", width, 3, padding=1)
                number += (
                    # In torchvision, the layer numbers also count the pools and the ReLU after each
                    # convolution.
                    2
                )
            net.pool(MAX, 2, 2)
            number += 1
        net.linear("classifier.0", 4096, relu=True).dropout(0.5)
        net.linear("classifier.3", 4096, relu=True).dropout(0.5).linear("classifier.6", classes)

    return append
