"""Run inside MXNet's environment: ModelTrainer and ImageTrainer with small models against NumPy in float64; prints JSON.

`tokens`: a classifier of padded tokens of two lengths, by case and number of contexts: differences of `losses`, `weights` and
`state` over ten steps, and what a case is about. `modes`: what runs without updates do. `images`: running statistics of a batch
norm after stretches of steps with images of two sizes, by contexts and pieces. `build`: arrays and key-value stores that exist
after the constructor and after setup of every workload's trainer.
"""

import contextlib
import dataclasses
import json
import types

import mxnet as mx
import numpy as np

from tests.probes.mxnet_optimizers import WAITS, counted, same
from tests.workloads.frameworks.mxnet.expected import Expected, difference
from workloads.api import (
    ArraySpec,
    Batch,
    Defaults,
    Facts,
    LossScaling,
    OptimizerSettings,
    ParameterRule,
    Place,
    Settings,
    Workload,
)
from workloads.frameworks.mxnet.graphs import Model
from workloads.frameworks.mxnet.images import ImageTrainer
from workloads.frameworks.mxnet.layers import ImageModel
from workloads.frameworks.mxnet.model import ModelTrainer

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


class Classifier(Model):
    """An embedding and a linear layer for each token."""

    shapes, inputs, targets, results = SHAPES, ("tokens",), ("classes", "factors"), ("logits",)

    def __init__(self, always):
        self.always = always

    def outputs(self, F, inputs):
        vectors = F.Embedding(inputs["tokens"], inputs["embedding"], input_dim=VOCABULARY, output_dim=WIDTH)
        logits = F.FullyConnected(
            vectors, inputs["output.weight"], inputs["output.bias"], num_hidden=CLASSES, flatten=False
        )
        if self.always or inputs["tokens"].shape[1] == LENGTHS[1]:
            logits = F.broadcast_add(logits, inputs["short.bias"].reshape((1, 1, CLASSES)))
        return [logits]

    def loss(self, F, inputs):
        (logits,) = self.outputs(F, inputs)
        logarithms = F.pick(F.log_softmax(logits, axis=-1), inputs["classes"], axis=-1)
        return -F.sum(logarithms * inputs["factors"])


class TokenTrainer(ModelTrainer):
    """All that a workload adds."""

    def build_model(self, half, on_cpu):
        return Classifier(self.workload.every_step_uses_every_parameter)


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


def place(devices):
    """All devices in this process."""
    return Place(0, 1, range(devices), devices, ("cpu",) * devices)


def tokens_case(case, devices):
    """Ten steps of both lengths in turn."""
    workload = Tokens(case, devices)
    trainer = TokenTrainer(workload, place(devices))
    weights = dict(workload.initial_weights(3))
    trainer.setup(weights.items(), False)
    cold = trainer.state()
    trainer.setup(weights.items(), True)
    found = {"no_trace": same(cold, trainer.state()), "losses": 0.0, "weights": 0.0, "state": 0.0, "skipped": []}
    rules = {name: workload.parameter_rule(name) for name in SHAPES}
    expected = Expected(workload.updates, rules, weights)
    for step in range(STEPS):
        batches = [workload.batch(step, replica) for replica in range(devices)]
        before = trainer.state()
        loss = trainer.train([batches], step).loss
        parts = [classified(expected.weights, batch, workload.every_step_uses_every_parameter) for batch in batches]
        with np.errstate(over="ignore"):
            sums = {name: sum(np.float64(gradients[name]) for _, gradients in parts) for name in SHAPES}
            scaled = {name: np.float32(expected.scale.scale * value) for name, value in sums.items()}
        finite = all(np.isfinite(value).all() for value in scaled.values())
        expected.step(sums if finite else scaled, workload.learning_rate(step))
        wanted = sum(part for part, _ in parts)
        found["losses"] = max(found["losses"], abs(loss - wanted) / abs(wanted))
        state = trainer.state()
        if all(np.array_equal(before[name], state[name]) for name in state if not name.startswith("loss_scale")):
            found["skipped"].append(step)
        found["weights"] = max(found["weights"], difference({name: state[name] for name in SHAPES}, expected.weights))
        others = {name: value for name, value in state.items() if name not in SHAPES}
        found["state"] = max(found["state"], difference(others, expected.state()))
    parameters = [replica.parameters for replica in trainer.replicas]
    found["contexts_equal"] = all(
        np.array_equal(one[name].asnumpy(), parameters[0][name].asnumpy()) for one in parameters for name in SHAPES
    )
    found["without_gradient"] = [
        name for name in SHAPES if parameters[0][name].grad is None and name in trainer.layout.frozen
    ]
    found["unchanged"] = [name for name in SHAPES if np.array_equal(state[name], weights[name])]
    found["gradient_values"] = trainer.replicas[0].gradient.size
    found["programs"] = len(trainer.graphs.programs)
    trainer.setup(weights.items(), False)
    trainer.load_state(state)
    found["comes_back"] = same(state, trainer.state())
    found["predicted"] = predicted(trainer, workload, state)
    trainer.close()
    return found


