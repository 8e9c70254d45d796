"""The generated corpus: scores of trivial translations, variety, and preparation."""

import itertools
import random
from collections import Counter, defaultdict

import numpy as np
import pytest

from workloads.common.text import bleu, corpus, dataset_info, prepared
from workloads.common.text.corpus import TranslationDemo
from workloads.common.text.vocabulary import Vocabulary

FINGERPRINT = "4c4fe1b423db87cc4cc133c18a8f624aa1a854c07d2c2e4f261b858699e3a58f"
"""Fingerprint of the prepared demo: text, Moses' tokens, merges, and ids.

Results with different fingerprints are not compared.
"""


@pytest.fixture(scope="module")
def pairs():
    return corpus.pairs()


@pytest.fixture(scope="module")
def references(pairs):
    return [corpus.plain(pair.target) for pair in pairs["test"]]


def words_alone(pairs):
    """Translate each test sentence word by word.

    Each word is replaced by its most frequent translation in the training data.
    """
    lexicon = defaultdict(Counter)
    for pair in pairs["train"]:
        for source, target in pair.pairs:
            lexicon[source][target] += 1
    best = {source: found.most_common(1)[0][0] for source, found in lexicon.items()}
    return [corpus.plain([best.get(word, word) for word in pair.source]) for pair in pairs["test"]]


def nearest(pairs):
    """Return the translations of the training sentences with the largest share of common words."""
    ids = {
        word: number
        for number, word in enumerate({word for pair in pairs["train"] for word in pair.source})
    }
    word_counts = np.zeros((len(pairs["train"]), len(ids)), np.uint8)
    for row, pair in enumerate(pairs["train"]):
        np.add.at(word_counts[row], [ids[word] for word in pair.source], 1)
    lengths, found = word_counts.sum(1), []
    for pair in pairs["test"]:
        wanted = Counter(ids[word] for word in pair.source if word in ids)
        shared = np.minimum(word_counts[:, list(wanted)], np.array(list(wanted.values()))).sum(
            1
        ) / (lengths + len(pair.source))
        found.append(corpus.plain(pairs["train"][int(np.argmax(shared))].target))
    return found


@pytest.mark.full  # The golden fingerprint detects changes of the data in every run.
def test_trivial_translations_stay_far_below_the_target(pairs, references):
    assert bleu.score(references, references) == 100.0
    assert 5.0 < bleu.score(words_alone(pairs), references) < 15.0
    assert bleu.score(nearest(pairs), references) < 10.0
    shuffled = []
    for number, pair in enumerate(pairs["test"]):
        words = pair.target[:-1]
        random.Random(number).shuffle(words)
        shuffled.append(corpus.plain([*words, "."]))
    assert bleu.score(shuffled, references) < 10.0
    assert bleu.score([corpus.plain(pair.source) for pair in pairs["test"]], references) < 1.0


def test_sentences_are_varied_and_unique(pairs):
    sources = [" ".join(pair.source) for split in pairs.values() for pair in split]
    assert len(set(sources)) == len(sources) == sum(corpus.SIZES.values())
    lengths = np.array([[len(pair.source), len(pair.target)] for pair in pairs["train"]])
    assert lengths.min() >= 3
    assert lengths[:, 0].max() <= 50
    assert 9 < lengths[:, 0].mean() < 11
    kinds = Counter(itertools.chain.from_iterable(pair.target for pair in pairs["train"]))
    for word in ("dar", "dan", "dam", "nik", "wil", "wollan", "wail", ",", "und", "ihm", "ab"):
        assert kinds[word] > 20, word


def test_the_demo_is_prepared_as_a_real_corpus(demo_data, pairs):
    folder = demo_data("translation-demo")
    found = dataset_info.load_dataset_info(folder)
    assert (found.train_samples, found.sizes["dev"], found.evaluation_samples) == (10_000, 200, 200)
    assert 1_100 < found.sizes["vocabulary"] < 1_400
    assert found.notes == ()
    assert found.fingerprint == FINGERPRINT
    assert TranslationDemo().verify(folder)[-1].startswith("translation-demo: sound")
    vocabulary = Vocabulary.read(folder / prepared.VOCABULARY)
    test = prepared.read(folder, "test", 200)
    for number in (0, 57, 199):
        assert (
            vocabulary.decode(test.source.sentence(number)).split() == pairs["test"][number].source
        )
    text = bleu.detokeniser("de")
    back = [text(vocabulary.decode(test.target.sentence(number))) for number in range(200)]
    assert bleu.score(back, prepared.read_references(folder, 200)) == 100.0
    assert (folder / "raw" / "test.de").read_text() == (folder / prepared.REFERENCES).read_text()
    with pytest.raises(ValueError, match="suite data make-demo translation-demo"):
        TranslationDemo().prepare(folder, folder)
