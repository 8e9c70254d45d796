"""Run inside MXNet's environment: ModelTrainer and ImageTrainer with small models against NumPy in float64."""

import contextlib
import dataclasses
import json
import types

import mxnet as mx
import numpy as np

from tests.probes.mxnet_optimizers import WAITS, counted, same
from tests.workloads.frameworks.mxnet.expected import Expected, difference
from tests.workloads.frameworks.mxnet.small import (
    CASES,
    CHANNELS,
    CLASSES,
    LENGTHS,
    MOMENTUM,
    PICTURE_SHAPES,
    SHAPES,
    STEPS,
    VOCABULARY,
    WIDTH,
    Pictures,
    Tokens,
    classified,
    moved,
)
from workloads.api import Facts, OptimizerSettings, Place, Settings
from workloads.frameworks.mxnet.graphs import Model
from workloads.frameworks.mxnet.images import ImageTrainer
from workloads.frameworks.mxnet.layers import ImageModel
from workloads.frameworks.mxnet.model import ModelTrainer


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
    expected = Expected(workload.updates, {name: workload.parameter_rule(name) for name in SHAPES}, weights)
    for step in range(STEPS):
        before = trainer.state()
        follow(trainer, expected, step, found)
        state = trainer.state()
        if all(np.array_equal(before[name], state[name]) for name in state if not name.startswith("loss_scale")):
            found["skipped"].append(step)
    replicas, frozen = trainer.replicas, trainer.layout.frozen
    copies = [{name: array.asnumpy() for name, array in replica.parameters.items()} for replica in replicas]
    found["contexts_equal"] = all(same(copy, copies[0]) for copy in copies)
    found["without_gradient"] = [name for name in frozen if replicas[0].parameters[name].grad is None]
    found["unchanged"] = [name for name in SHAPES if np.array_equal(state[name], weights[name])]
    found["gradient_values"] = replicas[0].gradient.size
    found["programs"] = len(trainer.graphs.programs)
    trainer.setup(weights.items(), False)
    trainer.load_state(state)
    found["comes_back"] = same(state, trainer.state())
    found["predicted"] = predicted(trainer, workload, state)
    trainer.close()
    return found


def follow(trainer, expected, step, found):
    """One step of trainer and NumPy; the largest differences so far."""
    workload = trainer.workload
    batches = [workload.batch(step, replica) for replica in range(len(trainer.replicas))]
    loss = trainer.train([batches], step).loss
    parts = [classified(expected.weights, batch, workload.every_step_uses_every_parameter) for batch in batches]
    sums = {name: sum(gradients[name] for _, gradients in parts) for name in SHAPES}
    with np.errstate(over="ignore"):
        scaled = {name: np.float32(expected.scale.scale * value) for name, value in sums.items()}
    finite = all(np.isfinite(value).all() for value in scaled.values())
    expected.step(sums if finite else scaled, workload.learning_rate(step))
    wanted = sum(part for part, _ in parts)
    state = trainer.state()
    others = {name: value for name, value in state.items() if name not in SHAPES}
    differences = {
        "losses": abs(loss - wanted) / abs(wanted),
        "weights": difference({name: state[name] for name in SHAPES}, expected.weights),
        "state": difference(others, expected.state()),
    }
    found.update({name: max(found[name], value) for name, value in differences.items()})


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

STEM = types.SimpleNamespace(
    name="conv", norm="norm", inputs=3, outputs=CHANNELS, kernel=1, stride=1, padding=0, has_bias=False
)  # one pixel, so that NumPy has no borders to think of


class Stem(ImageModel):
    """A convolution with batch norm."""

    shapes = PICTURE_SHAPES
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
    from workloads.gnmt import mxnet as gnmt
    from workloads.gnmt import settings as of_gnmt
    from workloads.gnmt import workload as gnmt_workload
    from workloads.maskrcnn import mxnet as maskrcnn
    from workloads.maskrcnn import settings as of_maskrcnn
    from workloads.maskrcnn import workload as maskrcnn_workload
    from workloads.ncf import mxnet as ncf
    from workloads.ncf import settings as of_ncf
    from workloads.ncf import workload as ncf_workload
    from workloads.resnet50 import mxnet as resnet
    from workloads.resnet50 import settings as of_resnet
    from workloads.resnet50 import workload as resnet_workload
    from workloads.ssd import mxnet as ssd
    from workloads.ssd import settings as of_ssd
    from workloads.ssd import workload as ssd_workload
    from workloads.transformer import mxnet as transformer
    from workloads.transformer import settings as of_transformer
    from workloads.transformer import workload as transformer_workload

    maskrcnn_sizes = {"classes": 5, "objects_per_image_most": 3}
    text = {"vocabulary": 50, "dev": 9, "dev_longest": 20, "test_longest": 20, "pairs": 5_000}
    cases = {
        "gnmt": (gnmt_workload.GNMT, gnmt.GNMTTrainer, of_gnmt, text),
        "ncf": (ncf_workload.NCF, ncf.NCFTrainer, of_ncf, {"users": 50, "items": 40, "min_ratings": 2}),
        "resnet50": (resnet_workload.ResNet50, resnet.ResNetTrainer, of_resnet, {"classes": 10}),
        "ssd": (ssd_workload.SSD, ssd.SSDTrainer, of_ssd, {"classes": 5}),
        "maskrcnn": (maskrcnn_workload.MaskRCNN, maskrcnn.MaskRCNNTrainer, of_maskrcnn, maskrcnn_sizes),
        "transformer": (transformer_workload.Transformer, transformer.TransformerTrainer, of_transformer, text),
    }
    for name, (workload, trainer, module, sizes) in cases.items():
        values = workload.named_sets()["demo"].plain
        batch_size = 1_024 if name == "transformer" else 4  # tokens; or samples
        settings = Settings(
            workload=name, framework="mxnet", profile="demo", rules="v0.7", device="cpu", devices=2, nodes=1,
            cores_per_device=1, batch_size_global=batch_size, precision="fp32", model=module.DEMO_MODEL, hyperparameters=values,
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


def cases():
    """As JSON: `tokens`, a classifier of padded tokens of two lengths, by case and number of contexts: differences of `losses`,
    `weights` and `state` over ten steps, and what a case is about. `modes`: what runs without updates do. `images`: running
    statistics of a batch norm after stretches of steps with images of two sizes, by contexts and pieces. `build`: arrays and
    key-value stores that exist after the constructor and after setup of every workload's trainer.
    """
    found = {
        "tokens": {f"{case}/{devices}": tokens_case(case, devices) for case in CASES for devices in (1, 2)},
        "modes": modes(),
        "images": {f"{devices}/{pieces}": pictures(devices, pieces) for devices in (1, 2) for pieces in (1, 2)},
        "build": build(),
    }
    return {name: json.dumps(value) for name, value in found.items()}
