"""Small workloads without data, and what their models compute, in float64: tokens of two lengths, images of two sizes."""

from __future__ import annotations

import types

import numpy as np

from workloads.api import (
    ArraySpec,
    Batch,
    Defaults,
    Facts,
    LossScaling,
    OptimizerSettings,
    ParameterRule,
    Settings,
    Workload,
)

VOCABULARY, WIDTH, CLASSES = 11, 5, 4
LENGTHS, SAMPLES = (6, 3), 4
STEPS, OVERFLOW = 10, 4
SHAPES = {
    "embedding": (VOCABULARY, WIDTH),
    "output.weight": (CLASSES, WIDTH),
    "output.bias": (CLASSES,),
    "short.bias": (CLASSES,),
}
DYNAMIC = LossScaling("dynamic", 2.0**16, growth_interval=3, maximum=2.0**17)
CASES = {
    "sgd": {"name": "sgd", "momentum": 0.9},
    "whole": {"name": "sgd", "momentum": 0.9},
    "lars": {"name": "lars", "momentum": 0.9},
    "adam": {"name": "adam"},
    "rmsprop": {"name": "rmsprop"},
    "frozen": {"name": "sgd", "momentum": 0.9},
    "unused": {"name": "sgd", "momentum": 0.9},
    "dynamic_sgd": {"name": "sgd", "momentum": 0.9, "loss_scaling": DYNAMIC, "clip_norm": 0.5},
    "dynamic_adam": {"name": "adam", "loss_scaling": DYNAMIC, "clip_norm": 0.5},
}
WHOLE = ("whole", "unused")
"""Cases whose batches are computed at once; those of the others in two pieces."""


class Small(Workload):
    """What trainers ask, of a workload without data."""

    def __init__(self, devices=1, mode="train", updates=None, **options):
        settings = Settings(
            workload="small", framework="mxnet", profile="demo", device="cpu", devices=devices, nodes=1, cores_per_device=1,
            batch_size_global=SAMPLES * devices, precision="fp32", mode=mode, options=options,
        )  # fmt: skip
        self.updates = updates or OptimizerSettings("sgd", momentum=0.9)
        self.Options = types.SimpleNamespace
        super().__init__(settings, Facts(64, 64, {}, "synthetic"))

    @classmethod
    def options_of(cls, settings):
        return types.SimpleNamespace(**settings.options)

    @classmethod
    def defaults(cls, profile, rules, options):
        return Defaults("none")

    @classmethod
    def read_facts(cls, settings):
        return Facts(64, 64, {}, "synthetic")

    @property
    def samples_per_epoch(self):
        return 64

    def learning_rate(self, step):
        return 0.05 * (step % 3)

    def optimizer(self):
        return self.updates

    def open_data(self, place, seed):
        raise AssertionError("there are no data")


class Tokens(Small):
    """Sentences of two lengths; `short.bias` is used by the shorter ones alone."""

    def __init__(self, case, devices=1, accumulation=0, **changes):
        self.case, self.lars = case, CASES[case]["name"] == "lars"
        self.every_step_uses_every_parameter = case != "unused"
        accumulation = accumulation or (1 if case in WHOLE else 2)
        super().__init__(devices, updates=OptimizerSettings(**CASES[case], accumulation_steps=accumulation), **changes)

    def parameter_rule(self, parameter):
        matrix = parameter == "output.weight"
        multiple = 2.0 if parameter == "output.bias" else 1.0
        return ParameterRule(
            0.01 * matrix, self.lars and matrix, multiple, self.case == "frozen" and parameter == "embedding"
        )

    def shapes(self):
        return [self._shapes(length, True) for length in LENGTHS]

    def evaluation_shapes(self):
        return [self._shapes(length, False) for length in LENGTHS]

    @staticmethod
    def _shapes(length, training):
        names = {"tokens": "int32", **({"classes": "int32", "factors": "float32"} if training else {})}
        return {name: ArraySpec((SAMPLES, length), kind) for name, kind in names.items()}

    def initial_weights(self, seed):
        generator = np.random.default_rng(seed)
        return ((name, generator.normal(0, 1, shape).astype(np.float32)) for name, shape in SHAPES.items())

    def batch(self, step, replica):
        """Of one replica; padding has the factor 0. In step OVERFLOW of the dynamic cases the last one's is huge."""
        generator = np.random.default_rng([step, replica])
        shape = (SAMPLES, LENGTHS[step % 2])
        factors = (generator.random(shape) < 0.8).astype(np.float32)
        if self.case.startswith("dynamic") and step == OVERFLOW and replica == self.settings.devices - 1:
            factors *= np.float32(1e35)
        kinds = {"tokens": VOCABULARY, "classes": CLASSES}
        arrays = {name: generator.integers(0, top, shape).astype(np.int32) for name, top in kinds.items()}
        return Batch({**arrays, "factors": factors}, 1.0, 7.0, self.settings.batch_size_global)


