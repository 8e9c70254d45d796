"""Losses and gradients of a small model that transformers' `LlamaForCausalLM` computed.

The values were computed with transformers 5.24.0 and PyTorch 2.11.0 in float64, with
`attn_implementation` eager, `rope_type` llama3 (factor 8, original length 32, base 500,000), and
the arrays of this module. In transformers, the rotary angles are fp32, which limits the accuracy.
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
LOSSES = (7.246686655014045, 6.569699071455074)
"""Mean of -log p over the tokens of each sequence."""
GRADIENT_NORMS = {
    "embedding.weight": (7.531320856751638,),
    "layer2.attention.norm.weight": (0.3601329248539842,),
    "layer2.attention.query_key_value.weight": (
        0.7611113229314161,
        0.8321848177700861,
        0.5572088873680942,
    ),
    "layer2.attention.output.weight": (1.311042755925598,),
    "layer2.feed_forward.norm.weight": (0.40452626513073836,),
    "layer2.feed_forward.gate_up.weight": (0.8310395935301148, 0.8033625396882795),
    "layer2.feed_forward.down.weight": (1.986635680056732,),
    "norm.weight": (0.6488748558766704,),
    "classifier.weight": (0.9084732901023411,),
}
"""L2 norms of the gradients of the mean loss. A stacked matrix has a norm for each part."""
ACCURACY = 1e-6
"""Relative difference that the fp32 angles of transformers explain."""


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
