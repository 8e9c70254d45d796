"""Losses of a small model that transformers' `LlamaForCausalLM` computed.

The values were computed with transformers 5.24.0 and PyTorch 2.11.0 in float64, with `attn_implementation`
eager, `rope_type` llama3 (factor 8, original length 32, base 500,000), and the arrays below.
"""

import numpy as np

from testing import synthetic_llama
from tests.workloads.llama31_8b.llama_numpy import Sizes
from workloads.llama31_8b.data import batch as to_batch

MODEL = {
    "vocabulary": 97, "layers": 3, "hidden": 64, "feed_forward": 112, "heads": 8,
    "key_value_heads": 2, "rope_base": 500_000, "rope_factor": 8, "rope_original_length": 32,
    "initial_deviation": 0.3, "sequence_length": 48,
}  # fmt: skip
SIZES = Sizes(3, 8, 2, 500_000, 8, 32)
LOSSES = (7.246686536149738, 6.5696988710804805)
"""Mean of -log p over the tokens of each sequence."""


def workload(framework):
    """Return the workload with the model."""
    return synthetic_llama.workload(framework, model=MODEL)


def weights():
    """Return the weights: ones for norms, and normal values for matrices."""
    generator, found = np.random.default_rng(1), {}
    network = workload("pytorch").network
    for name, shape in network.shapes().items():
        if len(shape) == 1:
            found[name] = np.ones(shape)
        else:
            found[name] = generator.normal(0, network.deviation(name), shape)
    return found


def tokens():
    """Return the tokens of two sequences, (2, 49)."""
    return np.random.default_rng(3).integers(0, 97, (2, 49))


def batch():
    """Return the evaluation batch of the two sequences."""
    return to_batch(tokens(), np.arange(2), 96.0, 2, is_evaluation=True)
