"""Settings of Llama 3.1 8B: model sizes, targets, and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Json, WorkloadOptions, hyperparameter, option

REFERENCE_MODEL: Mapping[str, Json] = {
    "vocabulary": 128_256, "layers": 32, "hidden": 4_096, "feed_forward": 14_336, "heads": 32,
    "key_value_heads": 8, "rope_base": 500_000, "rope_factor": 8, "rope_original_length": 8_192,
    "initial_deviation": 0.02, "sequence_length": 8_192,
}  # fmt: skip
"""Model of the reference (NeMo 2.1.0, `Llama31Config8B`).

`rope_factor` is the factor of the frequency rescaling of Llama 3.1. The reference also uses the
rescaling at 8,192 tokens. The vocabulary is the size of the Llama 3.1 tokenizer with its special
tokens.
"""
DEMO_MODEL: Mapping[str, Json] = {
    "vocabulary": 256, "layers": 2, "hidden": 128, "feed_forward": 384, "heads": 4,
    "key_value_heads": 2, "rope_base": 10_000, "rope_factor": 1, "rope_original_length": 8_192,
    "initial_deviation": 0.06, "sequence_length": 128,
}  # fmt: skip
"""Smaller model for demos, with 459,392 parameters (docs/reference/workloads/llama31_8b.md)."""
METRIC = "log_perplexity"
DEMO_TARGET = 2.45
"""Target of the demo. The best n-gram model reaches 2.84, and the entropy of the text is 2.20."""
EVALUATION_SAMPLES = 1_024
"""Number of validation sequences in an evaluation (training_rules.adoc)."""
DEMO_EVALUATION_SAMPLES = 128
EVALUATION_INTERVAL = 12_288
"""Number of training samples between two evaluations (training_rules.adoc)."""
DEMO_EVALUATION_INTERVAL = 512
RMS_NORM_EPSILON = 1e-5
"""Epsilon of RMSNorm (NeMo 2.1.0, `Llama31Config8B`)."""


@dataclass(frozen=True, kw_only=True)
class LlamaOptions(WorkloadOptions):
    """Options `workload.*` of Llama 3.1 8B."""

    name: str = "llama31_8b"
    optimizer: str = hyperparameter("optimizer", choices=("adamw",))
    learning_rate: float = hyperparameter("highest rate, at the end of the warm-up", minimum=0.0)
    warmup_steps: int = hyperparameter("steps of the linear warm-up", minimum=0)
    max_steps: int = hyperparameter(
        "steps of the warm-up and of the cosine decay together", minimum=1
    )
    end_rate_factor: float = hyperparameter(
        "rate at the end of the cosine decay, as a fraction of the highest rate", minimum=0.0
    )
    beta1: float = hyperparameter("AdamW's decay of the mean of gradients", minimum=0.0)
    beta2: float = hyperparameter("AdamW's decay of the mean of squared gradients", minimum=0.0)
    epsilon: float = hyperparameter("AdamW's epsilon", minimum=0.0)
    weight_decay: float = hyperparameter("decoupled weight decay of all matrices", minimum=0.0)
    clip_norm: float = hyperparameter("largest global norm of the gradients", minimum=0.0)
    accumulation_steps: int = hyperparameter(
        "micro-batches of a device that one step accumulates", minimum=1
    )
    sharding: str = option(
        "auto",
        "shard: each device holds a part of the parameters and of the optimizer state; replicate:"
        " each device holds all; auto: replicate for demos, shard otherwise",
        choices=("auto", "shard", "replicate"),
    )
    recompute: bool = option(
        False, "recompute the activations of each layer in the backward pass, to save memory"
    )
    loss_chunk_tokens: int = option(1_024, "tokens whose logits exist at the same time", minimum=1)
    target: float | None = option(
        None, "log perplexity to reach or to fall below; null: the profile's", minimum=0.0
    )
