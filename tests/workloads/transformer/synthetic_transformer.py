"""Small synthetic cases for the Transformer's tests, the same in every framework's environment."""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.workloads import synthetic
from workloads.api import Batch, Facts
from workloads.common.dropout import keys
from workloads.common.randomness import bits, integers, stream
from workloads.transformer.workload import Transformer

MODEL = {"hidden": 16, "feed_forward": 24, "layers": 2, "heads": 4, "extra_length": 6}
WORDS, END = 45, 1
"""The ids of the published vocabulary: 0 is padding, 1 the end."""
SENTENCES = 6
EDGES = (9, 14)
"""Of the buckets that batches come from in turn."""
CASES = {"steps": (0.0, "others"), "fairseq": (0.0, "all"), "dropout": (0.1, "others")}
"""Name to dropout and the form of the smoothed loss."""
PAIRS = 600


def workload(case: str, framework: str, devices: int = 1, **changes: object) -> Transformer:
    """The workload of a case, at a high rate after one step of warm-up."""
    dropout, over = CASES[case]
    values = synthetic.hyperparameters(
        Transformer.named_sets()["reference"], learning_rate=0.01, warmup_steps=1, dropout=dropout, smoothed_over=over,
        bucket_first=EDGES[0], bucket_growth=1.6, max_sequence_length=EDGES[1],
    )  # fmt: skip
    settings = synthetic.settings(
        "transformer", framework=framework, devices=devices, batch_size_global=SENTENCES * EDGES[1],
        dataset="translation-demo", model=MODEL, targets={"bleu": 0.5}, hyperparameter_set="reference",
        hyperparameters=values, options={"evaluation_batch_size": SENTENCES, "evaluation_shapes": 1, "beam_width": 3},
    )  # fmt: skip
    sizes = {"vocabulary": WORDS, "dev": 12, "pairs": PAIRS, "test_longest": 13, "dev_longest": 13, "end": END}
    return Transformer(dataclasses.replace(settings, **changes), Facts(PAIRS, 12, sizes, "synthetic"))


def weights(made: Transformer) -> dict[str, np.ndarray]:
    """Initial weights; what starts at 0 or 1 is moved, and words differ enough for translations to depend on the source."""
    larger = {"embedding.weight": 2}
    return synthetic.shaken((name, larger.get(name, 1) * value) for name, value in made.initial_weights(7))


def sides(step: int, count: int = SENTENCES) -> dict[str, np.ndarray]:
    """Of the step's global batch: `source`, `target`, `label` and their lengths; lengths from 1 to the bucket's edge."""
    edge = EDGES[step % 2]
    found: dict[str, np.ndarray] = {}
    for number, side in enumerate(("source", "label")):
        key = stream(5, "lengths", step, number)
        length = 1 + integers(bits(key, np.arange(count)), edge)
        length[:2] = (edge, 1) if number else (1, edge)
        words = 2 + integers(bits(key, 1, np.arange(count)[:, None], np.arange(edge)), WORDS - 2)
        words[np.arange(count), length - 1] = END
        found[side] = np.where(np.arange(edge) < length[:, None], words, 0).astype(np.int32)
        found["source_length" if side == "source" else "target_length"] = length.astype(np.int32)
    shifted = np.concatenate([np.zeros((count, 1), np.int32), found["label"][:, :-1]], 1)
    found["target"] = np.where(np.arange(edge) < found["target_length"][:, None], shifted, 0).astype(np.int32)
    return found


def batch(made: Transformer, step: int, replica: int = 0) -> Batch:
    """One replica's part of a step's batch; parts have unequal numbers of tokens."""
    share = SENTENCES // made.settings.devices
    mine = slice(replica * share, (replica + 1) * share)
    whole = sides(step)
    arrays = {name: value[mine] for name, value in whole.items()}
    arrays["dropout_key"] = keys(3, 0, np.arange(step * SENTENCES, (step + 1) * SENTENCES))[mine]
    total = float(whole["target_length"].sum())
    return Batch(arrays, float(arrays["target_length"].sum()), total, SENTENCES)


def evaluation(made: Transformer) -> list[Batch]:
    """One batch to translate, with a sentence that is not valid, and one with labels."""
    arrays = sides(1)
    number = {"number": np.arange(SENTENCES), "valid": np.arange(SENTENCES) < SENTENCES - 1}
    sources = {name: arrays[name] for name in ("source", "source_length")}
    return [
        Batch({**sources, **number}, SENTENCES, SENTENCES, SENTENCES),
        Batch({**arrays, **number}, SENTENCES, SENTENCES, SENTENCES),
    ]