def predicted(trainer, workload, weights):
    """The largest difference of logits of both lengths."""
    batches = [[workload.batch(step, replica) for replica in range(len(trainer.replicas))] for step in range(2)]
    worst = 0.0
    for batch, outputs in trainer.predict(batches):
        tokens = batch.arrays["tokens"]
        short = workload.every_step_uses_every_parameter or tokens.shape[1] == LENGTHS[1]
        wanted = np.float64(weights["embedding"])[tokens] @ weights["output.weight"].T + weights["output.bias"]
        worst = max(worst, difference(outputs, {"logits": wanted + short * weights["short.bias"]}))
    return worst


def modes():
    """What the modes without updates leave, how often a step waits, what a batch that cannot be cut says."""
    workload = Tokens("adam", 2)
    trainer = TokenTrainer(workload, place(2))
    weights = dict(workload.initial_weights(3))
    trainer.setup(weights.items(), True)
    before = trainer.state()
    steps = [[workload.batch(step, replica) for replica in range(2)] for step in range(2)]
    parts = [[classified(weights, batch, True) for batch in batches] for batches in steps]
    wanted = np.mean([sum(loss for loss, _ in local) for local in parts])
    found = {"wanted": wanted, "forward": trainer.forward(steps).loss}
    for _ in range(2):  # gradients of the first time must not stay
        found["forward_backward"] = trainer.forward_backward(steps).loss
    found["unchanged"] = same(before, trainer.state())
    owned = np.concatenate([gradient.asnumpy() for gradient in trainer.optimizer.gradients])
    sums = {name: sum(gradients[name] for _, gradients in parts[-1]) for name in trainer.layout.shapes}
    vector = np.concatenate([value.ravel() for value in sums.values()])
    found["gradients"] = difference({"all": owned}, {"all": vector})
    with counted(mx.nd.NDArray, *WAITS) as waits:
        trainer.step(steps[0], 0.1)
    found["waits"] = waits
    trainer.close()
    for mode in ("forward", "forward_backward", "inference"):
        trainer = TokenTrainer(Tokens("adam", 1, mode=mode), place(1))
        trainer.setup(weights.items(), True)
        found[f"programs_{mode}"] = sorted(training for training, _ in trainer.graphs.programs)
        trainer.close()
    try:
        TokenTrainer(Tokens("sgd", 1, accumulation=3), place(1))
    except ValueError as error:
        found["uneven"] = str(error)
    return found


# -- images ---------------------------------------------------------------------------------------------------------

SIZES, IMAGES = ((16, 12), (6, 8)), 4
CHANNELS = 3
MOMENTUM = 0.9
STEM = types.SimpleNamespace(
    name="conv", norm="norm", inputs=3, outputs=CHANNELS, kernel=1, stride=1, padding=0
)  # one pixel, so that NumPy has no borders to think of


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
        for name, shape in Stem.shapes.items():
            yield name, generator.normal(0, 1, shape).astype(np.float32)

    def batch(self, step, replica):
        """Of a size that is another one for the next step and for the next replica."""
        generator = np.random.default_rng([step, replica])
        shape = (IMAGES, *SIZES[(step + replica) % 2], 3)
        image = np.clip(generator.normal(60 + 40 * ((step + replica) % 2), 20, shape), 0, 255).astype(np.uint8)
        return Batch({"image": image}, IMAGES, float(IMAGES * self.settings.devices), IMAGES * self.settings.devices)


class Stem(ImageModel):
    """A convolution with batch norm."""

    shapes = {"conv.weight": (CHANNELS, 3, 1, 1), "norm.weight": (CHANNELS,), "norm.bias": (CHANNELS,)}
    results = ("mean",)
    scale, shift = (1 / 64,) * 3, (-1.0,) * 3
    epsilon, momentum = 1e-5, MOMENTUM

    def __init__(self, half, on_cpu):
        super().__init__(self.shapes, {f"norm.running_{kind}": (CHANNELS,) for kind in ("mean", "var")}, half, on_cpu)

    def outputs(self, F, inputs):
        return [F.mean(self.unit(F, inputs, self.normalised(F, inputs), STEM, relu=True), axis=(2, 3))]

    def loss(self, F, inputs):
        return F.sum(self.outputs(F, inputs)[0])


