"""Small synthetic Transformer test cases, identical in every framework's environment."""

import dataclasses

import numpy as np

from suite.catalog.sets import named_sets
from testing import synthetic
from testing.synthetic_sentences import EDGES, PAIRS, SENTENCES, WORDS, batch, evaluation
from workloads.api import DatasetInfo
from workloads.transformer.workload import Transformer

__all__ = ["CASES", "MODEL", "batch", "evaluation", "weights", "workload"]

MODEL = {"hidden": 16, "feed_forward": 24, "layers": 2, "heads": 4, "extra_length": 6}
END = 1
"""Token id of the end of a sentence (EOS) in the published vocabulary. The padding token has the
previous id.
"""
CASES = {"steps": (0.0, "others"), "fairseq": (0.0, "all"), "dropout": (0.1, "others")}
"""Dropout rate and form of label smoothing in each test case."""


def workload(case: str, framework: str, devices: int = 1, **changes: object) -> Transformer:
    """Return the workload of a test case.

    The learning rate is high after a single warm-up step.
    """
    dropout, over = CASES[case]
    values = synthetic.hyperparameters(
        named_sets(Transformer)["reference"], learning_rate=0.01, warmup_steps=1,
        dropout=dropout, smoothed_over=over,
        bucket_first=EDGES[0], bucket_growth=1.6, max_sequence_length=EDGES[1],
    )  # fmt: skip
    settings = synthetic.settings(
        "transformer", framework=framework, devices=devices,
        global_batch_size=SENTENCES * EDGES[1], dataset="translation-demo", model=MODEL,
        targets={"bleu": 0.5}, hyperparameter_set="reference", hyperparameters=values,
        options={"evaluation_batch_size": SENTENCES, "evaluation_shapes": 1, "beam_width": 3},
    )  # fmt: skip
    sizes = {
        "vocabulary": WORDS,
        "dev": 12,
        "pairs": PAIRS,
        "test_longest": 13,
        "dev_longest": 13,
        "end": END,
    }
    return Transformer(
        dataclasses.replace(settings, **changes), DatasetInfo(PAIRS, 12, sizes, "synthetic")
    )


def weights(workload: Transformer) -> dict[str, np.ndarray]:
    """Return initial weights with which translations depend on the source sentence.

    Noise is added to weights that are normally initialized to 0 or 1.
    """
    drawn = workload.initial_weights(7)
    return synthetic.shaken(
        (name, value * (2 if name == "embedding.weight" else 1)) for name, value in drawn
    )
