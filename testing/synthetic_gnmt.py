"""Small synthetic GNMT test cases, identical in every framework's environment."""

import dataclasses

import numpy as np

from suite.catalog.sets import named_sets
from testing import synthetic
from testing.synthetic_sentences import EDGES, PAIRS, SENTENCES, WORDS, batch, evaluation
from workloads.api import DatasetInfo
from workloads.gnmt.settings import DEMO_MODEL
from workloads.gnmt.workload import GNMT

__all__ = ["CASES", "MODEL", "batch", "evaluation", "weights", "workload"]

MODEL = {
    **DEMO_MODEL,
    "hidden": 16,
    "initial": 0.9,
    "initial_embedding": 0.9,
    "longest_translation": 12,
}
CASES = {"steps": 0.0, "dropout": 0.2}
"""Dropout rate of each test case."""


def workload(case: str, framework: str, devices: int = 1, **changes: object) -> GNMT:
    """Return the workload of a test case, with a high learning rate and without warm-up."""
    changed = {"learning_rate": 0.01, "warmup_steps": 0, "dropout": CASES[case]}
    chosen = named_sets(GNMT)["reference"]
    values = synthetic.hyperparameters(chosen, **changed, buckets=2, max_sequence_length=EDGES[1])
    settings = synthetic.settings(
        "gnmt", framework=framework, devices=devices, global_batch_size=SENTENCES,
        dataset="translation-demo", model=MODEL, targets={"bleu": 0.5},
        hyperparameter_set="reference", hyperparameters=values,
        options={"evaluation_batch_size": SENTENCES, "evaluation_shapes": 1, "beam_width": 3},
    )  # fmt: skip
    sizes = {"vocabulary": WORDS, "dev": 12, "pairs": PAIRS, "test_longest": 12, "dev_longest": 11}
    return GNMT(
        dataclasses.replace(settings, **changes), DatasetInfo(PAIRS, 12, sizes, "synthetic")
    )


def weights(workload: GNMT) -> dict[str, np.ndarray]:
    """Return initial weights with which each output word depends on the previous words.

    Noise is added to weights that are normally initialized to 0.
    """
    drawn = (
        (name, value * (3 if name == "classifier.weight" else 1))
        for name, value in workload.initial_weights(1)
    )
    return synthetic.shaken(
        (name, value + 0.1 * synthetic.noise(name, value.shape)) for name, value in drawn
    )
