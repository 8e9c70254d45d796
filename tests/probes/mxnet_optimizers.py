"""Run inside MXNet's environment: its optimizers on one and two contexts against NumPy in float64."""

import contextlib
import json

import mxnet as mx
import numpy as np

from tests.workloads.frameworks.mxnet.expected import Expected, difference
from workloads.api import LossScaling, OptimizerSettings, ParameterRule
from workloads.frameworks.mxnet.flat import FlatLayout, total, views
from workloads.frameworks.mxnet.optimizers import build_optimizer

SHAPES = {
    "a.weight": (30, 20),
    "a.bias": (7,),
    "b.weight": (5, 4, 3, 3),
    "b.bias": (9,),
    "zero.weight": (6,),
    "c.bias": (3,),
}
RATES = (0.0, 0.1, 0.4, 0.0, 0.02, 0.02, 1.0, 0.3, 0.0, 0.05)
OVERFLOW = 4
"""The step of the dynamic case in which one context has an infinite gradient."""
OPTIMIZERS = {
    "sgd": {"momentum": 0.9},
    "sgdinside": {"name": "sgd", "momentum": 0.9, "momentum_rate": "inside"},
    "lars": {"momentum": 0.9, "momentum_rate": "inside"},
    "larsoutside": {"name": "lars", "momentum": 0.9},
    "adam": {},
    "rmsprop": {},
}
RATE_FACTORS = {"adam": 0.1, "rmsprop": 0.1}
STATIC, DYNAMIC = LossScaling("static", 128.0), LossScaling("dynamic", 1024.0, growth_interval=3, maximum=2048.0)
CASES = {
    "plain": {},
    "clip": {"clip_norm": 3.0},
    "rules": {},
    "frozen": {},
    "static": {"loss_scaling": STATIC},
    "dynamic": {"loss_scaling": DYNAMIC},
    "all": {"loss_scaling": DYNAMIC, "clip_norm": 3.0},
}
WAITS = ("asnumpy", "asscalar", "wait_to_read", "_sync_copyfrom")


def rule(case, kind, name):
    """With decays, and trust ratios of matrices; with multiples and frozen parameters where the case has them."""
    matrix = name.endswith("weight")
    multiples = {"a.bias": 2.0, "c.bias": 2.0, "b.weight": 0.5} if case in ("rules", "all") else {}
    frozen = case in ("frozen", "all") and name in ("b.bias", "b.weight")
    if case == "plain" and kind in ("adam", "rmsprop"):
        return ParameterRule()
    return ParameterRule(
        1e-2 * (matrix or name == "c.bias"), kind.startswith("lars") and matrix, multiples.get(name, 1.0), frozen
    )


def gradients(step, context):
    """The same in every run; zero.weight has none."""
    generator = np.random.default_rng([step, context])
    return {
        name: generator.normal(0, name != "zero.weight", shape).astype(np.float32) for name, shape in SHAPES.items()
    }


class Run:
    """An optimizer of a case on some contexts."""

    def __init__(self, kind, case, count):
        self.settings = OptimizerSettings(**{"name": kind, **OPTIMIZERS[kind]}, **CASES[case])
        self.rules = {name: rule(case, kind, name) for name in SHAPES}
        self.layout = FlatLayout.of(SHAPES, self.rules.__getitem__)
        self.contexts = [mx.cpu(number) for number in range(count)]
        self.rates = [RATE_FACTORS.get(kind, 1.0) * rate for rate in RATES]
        self.flats, self.vectors = (
            [mx.nd.zeros((total(self.layout.shapes),), ctx=context) for context in self.contexts] for _ in range(2)
        )
        self.start = {
            name: np.random.default_rng(5).normal(0, 1, shape).astype(np.float32) for name, shape in SHAPES.items()
        }
        self.optimizer = build_optimizer(self.settings, self.layout, self.flats, self.vectors, len(self.contexts))

    def begin(self):
        """First weights."""
        for flat in self.flats:
            for name, view in views(flat, self.layout.shapes).items():
                view[:] = self.start[name]

    def parts(self, step):
        """Each context's gradients."""
        found = [gradients(step, number) for number in range(len(self.contexts))]
        if self.optimizer.loss_scale.dynamic and step == OVERFLOW:
            found[-1]["a.weight"][3, 4] = np.inf
        return found

    def step(self, step):
        """A step as a trainer makes it; how often it waited."""
        for number, (vector, part) in enumerate(zip(self.vectors, self.parts(step), strict=True)):
            for name, view in views(vector, self.layout.shapes).items():
                view[:] = part[name]
            mx.nd.broadcast_mul(vector, self.optimizer.loss_scale.seed(number, 1.0), out=vector)
        with counted(mx.nd.NDArray, *WAITS) as waits:
            self.optimizer.reduce()
            self.optimizer.unscale()
            self.optimizer.clip()
            self.optimizer.update(self.rates[step])
        return len(waits)

    def weights(self, number=0):
        """By name."""
        return {name: view.asnumpy() for name, view in views(self.flats[number], self.layout.shapes).items()}


@contextlib.contextmanager
def counted(owner, *names):
    """The calls of an owner's methods."""
    calls, kept = [], {name: getattr(owner, name) for name in names}

    def watch(name):
        def method(*arguments, **keywords):
            calls.append(name)
            return kept[name](*arguments, **keywords)

        return method

    for name in names:
        setattr(owner, name, watch(name))
    try:
        yield calls
    finally:
        for name, method in kept.items():
            setattr(owner, name, method)


def same(one, other):
    """Whether all arrays are equal, bit for bit."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def case(kind, name, count):
    """One optimizer, case and number of contexts."""
    run = Run(kind, name, count)
    expected = Expected(run.settings, run.rules, run.start)
    found = {"weights": 0.0, "state": 0.0, "unequal": [], "waits": 0, "skipped": []}
    found["seed"] = run.optimizer.loss_scale.seed(0, 8.0 * count).asscalar().item()
    run.begin()
    for step in range(len(RATES)):
        before = run.weights(), run.optimizer.state()
        found["waits"] += run.step(step)
        sums = {name: sum(part[name].astype(np.float64) for part in run.parts(step)) for name in SHAPES}
        expected.step(sums, run.rates[step])
        weights, state = run.weights(), run.optimizer.state()
        moments = [key for key in state if not key.startswith("loss_scale")]
        if same(before[0], weights) and all(np.array_equal(before[1][key], state[key]) for key in moments):
            found["skipped"].append(step)
        wanted = {key: value for key, value in expected.weights.items() if key in run.layout.names}
        found["weights"] = max(found["weights"], difference(weights, wanted))
        found["state"] = max(found["state"], difference(state, expected.state()))
        if not all(same(weights, run.weights(number)) for number in range(count)):
            found["unequal"].append(step)
    run.optimizer.load_state(state)
    found["comes_back"] = same(state, run.optimizer.state())
    run.optimizer.reset()
    run.begin()
    for step in range(len(RATES)):
        run.step(step)
    found["repeats"] = same(weights, run.weights()) and same(state, run.optimizer.state())
    return found


def cases():
    """As JSON, by optimizer, case and number of contexts: the largest relative differences of `weights` and `state` over
    ten steps of changing rates (some 0); `unequal` steps, after which the contexts' weights differ; `skipped` steps,
    which change nothing; whether the state `comes_back`; whether a reset optimizer `repeats` the steps bit for bit; how
    often the host `waits` for a device during a step.
    """
    names = [(kind, name, count) for kind in OPTIMIZERS for name in CASES for count in (1, 2)]
    return {"/".join(map(str, name)): json.dumps(case(*name)) for name in names}
