"""Digests of the generated corpus, batches and scores, which must not depend on the environment.

The module needs NumPy, sacrebleu and sacremoses, which every framework's environment contains.
"""

import itertools

import numpy as np

from tests.golden.randomness import digest
from workloads.common.batch_plan import buckets_by_samples, buckets_by_tokens
from workloads.common.text import batches, bleu, corpus, dataset_info, sources
from workloads.common.text.batches import Batching, equal_edges, growing_edges
from workloads.common.text.vocabulary import GNMT, SHIFTED

SENTENCES = 1_500
"""Number of sentence pairs of each split."""


def text_digest(lines) -> str:
    """Return the digest of lines of text."""
    return digest(np.frombuffer("\n".join(lines).encode(), np.uint8))


def generated() -> dict[str, str]:
    """Return the digests of the written sentence pairs."""
    found = {}
    for split in corpus.SIZES:
        pairs = list(itertools.islice(corpus.candidates(split), SENTENCES))
        sides = (side for pair in pairs for side in (pair.source, pair.target))
        found[f"sentences of {split}"] = text_digest(map(corpus.plain, sides))
    return found


def planned() -> dict[str, str]:
    """Return the digests of synthetic lengths, and of batch plans of both kinds."""
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
    """Return the digests of Moses tokens and text, and the BLEU of partly reversed sentences."""
    pairs = list(itertools.islice(corpus.candidates("test"), 200))
    references = [corpus.plain(pair.target) for pair in pairs]
    tokens = [sources.tokeniser("de")(line) for line in references]
    text = [bleu.detokeniser("de")(line) for line in tokens]
    exchanged = [
        " ".join(reversed(line.split())) if number % 2 else line for number, line in enumerate(text)
    ]
    return {
        "tokens": text_digest(tokens),
        "text": text_digest(text),
        "bleu": f"{bleu.score(exchanged, references):.6f}",
    }


def digests() -> dict[str, str]:
    """Return all digests by name."""
    return {**generated(), **planned(), **scored()}
