"""Small synthetic cases for the Transformer's tests, the same in every framework's environment."""

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
"""In the published vocabulary, after padding."""
CASES = {"steps": (0.0, "others"), "fairseq": (0.0, "all"), "dropout": (0.1, "others")}
"""Name to dropout and the form of the smoothed loss."""


def workload(case: str, framework: str, devices: int = 1, **changes: object) -> Transformer:
    """The workload of a case, at a high rate after one step of warm-up."""
    dropout, over = CASES[case]
    values = synthetic.hyperparameters(
        named_sets(Transformer)["reference"], learning_rate=0.01, warmup_steps=1, dropout=dropout, smoothed_over=over,
        bucket_first=EDGES[0], bucket_growth=1.6, max_sequence_length=EDGES[1],
    )  # fmt: skip
    settings = synthetic.settings(
        "transformer", framework=framework, devices=devices, global_batch_size=SENTENCES * EDGES[1],
        dataset="translation-demo", model=MODEL, targets={"bleu": 0.5}, hyperparameter_set="reference",
        hyperparameters=values, options={"evaluation_batch_size": SENTENCES, "evaluation_shapes": 1, "beam_width": 3},
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


def weights(made: Transformer) -> dict[str, np.ndarray]:
    """Initial weights; what starts at 0 or 1 is moved, and words differ enough for translations to
    depend on the source.
    """
    drawn = made.initial_weights(7)
    return synthetic.shaken(
        (name, value * (2 if name == "embedding.weight" else 1)) for name, value in drawn
    )
