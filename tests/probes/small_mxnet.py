"""Runs in MXNet's environment: small models on ModelTrainer.

The models are described in synthetic_updates.py and synthetic_tokens.py.
"""

import contextlib

import mxnet as mx
import numpy as np

from tests.workloads.frameworks import synthetic_updates
from tests.workloads.frameworks.synthetic_tokens import SHORT, WIDTH, WORDS
from workloads.api import LossScaling, OptimizerSettings, ParameterRule
from workloads.frameworks.mxnet.flat import FlatLayout, views
from workloads.frameworks.mxnet.graphs import Model
from workloads.frameworks.mxnet.model import ModelTrainer
from workloads.frameworks.mxnet.optimizers import build_optimizer

PASSES = ("step", "gradients", "run_loss", "run_outputs")
"""The trainer's methods for a step, gradients, a loss, and outputs."""
WAITS = ("asnumpy", "asscalar", "wait_to_read", "_sync_copyfrom")


class Alike(ModelTrainer):
    """A trainer that checks that all contexts have equal parameters when it returns its state."""

    def state_dict(self):
        for name, value in self.replicas[0].parameters.items():
            for replica in self.replicas[1:]:
                np.testing.assert_array_equal(
                    value.asnumpy(), replica.parameters[name].asnumpy(), name
                )
        return super().state_dict()


class Linear(Model):
    """Parameters of the linear model."""

    shapes = synthetic_updates.SHAPES


class LinearTrainer(Alike):
    """A model whose loss is the sum over parameters of <w, x>."""

    def build_model(self, half, on_cpu):
        return Linear()

    def loss(self, model, batch):
        F, weights = model.F, model.arrays
        products = (
            F.broadcast_mul(batch[f"x/{name}"], F.expand_dims(weights[name], axis=0))
            for name in model.shapes
        )
        return F.add_n(*map(F.sum, products))

    def host_arrays(self, batch, training):
        return {f"x/{name}": array for name, array in batch.arrays.items()}


class Translator(Model):
    """A model that maps words (B, L) to logits (B, L, WORDS)."""

    def __init__(self, shapes):
        self.shapes = shapes

    def __call__(self, source):
        F, inputs = self.F, self.arrays
        words = F.Embedding(source, inputs["embedding.weight"], input_dim=WORDS, output_dim=WIDTH)
        weights = inputs["output.weight"], inputs["output.bias"]
        logits = F.FullyConnected(words, *weights, num_hidden=WORDS, flatten=False)
        if "short.bias" in self.shapes and source.shape[1] == SHORT:
            logits = F.broadcast_add(logits, inputs["short.bias"].reshape((1, 1, WORDS)))
        return logits


class TokensTrainer(Alike):
    inputs, evaluation_inputs = ("source", "target", "weight"), ("source",)

    def build_model(self, half, on_cpu):
        return Translator(self.workload.parameters)

    def loss(self, model, batch):
        F, logits = model.F, model(batch["source"])
        return -F.sum(
            F.pick(F.log_softmax(logits, axis=-1), batch["target"], axis=-1) * batch["weight"]
        )

    def outputs(self, model, batch):
        return {"logits": model(batch["source"])}


def gradients(trainer, *batches):
    """Return the gradients of a step's batches by name, multiplied by the loss scale.

    If contexts own parts of the sum, the parts are joined.
    """
    trainer.gradients(list(batches))
    parts = [gradient.asnumpy() for gradient in trainer.optimizer.gradients]
    return views(
        np.concatenate(parts) if trainer.optimizer.sharded else parts[0], trainer.layout.shapes
    )


def traces(trainer):
    """Return the number of graphs of the training pass."""
    return len(trainer.training_graphs.programs)


@contextlib.contextmanager
def counted(owner, *names):
    """Yield a list of the calls of an owner's methods."""
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


def waits(trainer, batches):
    """Return the calls in a step that wait for a device."""
    with counted(mx.nd.NDArray, *WAITS) as calls:
        trainer.step(batches, 0.1)
    return calls


def seeds():
    """Return the initial gradient of the backward pass, by `MODE/CONTEXTS`.

    A batch has 8 samples per context.
    """
    scalings = {"none": LossScaling(), "static": LossScaling("static", 128.0)}
    found, layout = {}, FlatLayout.of({"weight": (4,)}, lambda name: ParameterRule())
    for mode, scaling in scalings.items():
        for count in (1, 2):
            vectors = [mx.nd.zeros((4,), ctx=mx.cpu(number)) for number in range(count)]
            optimizer = build_optimizer(
                OptimizerSettings("sgd", loss_scaling=scaling), layout, vectors, vectors, count
            )
            found[f"{mode}/{count}"] = optimizer.seed(0, 8.0 * count).asscalar()
    return found
