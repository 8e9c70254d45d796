"""Names, shapes, and initial values of NeuMF's parameters.

The initial values are bit-identical in every framework.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

from workloads.api import Array, Json
from workloads.common.networks.initial import draw


def layer_sizes(model: Mapping[str, Json]) -> list[tuple[int, int]]:
    """Return (inputs, outputs) of each linear layer of the MLP.

    For the sizes [256, 256, 128, 64], the MLP has three layers.
    """
    sizes = [int(size) for size in model["mlp_layer_sizes"]]
    return list(itertools.pairwise(sizes))


def shapes(users: int, items: int, model: Mapping[str, Json]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each parameter by name, in the order of the flat vector.

    Weights of linear layers are (outputs, inputs).
    """
    factors, sizes = int(model["mf_dim"]), layer_sizes(model)
    embedding = sizes[0][0] // 2
    layout: dict[str, tuple[int, ...]] = {
        "gmf_user": (users, factors),
        "gmf_item": (items, factors),
        "mlp_user": (users, embedding),
        "mlp_item": (items, embedding),
    }
    for number, (inputs, outputs) in enumerate(sizes):
        layout[f"mlp.{number}.weight"] = (outputs, inputs)
        layout[f"mlp.{number}.bias"] = (outputs,)
    layout["output.weight"] = (1, factors + sizes[-1][1])
    layout["output.bias"] = (1,)
    return layout


def parameter_count(users: int, items: int, model: Mapping[str, Json]) -> int:
    """Return the number of elements of all parameters.

    With the reference model, ML-20M has 31,832,577 parameters.
    """
    return sum(math.prod(shape) for shape in shapes(users, items, model).values())


def initial_weights(
    users: int, items: int, model: Mapping[str, Json], seed: int
) -> Iterator[tuple[str, Array]]:
    """Yield (name, float32 array) for every parameter.

    The distributions are the same as in the reference (neumf.py). Embeddings are normal(0, 0.01),
    MLP weights are Glorot uniform, and the output weight is LeCun uniform with limit √(3 / inputs).
    Biases are uniform in ±1 / √inputs, which is PyTorch's default.
    """
    all_shapes = shapes(users, items, model)
    for name, shape in all_shapes.items():
        layer, _, part = name.rpartition(".")
        if not layer:
            scale, kind = 0.01, "normal"
        else:
            outputs, inputs = all_shapes[f"{layer}.weight"]
            kind = "uniform"
            if part == "bias":
                scale = 1 / math.sqrt(inputs)
            else:
                scale = (
                    math.sqrt(3 / inputs)
                    if layer == "output"
                    else math.sqrt(6 / (inputs + outputs))
                )
        yield name, draw(seed, name, shape, kind, scale)
