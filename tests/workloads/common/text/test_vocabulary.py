"""Vocabularies and subwords: lossless ids, and rejected files with the bad line."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import examples
from workloads.common.text import sources
from workloads.common.text.vocabulary import (
    BOS,
    EOS,
    PAD,
    UNK,
    Vocabulary,
    join_subwords,
    padded_size,
)

letters = st.text("abcdäß&;'-", min_size=1, max_size=7)
lines = st.lists(letters, min_size=1, max_size=12).map(" ".join)


@given(texts=st.lists(lines, min_size=1, max_size=12), merges=st.integers(1, 40))
@examples(25)
def test_bpe_and_ids_are_lossless(tmp_path_factory, texts, merges):
    folder = tmp_path_factory.mktemp("bpe")
    (folder / "text").write_text(
        "".join(f"{line}\n" for line in [*texts, "abab abab"]), encoding="utf-8"
    )
    sources.learn_bpe([folder / "text"], merges, folder / "codes")
    subwords = sources.apply_bpe_lines(texts, str(folder / "codes"))
    assert [join_subwords(line) for line in subwords] == texts
    (folder / "subwords").write_text("".join(f"{line}\n" for line in subwords), encoding="utf-8")
    sources.write_vocabulary([folder / "subwords"], folder / "vocabulary")
    vocabulary = Vocabulary.read(folder / "vocabulary")
    for line, expected in zip(subwords, texts, strict=True):
        ids = vocabulary.encode(line)
        assert min(ids) > EOS
        assert max(ids) < len(vocabulary)
        assert vocabulary.decode([BOS, *ids, EOS, *ids, PAD]) == expected


def test_subwords_equal_those_of_subword_nmt(tmp_path):
    from subword_nmt.apply_bpe import BPE

    text = "lower lowest newer newest wider widest\n" * 3
    (tmp_path / "text").write_text(text)
    sources.learn_bpe([tmp_path / "text"], 8, tmp_path / "codes")
    codes = (tmp_path / "codes").read_text()
    assert codes.startswith("#version: 0.2\n")
    assert len(codes.splitlines()) == 9
    assert sources.apply_bpe_lines([text], str(tmp_path / "codes")) == [
        BPE(io.StringIO(codes)).process_line(text)
    ]


def test_subwords_are_ordered_by_frequency_and_first_occurrence(tmp_path):
    (tmp_path / "text").write_text("b a a c\nd c a\n")
    sources.write_vocabulary([tmp_path / "text"], tmp_path / "vocabulary")
    assert (tmp_path / "vocabulary").read_text() == "a\nc\nb\nd\n"


def test_unknown_and_special_ids_are_decoded():
    vocabulary = Vocabulary(["ei@@", "n", "Wort"])
    assert len(vocabulary) == 7
    assert vocabulary.encode("Wort ei@@ n Satz") == [6, 4, 5, UNK]
    assert vocabulary.decode([BOS, 6, PAD, 4, 5, UNK, EOS, 6]) == "Wort ein <unk>"
    assert vocabulary.decode([4, EOS]) == "ei"  # The word is incomplete.
    assert vocabulary.decode([6, 7, 4_000]) == "Wort <unk> <unk>"  # Ids of padding rows.
    assert Vocabulary(["a", "", "", "b"]).encode("b a") == [7, 4]  # An empty line has an id.
    assert [padded_size(size, 8) for size in (32_317, 32_320, 1)] == [32_320, 32_320, 8]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb 12\nc\n", "vocab:2: expected one subword per line, without a count, got 'b 12'"),
        (b"a\nb\na\n", "vocab:3: 'a' is already in line 1"),
        (b"a\nb\n\xff\n", "vocab:3: not UTF-8"),
    ],
)
def test_an_invalid_vocabulary_is_rejected_with_its_line(tmp_path, content, message):
    (tmp_path / "vocab").write_bytes(content)
    with pytest.raises(ValueError, match="vocab:") as caught:
        Vocabulary.read(tmp_path / "vocab")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="No such file"):
        Vocabulary.read(tmp_path / "nothing")
