"""Runs in TensorFlow's environment: small models on ModelTrainer.

The models are described in synthetic_updates.py and synthetic_tokens.py.
"""

import tensorflow as tf

from tests.probes.gradients import of_tensorflow as gradients  # noqa: F401 - part of the adapter
from tests.workloads.frameworks import synthetic_updates
from tests.workloads.frameworks.synthetic_tokens import SHORT
from workloads.frameworks.tensorflow.model import ModelTrainer
from workloads.frameworks.tensorflow.variables import Model

PASSES = ("step", "backward", "run_loss", "run_outputs")
"""The trainer's methods for a step, gradients, a loss, and outputs."""


class LinearTrainer(ModelTrainer):
    """A model whose loss is the sum over parameters of <w, x>."""

    inputs = tuple(synthetic_updates.SHAPES)

    def build_model(self):
        return Model(synthetic_updates.SHAPES)

    def loss(self, model, batch):
        return tf.add_n(
            tf.reduce_sum(model.parameters[name] * array) for name, array in batch.items()
        )


class TokensTrainer(ModelTrainer):
    """A model that maps words (B, L) to logits (B, L, WORDS).

    The workload determines whether the shapes may be unknown when the step is traced.
    """

    inputs = ("source", "target", "weight")
    evaluation_inputs = ("source",)

    @property
    def takes_any_shape(self):
        return self.workload.any_shape

    def build_model(self):
        return Model(self.workload.parameters)

    def loss(self, model, batch):
        logits = self.logits(model, batch["source"])
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["target"], logits)
        return tf.reduce_sum(batch["weight"] * entropy)

    def outputs(self, model, batch):
        return {"logits": self.logits(model, batch["source"])}

    def logits(self, model, source):
        values = model.parameters
        words = tf.gather(values["embedding.weight"], source)
        logits = tf.matmul(words, values["output.weight"], transpose_b=True) + values["output.bias"]
        return (
            logits + values["short.bias"]
            if "short.bias" in values and source.shape[1] == SHORT
            else logits
        )


def traces(trainer):
    """Return the number of traces of a training step."""
    return trainer.traces