class PictureTrainer(ImageTrainer):
    """All that a workload adds."""

    def build_model(self, half, on_cpu):
        return Stem(half, on_cpu)


def moved(weight, statistics, batch, pieces):
    """Running mean and unbiased running variance of a replica after a batch, in float64."""
    for image in np.split(batch.arrays["image"], pieces):
        values = (image / 64 - 1.0).reshape(-1, 3) @ weight.reshape(CHANNELS, 3).T
        found = values.mean(0), values.var(0, ddof=1)
        statistics = [MOMENTUM * old + (1 - MOMENTUM) * new for old, new in zip(statistics, found, strict=True)]
    return statistics


def pictures(devices, accumulation):
    """Two stretches of five and one steps."""
    updates = OptimizerSettings("sgd", momentum=0.9, accumulation_steps=accumulation)
    workload = Pictures(devices, updates=updates)
    trainer = PictureTrainer(workload, place(devices))
    weights = dict(workload.initial_weights(3))
    trainer.setup(weights.items(), False)
    cold = trainer.state()
    trainer.setup(weights.items(), True)
    found = {"no_trace": same(cold, trainer.state()), "difference": 0.0}
    mean = [np.zeros(CHANNELS), np.ones(CHANNELS)]
    for first, stop in ((0, 5), (5, 6)):
        steps = [[workload.batch(step, replica) for replica in range(devices)] for step in range(first, stop)]
        trainer.train(steps, first)
        local = [mean] * devices
        for batches in steps:
            local = [
                moved(np.float64(weights["conv.weight"]), one, batch, accumulation)
                for one, batch in zip(local, batches, strict=True)
            ]
        mean = [np.mean([one[kind] for one in local], axis=0) for kind in range(2)]
        state = trainer.state()
        wanted = {"norm.running_mean": mean[0], "norm.running_var": mean[1]}
        found["difference"] = max(found["difference"], difference({name: state[name] for name in wanted}, wanted))
    trainer.close()
    return found


# -- constructors -----------------------------------------------------------------------------------------------------


def made():
    """Every workload with its trainer's class."""
    from workloads.ncf import mxnet as ncf
    from workloads.ncf import settings as of_ncf
    from workloads.ncf import workload as ncf_workload
    from workloads.resnet50 import mxnet as resnet
    from workloads.resnet50 import settings as of_resnet
    from workloads.resnet50 import workload as resnet_workload
    from workloads.ssd import mxnet as ssd
    from workloads.ssd import settings as of_ssd
    from workloads.ssd import workload as ssd_workload

    cases = {
        "ncf": (ncf_workload.NCF, ncf.NCFTrainer, of_ncf, {"users": 50, "items": 40, "min_ratings": 2}),
        "resnet50": (resnet_workload.ResNet50, resnet.ResNetTrainer, of_resnet, {"classes": 10}),
        "ssd": (ssd_workload.SSD, ssd.SSDTrainer, of_ssd, {"classes": 5}),
    }
    for name, (workload, trainer, module, sizes) in cases.items():
        values = {key: item.value for key, item in module.SETS["demo"].items()}
        for key in ("batch_size_global", "lr_scaling"):
            values.pop(key)
        settings = Settings(
            workload=name, framework="mxnet", profile="demo", rules="v0.7", device="cpu", devices=2, nodes=1,
            cores_per_device=1, batch_size_global=4, precision="fp32", model=module.DEMO_MODEL, hyperparameters=values,
        )  # fmt: skip
        yield name, trainer, workload(settings, Facts(64, 64, sizes, "synthetic"))


def build():
    """Arrays and key-value stores created by a constructor, and by setup."""
    found = {}
    for name, kind, workload in made():
        with watched() as created:
            trainer = kind(workload, place(2))
            by_constructor = len(created)
            trainer.setup(workload.initial_weights(1), False)
        found[name] = [by_constructor, len(created)]
        trainer.close()
    return found


@contextlib.contextmanager
def watched():
    """All arrays that are created, and the key-value stores."""
    with counted(mx.nd.NDArray, "__init__") as arrays, counted(mx.kv, "create") as stores:
        yield Both(arrays, stores)


@dataclasses.dataclass
class Both:
    """Two lists that count as one."""

    arrays: list
    stores: list

    def __len__(self):
        return len(self.arrays) + len(self.stores)


def main():
    found = {
        "tokens": {f"{case}/{devices}": tokens_case(case, devices) for case in CASES for devices in (1, 2)},
        "modes": modes(),
        "images": {f"{devices}/{pieces}": pictures(devices, pieces) for devices in (1, 2) for pieces in (1, 2)},
        "build": build(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
