"""Small synthetic cases for GNMT's tests, the same in every framework's environment."""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.workloads import synthetic
from workloads.api import Batch, Facts
from workloads.common.dropout import keys
from workloads.common.randomness import bits, integers, stream
from workloads.common.text.vocabulary import BOS, EOS
from workloads.gnmt.settings import DEMO_MODEL
from workloads.gnmt.workload import GNMT

MODEL = {**DEMO_MODEL, "hidden": 16, "layers": 4, "initial": 0.9, "initial_embedding": 0.9, "longest_translation": 12}
WORDS = 45
"""Filled up to 48 by the model."""
SENTENCES = 6
EDGES = (9, 14)
"""Of the buckets that batches come from in turn."""
CASES = {"steps": 0.0, "dropout": 0.2}
"""Name to dropout."""
PAIRS = 600


def workload(case: str, framework: str, devices: int = 1, **changes: object) -> GNMT:
    """The workload of a case, at a high rate without warm-up."""
    values = synthetic.hyperparameters(
        GNMT.named_sets()["reference"],
        learning_rate=0.01,
        warmup_steps=0,
        dropout=CASES[case],
        buckets=2,
        max_sequence_length=14,
    )
    settings = synthetic.settings(
        "gnmt", framework=framework, devices=devices, batch_size_global=SENTENCES, dataset="translation-demo",
        model=MODEL, targets={"bleu": 0.5}, hyperparameter_set="reference", hyperparameters=values,
        options={"evaluation_batch_size": SENTENCES, "evaluation_shapes": 1, "beam_width": 3},
    )  # fmt: skip
    sizes = {"vocabulary": WORDS, "dev": 12, "pairs": PAIRS, "test_longest": 12, "dev_longest": 11}
    return GNMT(dataclasses.replace(settings, **changes), Facts(PAIRS, 12, sizes, "synthetic"))


def weights(made: GNMT) -> dict[str, np.ndarray]:
    """Initial weights; what starts at 0 is moved, and what is said depends on what was said before."""
    larger = {"classifier.weight": 2}
    drawn = made.initial_weights(7)
    return synthetic.shaken(
        (name, larger.get(name, 1) * value + 0.1 * synthetic.noise(name, value.shape)) for name, value in drawn
    )


def sides(made: GNMT, step: int) -> dict[str, np.ndarray]:
    """Of the step's global batch: `source`, `target`, `label` and their lengths; lengths from the least to the most."""
    edge, count = EDGES[step % 2], made.settings.batch_size_global
    found: dict[str, np.ndarray] = {}
    for number, (side, width) in enumerate((("source", edge), ("label", edge - 1))):
        key = stream(5, "lengths", step, number)
        length = 2 + integers(bits(key, np.arange(count)), width - 1)
        length[:2] = width, 2
        words = 4 + integers(bits(key, 1, np.arange(count)[:, None], np.arange(width)), WORDS - 4)
        words[np.arange(count), length - 1] = EOS
        found[side] = np.where(np.arange(width) < length[:, None], words, 0).astype(np.int32)
        found["source_length" if side == "source" else "target_length"] = length.astype(np.int32)
    found["source"][:, 0] = BOS
    shifted = np.concatenate([np.full((count, 1), BOS), found["label"][:, :-1]], 1)
    within = np.arange(edge - 1) < found["target_length"][:, None]
    found["target"] = np.where(within, shifted, 0).astype(np.int32)
    return found


def batch(made: GNMT, step: int, replica: int = 0) -> Batch:
    """One replica's part of a step's batch."""
    total = made.settings.batch_size_global
    share = total // made.settings.devices
    mine = slice(replica * share, (replica + 1) * share)
    arrays = {name: value[mine] for name, value in sides(made, step).items()}
    arrays["dropout_key"] = keys(3, 0, np.arange(step * total, (step + 1) * total))[mine]
    return Batch(arrays, float(share), float(total), total)


def evaluation(made: GNMT) -> list[Batch]:
    """One batch to translate, with a sentence that is not valid, and one with labels."""
    arrays = sides(made, 1)
    number = {"number": np.arange(SENTENCES), "valid": np.arange(SENTENCES) < SENTENCES - 1}
    sources = {name: arrays[name] for name in ("source", "source_length")}
    return [
        Batch({**sources, **number}, SENTENCES, SENTENCES, SENTENCES),
        Batch({**arrays, **number}, SENTENCES, SENTENCES, SENTENCES),
    ]
