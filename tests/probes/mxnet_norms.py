"""Run inside MXNet's environment: a layer norm and its gradients."""

import mxnet as mx
import numpy as np

from workloads.frameworks.mxnet.norms import layer_norm

SIZE = 48


def arrays():
    """x, weight, bias and what the result's gradient is; rows far from 0, one nearly constant."""
    generator = np.random.default_rng(3)
    x = generator.normal(size=(7, SIZE)) + np.array([0, 0, 3, -20, 100, 1, 0])[:, None]
    x[6] = 1e-3 * x[6]
    drawn = [
        1 + generator.normal(size=SIZE),
        generator.normal(size=SIZE),
        generator.normal(size=x.shape),
    ]
    return [np.float32(one) for one in (x, *drawn)]


def computed():
    """`value`, and gradients by `x`, `weight` and `bias`, operator by operator, and as a graph
    under `graph/…`; `given/…`.
    """
    *inputs, gradient = (mx.nd.array(one) for one in arrays())
    for one in inputs:
        one.attach_grad()
    names = ("x", "weight", "bias")
    symbol = layer_norm(mx.sym, *(mx.sym.var(name) for name in names), SIZE, 1e-6)
    graph, order = mx.nd.CachedOp(symbol), symbol.list_inputs()
    by_name = dict(zip(names, inputs, strict=True))
    found = {f"given/{name}": one for name, one in zip((*names, "gradient"), arrays(), strict=True)}
    for folder, run in (
        ("", lambda: layer_norm(mx.nd, *inputs, SIZE, 1e-6)),
        ("graph/", lambda: graph(*(by_name[name] for name in order))),
    ):
        with mx.autograd.record():
            value = run()
        value.backward(gradient)
        found[f"{folder}value"] = value.asnumpy()
        found |= {f"{folder}{name}": one.grad.asnumpy() for name, one in by_name.items()}
    return found
