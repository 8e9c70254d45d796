"""Run inside MXNet's environment: its optimizers on two contexts against the NumPy functions in float64."""

import mxnet as mx
import numpy as np

from workloads.api import ParameterRule
from workloads.common import optimizers
from workloads.frameworks.mxnet.optimizers import Lars, Sgd, by_rule
from workloads.frameworks.mxnet.trainer import GradientSum, views

RULES = {
    "a.weight": ParameterRule(1e-2, True),
    "a.bias": ParameterRule(0.0, False),
    "b.weight": ParameterRule(1e-2, True),
    "b.bias": ParameterRule(0.0, False),
    "zero.weight": ParameterRule(1e-2, True),
    "c.bias": ParameterRule(1e-2, False),
}
SHAPES = {
    "a.weight": (30, 20),
    "a.bias": (7,),
    "b.weight": (5, 4, 3, 3),
    "b.bias": (9,),
    "zero.weight": (6,),
    "c.bias": (3,),
}
RATES = (0.0, 0.1, 0.4, 0.0, 0.0, 0.02, 1.0)
MOMENTUM, COEFFICIENT, LOSS_SCALE = 0.9, 0.001, 128.0


def gradients(step, context):
    """The same in every run; zero.weight has none."""
    generator = np.random.default_rng([step, context])
    return {
        name: generator.normal(0, name != "zero.weight", shape).astype(np.float32) for name, shape in SHAPES.items()
    }


def expected(kind, start):
    """Weights and velocities by the NumPy functions."""
    weights = {name: np.float64(value) for name, value in start.items()}
    velocities = {name: np.zeros(shape) for name, shape in SHAPES.items()}
    for step, rate in enumerate(RATES):
        parts = [gradients(step, context) for context in range(2)]
        for name, rule in RULES.items():
            arrays = weights[name], velocities[name], np.float64(parts[0][name]) + parts[1][name]
            if kind == "sgd":
                weights[name], velocities[name] = optimizers.sgd(*arrays, rate, MOMENTUM, rule.decay)
            else:
                weights[name], velocities[name] = optimizers.lars(*arrays, rate, MOMENTUM, COEFFICIENT, rule)
    return weights, velocities


def relative(found, wanted):
    return max(float(np.abs(found[name] - value).max() / (np.abs(value).max() or 1)) for name, value in wanted.items())


def case(kind):
    """For `sgd` or `lars`: the largest relative differences of `weights` and `velocities` after steps of changing rates (some
    0), whether the contexts' weights are equal, whether the state comes back, and whether a reset optimizer repeats the steps
    bit for bit.
    """
    shapes = by_rule(SHAPES, RULES.__getitem__)
    contexts = [mx.cpu(0), mx.cpu(1)]
    size = sum(int(np.prod(shape)) for shape in shapes.values())
    flats, vectors = ([mx.nd.zeros((size,), ctx=context) for context in contexts] for _ in range(2))
    start = {name: np.random.default_rng(5).normal(0, 1, shape).astype(np.float32) for name, shape in SHAPES.items()}
    rules = RULES.__getitem__
    if kind == "sgd":
        optimizer = Sgd(shapes, rules, flats, vectors, MOMENTUM, LOSS_SCALE)
    else:
        optimizer = Lars(shapes, rules, flats, vectors, MOMENTUM, COEFFICIENT, LOSS_SCALE)
    total = GradientSum(vectors)

    def run():
        for flat in flats:
            for name, view in views(flat, shapes).items():
                view[:] = start[name]
        for step, rate in enumerate(RATES):
            for number, vector in enumerate(vectors):
                for name, view in views(vector, shapes).items():
                    view[:] = gradients(step, number)[name] * np.float32(LOSS_SCALE)
            total.reduce()
            optimizer.step(rate)
        return {name: view.asnumpy() for name, view in views(flats[0], shapes).items()}, optimizer.state()

    weights, state = run()
    equal = bool(np.array_equal(flats[0].asnumpy(), flats[1].asnumpy()))
    optimizer.load_state(state)
    back = all(np.array_equal(value, state[name]) for name, value in optimizer.state().items())
    optimizer.reset()
    repeated, _ = run()
    wanted_weights, wanted_velocities = expected(kind, start)
    return {
        "weights": relative(weights, wanted_weights),
        "velocities": relative({name: state[f"velocity.{name}"] for name in SHAPES}, wanted_velocities),
        "contexts_equal": equal,
        "state_comes_back": back,
        "repeats": all(np.array_equal(repeated[name], weights[name]) for name in SHAPES),
    }
