"""BLEU: equality with its definition, the reference's settings of sacrebleu, and Moses' tokens."""

import math
from collections import Counter

import pytest

from workloads.common.text import bleu, sources


def plain_bleu(translations, references):
    """Return BLEU of words that are separated by spaces (Papineni et al. 2002).

    It has four n-gram precisions and a brevity penalty, over the whole corpus.
    """
    matched, total, lengths = [0] * 4, [0] * 4, [0, 0]
    for translation, reference in zip(translations, references, strict=True):
        words, wanted = translation.lower().split(), reference.lower().split()
        lengths = [lengths[0] + len(words), lengths[1] + len(wanted)]
        for order in range(4):
            grams, allowed = (
                Counter(zip(*(side[k:] for k in range(order + 1)), strict=False))
                for side in (words, wanted)
            )
            matched[order] += (grams & allowed).total()
            total[order] += grams.total()
    precision = math.exp(sum(math.log(a / b) for a, b in zip(matched, total, strict=True)) / 4)
    return 100 * precision * min(1, math.exp(1 - lengths[1] / lengths[0]))


def test_bleu_equals_its_definition():
    references = [
        "Der Hund bellt sehr laut im Garten .",
        "Eine Katze schläft auf dem warmen Dach .",
    ] * 3
    translations = ["der Hund bellt laut im Garten .", "Eine Katze schläft auf dem Dach ."] * 3
    assert bleu.score(translations, references) == pytest.approx(
        plain_bleu(translations, references), abs=1e-9
    )


def test_case_is_ignored_and_punctuation_is_separated():
    assert (
        bleu.score(["ein haus, ein garten und ein hund."], ["Ein Haus, ein Garten und ein Hund."])
        == 100.0
    )
    intl = bleu.score(["Er sagte: „Nein“, und ging dann."], ['Er sagte: "Nein", und ging dann.'])
    assert 10 < intl < 100
    assert "tok:intl" in bleu.signature()
    assert "case:lc" in bleu.signature()
    assert "nrefs:1" in bleu.signature()


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("de", "Das ist z. B. „gut“ & billig, sagte Herr Müller (45)."),
        ("de", "Die EU-Kommission hat am 3. Mai 2016 50% mehr ausgegeben."),
        ("en", "It isn't so, he said: don't!"),
        ("en", "The U.S. [and others] paid $3,000 | each."),
    ],
)
def test_detokenizing_restores_the_text(language, text):
    tokens = sources.tokeniser(language)(text)
    assert len(tokens.split()) > len(text.split())
    assert bleu.detokeniser(language)(tokens) == text


def test_special_characters_are_escaped_as_in_moses():
    found = sources.tokeniser("en")('a & b | c [d] it\'s "e"')
    assert found == "a &amp; b &#124; c &#91; d &#93; it &apos;s &quot; e &quot;"
