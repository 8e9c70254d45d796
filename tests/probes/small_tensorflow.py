"""Run inside TensorFlow's environment: the models of synthetic_updates.py and synthetic_tokens.py
on ModelTrainer.
"""

import tensorflow as tf

from tests.probes.gradients import of_tensorflow as gradients  # noqa: F401 - of its adapter
from tests.workloads.frameworks import synthetic_updates
from tests.workloads.frameworks.synthetic_tokens import SHORT
from workloads.frameworks.tensorflow.model import ModelTrainer
from workloads.frameworks.tensorflow.variables import Model

PASSES = ("step", "backward", "run_loss", "run_outputs")
"""The trainer's methods for a step, gradients, a loss, outputs."""


class LinearTrainer(ModelTrainer):
    """The sum over parameters of <w, x>."""

    inputs = tuple(synthetic_updates.SHAPES)

    def build_model(self):
        return Model(synthetic_updates.SHAPES)

    def loss(self, model, batch):
        return tf.add_n(
            tf.reduce_sum(model.parameters[name] * array) for name, array in batch.items()
        )


class TokensTrainer(ModelTrainer):
    """Words (B, L) to logits (B, L, WORDS); the workload says whether sizes need not be known."""

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
    """Of a training step."""
    return trainer.traces
