"""BLEU of translations as published results have it: sacrebleu on detokenised text, `intl` tokens, lower case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

Detokenise = Callable[[str], str]


def _metric() -> Any:
    """GNMT's reference: -lc --tokenize intl. Imported late: only process 0 scores."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(lowercase=True, tokenize="intl")


def score(translations: Sequence[str], references: Sequence[str], digits: int = 9) -> float:
    """BLEU in points (0 … 100) of detokenised translations against one raw reference each, rounded to `digits`."""
    return round(float(_metric().corpus_score(list(translations), [list(references)]).score), digits)


def signature() -> str:
    """What was measured how, in sacrebleu's words: `nrefs:1|case:lc|eff:no|tok:intl|smooth:exp|version:2.6.0`."""
    metric = _metric()
    metric.corpus_score(["a"], [["a"]])  # the number of references is known only after a score
    return str(metric.get_signature())


@cache
def detokeniser(language: str) -> Detokenise:
    """Words separated by spaces to text, as Moses' detokenizer.perl -l LANGUAGE writes it."""
    from sacremoses import MosesDetokenizer

    moses = MosesDetokenizer(lang=language)
    return lambda line: str(moses.detokenize(line.split()))
