"""Small Llama models with random tokens, for tests of the trainers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from testing import synthetic
from workloads.api import Batch, DatasetInfo
from workloads.common.randomness import bits, integers, stream
from workloads.llama31_8b.data import batch
from workloads.llama31_8b.workload import Llama

SEED = 7
MODEL: Mapping[str, object] = {
    "vocabulary": 96, "layers": 3, "hidden": 64, "feed_forward": 112, "heads": 8,
    "key_value_heads": 2, "rope_base": 100, "rope_factor": 8, "rope_original_length": 32,
    "initial_deviation": 0.2, "sequence_length": 48,
}  # fmt: skip
"""Model whose rotary frequencies include unchanged, interpolated, and divided frequencies."""
ADAMW: Mapping[str, object] = {
    "optimizer": "adamw", "learning_rate": 0.003, "warmup_steps": 4, "max_steps": 12,
    "end_rate_factor": 0.1, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-5, "weight_decay": 0.1,
    "clip_norm": 0.5, "accumulation_steps": 1, "max_epochs": 1,
}  # fmt: skip
"""Hyperparameters with which every step clips the gradients."""
BATCH = 4
SEQUENCES = 100


def workload(
    framework: str = "pytorch",
    devices: int = 1,
    precision: str = "fp32",
    changes: Mapping[str, object] | None = None,
    model: Mapping[str, object] = MODEL,
    **options: object,
) -> Llama:
    """Return a small workload without files.

    Args:
        framework: Name of the framework.
        devices: Number of devices that share a batch.
        precision: Number format.
        changes: Hyperparameters that differ from ADAMW.
        model: Sizes of the model.
        **options: Options `workload.*`.
    """
    settings = synthetic.settings(
        "llama31_8b", framework=framework, devices=devices, precision=precision, rules="v0.7",
        dataset="llama-demo", global_batch_size=BATCH, model=dict(model), seed=SEED,
        hyperparameters={**ADAMW, **(changes or {})}, options=options,
    )  # fmt: skip
    return Llama(settings, DatasetInfo(SEQUENCES, 2 * BATCH + 1, {}, "synthetic"))


def tokens(step: int) -> np.ndarray:
    """Return the tokens of a step's sequences, (BATCH, S + 1) int64."""
    shape = BATCH, int(str(MODEL["sequence_length"])) + 1
    positions = np.arange(int(np.prod(shape))).reshape(shape)
    return integers(
        bits(stream(step, "tokens of a test"), positions), int(str(MODEL["vocabulary"]))
    )


def step_batch(workload: Llama, step: int, replica: int) -> Batch:
    """Return the batch of a replica in a step."""
    share = BATCH // workload.settings.devices
    rows = tokens(step)[replica * share : (replica + 1) * share]
    weight = float(BATCH * (rows.shape[1] - 1))
    return batch(rows, np.arange(share), weight, BATCH)
