"""BLEU as in published results.

sacrebleu computes BLEU on detokenized text, with `intl` tokenization in lower case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

Detokenise = Callable[[str], str]


def _metric() -> Any:
    """Return the BLEU metric with the GNMT reference's options: -lc --tokenize intl.

    The function imports sacrebleu locally, because only rank 0 computes BLEU.
    """
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(lowercase=True, tokenize="intl")


def score(translations: Sequence[str], references: Sequence[str], digits: int = 9) -> float:
    """Return the BLEU of detokenized translations, from 0 to 100.

    The score is rounded to `digits` decimal places. Each translation has one untokenized reference.
    """
    return round(
        float(_metric().corpus_score(list(translations), [list(references)]).score), digits
    )


def signature() -> str:
    """Return sacrebleu's signature: `nrefs:1|case:lc|eff:no|tok:intl|smooth:exp|version:2.6.0`."""
    metric = _metric()
    # The first call sets the number of references, which the signature contains.
    metric.corpus_score(["a"], [["a"]])
    return str(metric.get_signature())


@cache
def detokeniser(language: str) -> Detokenise:
    """Return a function that joins tokens like Moses' detokenizer.perl -l LANGUAGE."""
    from sacremoses import MosesDetokenizer

    moses = MosesDetokenizer(lang=language)
    return lambda line: str(moses.detokenize(line.split()))
