"""Run inside a framework's environment: what the networks of the zoo hold there at full size; no values are allocated."""

import math

from tests.workloads.zoo.synthetic_zoo import COUNTS
from workloads.common.networks import layer_lists
from workloads.zoo import networks


def pytorch(network, size):
    """Shape of every parameter by name, and of the logits of an image."""
    import torch

    from workloads.frameworks.pytorch.layer_lists import LayerNetwork

    with torch.device("meta"):
        model = LayerNetwork(network)
        logits = model(torch.empty((1, size, size, 3), dtype=torch.uint8))
    return {name: tuple(value.shape) for name, value in model.named_parameters()}, tuple(logits.shape)


def tensorflow(network, size):
    """The same, of a graph that is never run."""
    import tensorflow as tf

    from workloads.frameworks.tensorflow.layer_lists import LayerNetwork

    with tf.Graph().as_default():
        model = LayerNetwork(network, tf.float32, as_products=True)
        logits = model(tf.zeros((1, size, size, 3), tf.uint8), training=False)
        return {name: tuple(value.shape) for name, value in model.parameters.items()}, tuple(logits.shape)


def mxnet(network, size):
    """The same, as MXNet infers it from the image's shape alone."""
    from workloads.frameworks.mxnet.layer_lists import LayerNetwork

    model = LayerNetwork(network, half=False, on_cpu=True)
    graph = model.graph(training=False)
    arguments, (logits,), _ = graph.infer_shape(image=(1, size, size, 3))
    own = {**model.constants(), "image": None}
    shapes = dict(zip(graph.list_arguments(), arguments, strict=True))
    return {name: shape for name, shape in shapes.items() if name not in own}, logits


def counts(framework):
    """Row of `COUNTS`, its parts joined by spaces, to trained values, tensors, and values of the logits of an image."""
    found = {}
    for model, size, padding in COUNTS:
        network = networks.build(model, size, networks.KINDS[model].classes, padding)
        shapes, logits = globals()[framework](network, size)
        assert shapes == layer_lists.shapes(network), set(shapes.items()) ^ set(layer_lists.shapes(network).items())
        values = sum(math.prod(shape) for shape in shapes.values())
        found[f"{model} {size} {padding}"] = (values, len(shapes), math.prod(logits))
    return found
