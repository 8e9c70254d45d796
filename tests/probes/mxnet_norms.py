"""Runs in MXNet's environment: a layer norm and its gradients."""

import mxnet as mx
import numpy as np

from workloads.frameworks.mxnet.norms import layer_norm

SIZE = 48


def arrays():
    """Return x, weight, bias, and the gradient of the result.

    Some rows of x are far from 0, and a row is nearly constant.
    """
    generator = np.random.default_rng(3)
    x = generator.normal(size=(7, SIZE)) + np.array([0, 0, 3, -20, 100, 1, 0])[:, None]
    x[6] = 1e-3 * x[6]
    drawn = [
        1 + generator.normal(size=SIZE),
        generator.normal(size=SIZE),
        generator.normal(size=x.shape),
    ]
    return [np.float32(array) for array in (x, *drawn)]


def computed():
    """Return `value` and its gradients by `x`, `weight` and `bias`.

    They are computed operator by operator, and as a graph under `graph/…`. The inputs are under
    `given/…`.
    """
    *inputs, gradient = (mx.nd.array(array) for array in arrays())
    for array in inputs:
        array.attach_grad()
    names = ("x", "weight", "bias")
    symbol = layer_norm(mx.sym, *(mx.sym.var(name) for name in names), SIZE, 1e-6)
    graph, order = mx.nd.CachedOp(symbol), symbol.list_inputs()
    by_name = dict(zip(names, inputs, strict=True))
    found = {
        f"given/{name}": array for name, array in zip((*names, "gradient"), arrays(), strict=True)
    }
    for folder, run in (
        ("", lambda: layer_norm(mx.nd, *inputs, SIZE, 1e-6)),
        ("graph/", lambda: graph(*(by_name[name] for name in order))),
    ):
        with mx.autograd.record():
            value = run()
        value.backward(gradient)
        found[f"{folder}value"] = value.asnumpy()
        found |= {f"{folder}{name}": array.grad.asnumpy() for name, array in by_name.items()}
    return found
