"""Digests of the generated corpus, of batches and of scores, to be the same in every environment.

Needs NumPy, sacrebleu and sacremoses, so that every framework's environment can run it.
"""

import itertools

import numpy as np

from tests.golden.randomness import digest
from workloads.common.batch_plan import buckets_by_samples, buckets_by_tokens
from workloads.common.text import batches, bleu, corpus, dataset_info, sources
from workloads.common.text.batches import Batching, equal_edges, growing_edges
from workloads.common.text.vocabulary import GNMT, SHIFTED

SENTENCES = 1_500
"""Of each split of the generated corpus."""


def of_text(lines) -> str:
    """Of lines of text."""
    return digest(np.frombuffer("\n".join(lines).encode(), np.uint8))


def generated() -> dict[str, str]:
    """Sentence pairs as they are written."""
    found = {}
    for split in corpus.SIZES:
        pairs = list(itertools.islice(corpus.candidates(split), SENTENCES))
        sides = (side for pair in pairs for side in (pair.source, pair.target))
        found[f"sentences of {split}"] = of_text(map(corpus.plain, sides))
    return found


def planned() -> dict[str, str]:
    """Lengths of synthetic pairs, and plans of both kinds."""
    lengths = dataset_info.synthetic_lengths(20_000)
    by_samples = Batching(
        GNMT, buckets_by_samples(equal_edges(50, 5), 128, 2), (256,), 64, False, 2
    )
    by_tokens = Batching(
        SHIFTED, buckets_by_tokens(growing_edges(8, 1.2, 4, 64), 4_096, 2), (256,), 64, True, 2
    )
    plans = {
        "samples": batches.plan(lengths, by_samples, 3, 1),
        "tokens": batches.plan(lengths, by_tokens, 3, 1),
    }
    found = {"synthetic lengths": digest(lengths)}
    for name, plan in plans.items():
        found[f"batches by {name}"] = digest(*(plan.batch(step)[1] for step in range(len(plan))))
    return found


def scored() -> dict[str, str]:
    """Moses' tokens and text, BLEU of every second sentence with two words exchanged."""
    pairs = list(itertools.islice(corpus.candidates("test"), 200))
    references = [corpus.plain(pair.target) for pair in pairs]
    tokens = [sources.tokeniser("de")(line) for line in references]
    text = [bleu.detokeniser("de")(line) for line in tokens]
    exchanged = [
        " ".join(reversed(line.split())) if number % 2 else line for number, line in enumerate(text)
    ]
    return {
        "tokens": of_text(tokens),
        "text": of_text(text),
        "bleu": f"{bleu.score(exchanged, references):.6f}",
    }


def digests() -> dict[str, str]:
    """All of them."""
    return {**generated(), **planned(), **scored()}
