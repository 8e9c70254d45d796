"""Data set of the translation demos: sentence pairs in two languages of `grammar.py`.

The data set is prepared like a real corpus. A model reaches the target only if it learns to
translate. `docs/reference/workloads/gnmt.md` lists the BLEU of simpler methods: word-by-word
translation, the translation of the most similar training sentence, and the correct words in random
order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from workloads.common.data.generated import Generated
from workloads.common.manifest import Manifest
from workloads.common.randomness import Draws, bits, fold, normal, stream
from workloads.common.text.dataset import PlainText
from workloads.common.text.grammar import Phrase, sentence
from workloads.common.text.lexicon import SEED

SIZES = {"test": 200, "dev": 200, "train": 10_000}
"""Number of sentence pairs in each split. No source sentence occurs twice, also not in different
splits.
"""
LENGTH_MEDIAN_LOG, LENGTH_SPREAD = 2.1, 0.6
"""Mean and standard deviation of the logarithm of the sentence length. Sentence lengths are
log-normal.
"""
LENGTH = (4, 50)
"""Minimum and maximum number of words in a source sentence, including punctuation marks."""
MERGES = 1_500
RAW = "raw"
"""Name of the folder of the plain text, inside the folder of the prepared data."""


def candidates(split: str) -> Iterator[Phrase]:
    """Yield an endless sequence of sentence pairs for a split. Pairs may repeat."""
    key, number = stream(SEED, f"translation-demo {split}"), 0
    while True:
        spread = normal(bits(fold(key, 0), np.arange(number, number + 1_000)), np.float64)
        for value in spread.tolist():
            words = round(math.exp(LENGTH_MEDIAN_LOG + LENGTH_SPREAD * value))
            yield sentence(Draws(fold(key, 1, number)), min(max(words, LENGTH[0]), LENGTH[1]))
            number += 1


def pairs() -> dict[str, list[Phrase]]:
    """Return the sentence pairs of each split."""
    seen: set[str] = set()
    by_split: dict[str, list[Phrase]] = {split: [] for split in SIZES}
    for split, count in SIZES.items():
        for pair in candidates(split):
            text = " ".join(pair.source)
            if text not in seen:
                seen.add(text)
                by_split[split].append(pair)
            if len(by_split[split]) == count:
                break
    return by_split


def plain(words: list[str]) -> str:
    """Join words to a sentence without spaces before punctuation."""
    return " ".join(words).replace(" ,", ",").replace(" .", ".")


def write_text(folder: Path) -> None:
    """Write the plain text files {train,dev,test}.{en,de} to `folder`."""
    for split, of_split in pairs().items():
        for language, side in (("en", "source"), ("de", "target")):
            lines = [plain(getattr(pair, side)) for pair in of_split]
            (folder / f"{split}.{language}").write_text(
                "".join(f"{line}\n" for line in lines), encoding="utf-8"
            )


class TranslationDemo(Generated, PlainText):
    """Generated corpus of sentence pairs.

    The folder of the corpus contains the plain text and the prepared data.
    """

    name = "translation-demo"

    def __init__(self) -> None:
        self.merges = MERGES

    def generate(self, folder: Path) -> Manifest:
        """Write `raw/` and the prepared data, and return the manifest.

        The generation takes a few seconds.
        """
        raw = folder / RAW
        raw.mkdir()
        write_text(raw)
        return self.write(raw, folder, self.manifest(RAW, self.inputs(raw)))