def classified(weights, batch, always):
    """Loss of a batch and gradients by name, in float64."""
    tokens, classes = batch.arrays["tokens"], batch.arrays["classes"]
    factors = np.float64(batch.arrays["factors"]) / batch.weight_global
    short = always or tokens.shape[1] == LENGTHS[1]
    vectors = weights["embedding"][tokens]
    logits = vectors @ weights["output.weight"].T + weights["output.bias"] + short * weights["short.bias"]
    chances = np.exp(logits - logits.max(-1, keepdims=True))
    chances /= chances.sum(-1, keepdims=True)
    right = np.eye(CLASSES)[classes]
    slopes = (chances - right) * factors[..., None]
    of_vectors = np.zeros((VOCABULARY, WIDTH))
    np.add.at(of_vectors, tokens, slopes @ weights["output.weight"])
    of_bias = slopes.sum((0, 1))
    of_weight = np.einsum("btc,btw->cw", slopes, vectors)
    found = {"embedding": of_vectors, "output.weight": of_weight, "output.bias": of_bias, "short.bias": short * of_bias}
    return float(-(np.log((chances * right).sum(-1)) * factors).sum()), found


SIZES, IMAGES = ((16, 12), (6, 8)), 4
CHANNELS = 3
MOMENTUM = 0.9
PICTURE_SHAPES = {"conv.weight": (CHANNELS, 3, 1, 1), "norm.weight": (CHANNELS,), "norm.bias": (CHANNELS,)}


class Pictures(Small):
    """Images of two sizes; the rate is 0, so that only statistics move."""

    def learning_rate(self, step):
        return 0.0

    def shapes(self):
        return [{"image": ArraySpec((IMAGES, *size, 3), "uint8")} for size in SIZES]

    def evaluation_shapes(self):
        return self.shapes()

    def initial_weights(self, seed):
        generator = np.random.default_rng(seed)
        for name, shape in PICTURE_SHAPES.items():
            yield name, generator.normal(0, 1, shape).astype(np.float32)

    def batch(self, step, replica):
        """Of a size that is another one for the next step and for the next replica."""
        generator = np.random.default_rng([step, replica])
        shape = (IMAGES, *SIZES[(step + replica) % 2], 3)
        image = np.clip(generator.normal(60 + 40 * ((step + replica) % 2), 20, shape), 0, 255).astype(np.uint8)
        return Batch({"image": image}, IMAGES, float(IMAGES * self.settings.devices), IMAGES * self.settings.devices)


def moved(weight, statistics, batch, pieces):
    """Running mean and unbiased running variance of a replica after a batch, in float64."""
    for image in np.split(batch.arrays["image"], pieces):
        values = (image / 64 - 1.0).reshape(-1, 3) @ weight.reshape(CHANNELS, 3).T
        found = values.mean(0), values.var(0, ddof=1)
        statistics = [MOMENTUM * old + (1 - MOMENTUM) * new for old, new in zip(statistics, found, strict=True)]
    return statistics
