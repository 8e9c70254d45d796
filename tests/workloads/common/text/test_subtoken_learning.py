"""`suite data make-vocabulary`: lossless and reproducible vocabularies of the requested size."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.cli import main
from tests.workloads.common.text.synthetic_text import write_lines
from tests.workloads.common.text.test_wmt17 import source
from workloads.common import manifest as manifests
from workloads.common.text import prepared, subtoken_learning
from workloads.common.text.dataset import WMT17_VOCABULARY
from workloads.common.text.subtoken_learning import RESERVED, count_tokens, learn
from workloads.common.text.subtokens import Subtokeniser

__all__ = ["source"]

STEMS = ("lern", "kauf", "bau", "such", "spiel", "hör", "zeig", "frag")
ENDINGS = ("e", "st", "t", "en", "te", "ten", "test", "tet")
COUNTS = Counter(
    {f"{stem}{end}": 3 + 5 * n + m for n, stem in enumerate(STEMS) for m, end in enumerate(ENDINGS)}
)
COUNTS.update({", ": 90, ".": 80, "'\"": 2})
SUBTOKENISER = Subtokeniser(learn(COUNTS, 80))
TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from(" \\_u;0123456789\nlernsthö.,\t\u2028'\"")),
    max_size=40,
)
"""Arbitrary Unicode text, including lone surrogates."""


@given(st.dictionaries(TEXT.filter(bool), st.integers(1, 50), min_size=1, max_size=12))
def test_any_text_gives_a_vocabulary_with_all_its_characters(counts):
    counts = {token.replace("\n", "n"): count for token, count in counts.items()}
    alphabet = set("".join(counts)) | set(subtoken_learning.ESCAPING)
    vocabulary = learn(counts, len(RESERVED) + len(alphabet))
    assert set(vocabulary[2:]) == alphabet
    subtokens = Subtokeniser(vocabulary)
    for token in counts:
        assert subtokens.decode(subtokens.encode(token)) == token


def test_parts_of_longer_subtokens_are_not_counted():
    """Compare with vocabularies computed by hand.

    "ab_" occurs 10 times and "abc_" 6 times. "ab", "b_", and similar parts occur only inside of
    these. A vocabulary with one subtoken fewer contains "ab", which occurs 16 times, in both words.
    """
    counts, characters = {"ab": 10, "abc": 6}, sorted({*"abc", *subtoken_learning.ESCAPING})
    assert learn(counts, 21) == [*RESERVED, "ab_", "abc_", *characters]
    assert learn(counts, 20) == [
        *RESERVED,
        "_",
        "ab",
        *(each for each in characters if each != "_"),
    ]


def test_frequent_text_needs_few_subtokens():
    words = [word for word in COUNTS if word.isalpha()]
    assert SUBTOKENISER.subtokens[2].endswith("_"), "endings are the most frequent substrings"
    characters = sum(COUNTS[word] * (len(word) + 1) for word in words)
    assert sum(COUNTS[word] * len(SUBTOKENISER.encode(word)) for word in words) < 0.45 * characters


@pytest.mark.parametrize("size", [60, 80, 100])
def test_a_vocabulary_has_the_requested_size(size):
    assert len(Subtokeniser(learn(COUNTS, size))) == size


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (10, "characters of the text alone need [0-9]+ subtokens"),
        (5_000, "this text gives at most [0-9,]+ subtokens"),
    ],
)
def test_sizes_that_the_text_does_not_allow_are_rejected(size, words):
    with pytest.raises(ValueError, match=f"--size {size}: .*{words}") as caught:
        learn(COUNTS, size)
    assert "\n" not in str(caught.value)


def test_the_order_of_the_text_does_not_matter():
    assert learn(dict(reversed(COUNTS.items())), 80) == learn(COUNTS, 80)


def test_tokens_are_counted_in_lines_spread_over_a_file(tmp_path, monkeypatch):
    lines = [f"line{number:04}" for number in range(3_000)]
    write_lines(tmp_path / "text", lines)
    assert count_tokens([tmp_path / "text"]) == Counter(lines)
    monkeypatch.setattr("workloads.common.data.lines.CHUNK_BYTES", 1_000)
    monkeypatch.setattr(subtoken_learning, "FILE_BYTES", 7_000)
    every = -(-(tmp_path / "text").stat().st_size // 7_000)
    assert count_tokens([tmp_path / "text"]) == Counter(lines[::every])


def make(*arguments):
    return main(["data", "make-vocabulary", *map(str, arguments)])


@pytest.fixture
def texts(tmp_path):
    """Return the paths of two text files."""
    lines = [" ".join(words) for words in itertools.permutations(sorted(COUNTS)[:6], 3)]
    write_lines(tmp_path / "a.en", lines)
    write_lines(tmp_path / "a.de", [line.upper() for line in lines])
    return [tmp_path / "a.en", tmp_path / "a.de"]


def test_equal_text_gives_equal_files_that_are_never_overwritten(tmp_path, texts, capsys):
    for name in ("one", "two"):
        assert make("wmt17-en-de", "--from", *texts, "--to", tmp_path / name, "--size", 60) == 0
    assert "60 subtokens" in capsys.readouterr().out
    learned = (tmp_path / "one").read_bytes()
    assert (tmp_path / "two").read_bytes() == learned
    assert len(Subtokeniser.read(tmp_path / "one")) == 60
    assert make("wmt17-en-de", "--from", *texts, "--to", tmp_path / "one", "--size", 50) == 2
    assert "already exists. Set a different file with --to" in capsys.readouterr().err
    assert (tmp_path / "one").read_bytes() == learned
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en", "one", "two"]


@pytest.mark.parametrize(
    ("name", "text", "to", "words"),
    [
        ("parallel-text", "a.en", "one", "parallel-text does not use a learned vocabulary"),
        ("wmt17-en-de", "no.en", "one", "no.en: No such file"),
        ("wmt17-en-de", "bad", "one", "bad:2: not UTF-8"),
        ("wmt17-en-de", "a.en", "no/one", "no: no such folder"),
        (
            "wmt17-en-de",
            "",
            "one",
            "no news-commentary-v12.de-en.en, neither as a file nor in an archive",
        ),
    ],
)
def test_invalid_arguments_are_rejected_in_one_line(tmp_path, texts, capsys, name, text, to, words):
    (tmp_path / "bad").write_bytes(b"a\n\xff\n")
    assert make(name, "--from", tmp_path / text, "--to", tmp_path / to) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert words in line
    assert not (tmp_path / to).exists()


def test_data_with_a_learned_vocabulary_are_open(source, tmp_path, capsys):
    (source / WMT17_VOCABULARY).unlink()
    vocabulary, to = tmp_path / "learned.subwords", tmp_path / "to"
    prepare = ["data", "prepare", "wmt17-en-de", "--from", str(source), "--to", str(to)]
    assert main(prepare) == 2
    assert "suite data make-vocabulary" in capsys.readouterr().err
    assert main([*prepare, "--vocabulary", str(vocabulary)]) == 2
    assert (
        "learned.subwords: no such file; to learn a vocabulary, run: suite data make-vocabulary"
        in capsys.readouterr().err
    )
    assert make("wmt17-en-de", "--from", source, "--to", vocabulary, "--size", 45) == 0
    assert main([*prepare, "--vocabulary", str(vocabulary)]) == 0
    manifest = manifests.read(to)
    assert manifest.counts["vocabulary"] == 45
    assert manifest.matches_published is False
    assert manifest.notes[0].startswith(f"md5 differs from the reference's: {WMT17_VOCABULARY}")
    assert (
        prepared.vocabulary_of(to, manifest.options).subtokens
        == Subtokeniser.read(vocabulary).subtokens
    )


def test_a_very_long_word_gives_subtokens_of_limited_length():
    """Check a word with 200 million substrings."""
    found = learn({"ab" * 10_000: 2, "ab": 30}, 21)
    assert 2 < max(map(len, found)) <= subtoken_learning.LONGEST
