"""Networks from the frameworks' libraries, for comparison with the suite's networks."""

from __future__ import annotations

EQUAL = {
    "pytorch": (
        "alexnet", "vgg11", "vgg16", "vgg19", "inception_v3",
        *(f"resnet{depth}" for depth in (18, 34, 50, 101, 152)),
    ),
    "tensorflow": ("vgg16", "vgg19"),
    "mxnet": ("alexnet", "vgg11", "vgg16", "vgg19", "inception_v3", "resnet18", "resnet34"),
}  # fmt: skip
_KERAS_INCEPTION = (
    "17,216 parameters fewer (batch norm without scale); averages leave out the padding; momentum"
    " 0.99"
)
DIFFERENCES = {("tensorflow", "inception_v3"): _KERAS_INCEPTION}
"""Description of the difference between the library's network and the suite's layer list, by
(framework, network).
"""
STOCK = {
    framework: (*models, *(model for name, model in DIFFERENCES if name == framework))
    for framework, models in EQUAL.items()
}
"""Names of the networks in each framework's library that runs can use.

The deeper ResNets of Keras and Gluon are excluded, because their biases differ from the suite's
networks and their stride is on the 1×1 convolution.
"""


def check(framework: str, model: str, image_size: int, native_size: int, precision: str) -> None:
    """Raise ValueError unless the framework's library provides the network for these settings."""
    if framework not in STOCK:
        raise ValueError(
            f"workload.implementation=stock: not supported with framework={framework}. "
            f"Set workload.implementation=suite, or set framework to {' or '.join(STOCK)}"
        )
    if model not in STOCK[framework]:
        allowed = ", ".join(STOCK[framework])
        raise ValueError(
            f"workload.implementation=stock: {framework} has no {model}. Set workload.model"
            f" (allowed: {allowed})"
        )
    if model.startswith(("alexnet", "vgg")) and image_size != native_size:
        raise ValueError(
            f"workload.implementation=stock: {model} has the suite's parameters only at"
            f" {native_size} pixels. Set workload.image_size={native_size}"
        )
    if (framework, model) == ("mxnet", "inception_v3") and image_size != native_size:
        raise ValueError(
            f"workload.implementation=stock: the last pool of Gluon's {model} requires images of"
            f" {native_size} pixels. Set workload.image_size={native_size}"
        )
    if framework != "pytorch" and precision not in ("fp32", "tf32"):
        raise ValueError(
            f"workload.implementation=stock: {framework} supports only fp32. Set precision=fp32"
        )
