"""The generated text: its digest, and the rules that a model must learn."""

import hashlib

import numpy as np
import pytest

from workloads.llama31_8b import grammar
from workloads.llama31_8b.dataset import DEMO_SEED, DEMO_TOKENS

DIGESTS = {
    "train": "40c974f07c5b1c3bbffd151c04c163142dbd83d117a6bb79c2225331a68c314e",
    "validation": "c28ea2397427360526853e7216267af6e30ba470a84f1f6a174d16c25d65f84b",
}
"""SHA-256 of the int32 tokens, from an implementation that was written before this module."""
COUNTS = {"train": (1_048_828, 13_797), "validation": (33_021, None)}


@pytest.mark.parametrize("split", DIGESTS)
def test_the_text_is_the_same_on_every_machine(split):
    documents = list(grammar.documents(DEMO_SEED, split, DEMO_TOKENS[split]))
    tokens = np.concatenate(documents).astype("<i4")
    assert hashlib.sha256(tokens.tobytes()).hexdigest() == DIGESTS[split]
    count, of_documents = COUNTS[split]
    assert len(tokens) == count
    assert of_documents in (None, len(documents))
    assert len(np.unique(tokens)) <= 207


def test_every_document_has_a_topic_and_whole_sentences():
    for ids in grammar.documents(1, "train", 20_000):
        assert grammar.FIRST_TOPIC <= ids[0] < grammar.FIRST_ENDING
        assert ids[-1] == grammar.STOP
        assert 4 <= np.count_nonzero(ids == grammar.STOP) <= 11
        assert int(ids.max()) < grammar.VOCABULARY


def test_the_word_same_is_followed_by_the_last_object():
    first_verb = grammar.FIRST_NOUN + grammar.NOUNS
    seen = 0
    for ids in grammar.documents(1, "train", 20_000):
        for place in np.flatnonzero(ids == grammar.SAME):
            before = ids[:place]
            # A preposition's noun follows the object, so the last noun before it is the object.
            verbs = np.flatnonzero((before >= first_verb) & (before < first_verb + grammar.VERBS))
            after = before[verbs[-1] :]
            nouns = after[(after >= grammar.FIRST_NOUN) & (after < first_verb)]
            assert ids[place + 1] == nouns[0]
            seen += 1
    assert seen > 100


def test_seeds_and_splits_have_different_text():
    texts = {
        tuple(next(grammar.documents(seed, split, 1)))
        for seed in (0, 1)
        for split in ("train", "validation")
    }
    assert len(texts) == 4
