"""Subtokens: lossless encoding, the longest match, and rejected vocabularies."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.common.text import subtokens_plain
from tests.workloads.common.text.synthetic_text import SUBTOKENS, write_subtokens
from workloads.common.text.subtokens import END, UNDEFINED, Subtokeniser, tokens

SUBTOKENISER = Subtokeniser(["<pad>", "<EOS>", *SUBTOKENS])
TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from(" \\_u;0123456789\nabcdehltwäß.,\t\u2028\u3013")),
    max_size=40,
)
"""Arbitrary Unicode text with lone surrogates, parts of escapes, and words of the vocabulary."""


@given(TEXT)
def test_encoding_is_lossless(text):
    assert SUBTOKENISER.decode(SUBTOKENISER.encode(text)) == text


WORDS = st.lists(st.sampled_from(["the", "theatre", "th", "watt", "The", "_", "\\", "u", "."])).map(
    " ".join
)


@given(st.one_of(TEXT, WORDS))
def test_the_longest_match_is_taken(text):
    """Compare with the plain subtokenizer, which has no cache."""
    found = [SUBTOKENISER.subtokens[number] for number in SUBTOKENISER.encode(text)]
    assert found == subtokens_plain.encode(text, SUBTOKENS)


def test_words_are_letters_and_numbers():
    """Check for every character that the classes of the pattern equal Unicode's categories."""
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if character.isalnum() != (unicodedata.category(character)[0] in "LN"):
            pytest.fail(f"U+{code:04X}")
    assert tokens("ab_c, d  e") == ["ab", "_", "c", ", ", "d", "  ", "e"]
    assert tokens(" a ") == [" ", "a", " "]


def test_encodings_of_given_words():
    """Check that a space between words is implicit and that the last subtoken ends the word."""
    pieces = [SUBTOKENISER.subtokens[number] for number in SUBTOKENISER.encode("the theatre, č_")]
    assert pieces == ["the_", "the", *"atre_", ", _", *"\\269;_\\u_"]


def test_any_ids_are_decoded():
    """Check EOS, padding, ids beyond the vocabulary, and an escape without a character."""
    ids = SUBTOKENISER.encode("the")
    assert SUBTOKENISER.decode([0, *ids, 0, 10_000, END, *ids]) == "the"
    backwards = [SUBTOKENISER.ids[character] for character in "\\99999999;_"]
    assert SUBTOKENISER.decode(backwards) == UNDEFINED
    assert SUBTOKENISER.decode([]) == ""


def test_files_keep_every_line(tmp_path):
    """Check lines with quotes, control characters, and Unicode's line separators.

    A line may contain any character except a line feed.
    """
    strange = ["'", '"', "\u2028", "\x85", "\x1c", "\u00a0"]
    vocabulary = Subtokeniser(["<pad>_", "<EOS>_", *SUBTOKENS, *strange])
    vocabulary.write(tmp_path / "vocabulary")
    again = Subtokeniser.read(tmp_path / "vocabulary")
    assert again.subtokens == vocabulary.subtokens
    assert len(again) == 2 + len(SUBTOKENS) + len(strange)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [*lines, lines[5]], "is already in line 6"),
        (
            lambda lines: [line for line in lines if line != "'\\'"],
            r"no subtoken '\\'. Each character",
        ),
        (lambda lines: [*lines, "'ö_'"], "no subtoken 'ö'"),
        (lambda lines: [*lines, "the"], "is not a subtoken in quotes"),
        (lambda lines: [*lines, ""], "'' is not a subtoken in quotes"),
    ],
)
def test_an_invalid_vocabulary_is_rejected(tmp_path, change, words):
    path = tmp_path / "vocabulary"
    write_subtokens(path)
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))
    with pytest.raises(ValueError, match=r"subtoken|already") as caught:
        Subtokeniser.read(path)
    assert words in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_files_that_cannot_be_read_are_rejected(tmp_path):
    with pytest.raises(ValueError, match=r"vocabulary: No such file or directory$"):
        Subtokeniser.read(tmp_path / "vocabulary")
    (tmp_path / "vocabulary").write_bytes(b"'a'\n'\xff'\n")
    with pytest.raises(ValueError, match=r"vocabulary:2: not UTF-8"):
        Subtokeniser.read(tmp_path / "vocabulary")
