"""Data sets of sentence pairs: prepared arrays, and input that is rejected in one line."""

import hashlib
import os
import shutil
import tarfile

import numpy as np
import pytest

from suite.cli import main
from tests.workloads.common.images.preparing import check_prepared_once
from tests.workloads.common.text.synthetic_text import (
    SUBWORDS,
    sentences,
    write_lines,
    write_plain,
    write_processed,
    write_tar,
)
from workloads.common import manifest as manifests
from workloads.common.data import lines as text_lines
from workloads.common.text import dataset, dataset_info, prepared, sources
from workloads.common.text.dataset import (
    WMT16_FILES,
    WMT16_REFERENCES,
    WMT16_VOCABULARY,
    PlainText,
    WMT16EnDe,
)
from workloads.common.text.prepared import DropReason
from workloads.common.text.vocabulary import GNMT, SHIFTED, Vocabulary

TRAIN_EN, TRAIN_DE = WMT16_FILES["train", "source"], WMT16_FILES["train", "target"]


@pytest.fixture
def source(tmp_path):
    write_processed(tmp_path / "from")
    return tmp_path / "from"


def rejection(source, tmp_path, kind=WMT16EnDe):
    """Return the one-line message of a rejected preparation, which leaves no files."""
    with pytest.raises(ValueError, match=r".") as caught:
        kind().prepare(source, tmp_path / "to")
    assert not (tmp_path / "to").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_prepared_arrays_contain_every_sentence_of_the_processed_files(source, tmp_path):
    lines = WMT16EnDe().prepare(source, tmp_path / "to")
    assert lines[0].startswith("wmt16-en-de: 60 training pairs")
    vocabulary = Vocabulary.read(tmp_path / "to" / prepared.VOCABULARY)
    assert vocabulary.subwords == tuple(SUBWORDS)
    for split, count in (("train", 60), ("dev", 7), ("test", 9)):
        pairs = prepared.read(tmp_path / "to", split, count)
        for side in prepared.SIDES:
            written = (source / WMT16_FILES[split, side]).read_text().splitlines()
            read = getattr(pairs, side)
            assert read.ids.dtype == np.uint16
            assert [vocabulary.encode(line) for line in written] == [
                read.sentence(n).tolist() for n in range(count)
            ]
    lengths = prepared.read(tmp_path / "to", "train", 60).lengths()
    assert lengths[1].tolist() == [
        len(line.split()) for line in (source / TRAIN_DE).read_text().splitlines()
    ]
    assert prepared.read_references(tmp_path / "to", 9)[3] == "Referenz 3."
    found = dataset_info.load_dataset_info(tmp_path / "to")
    assert (found.train_samples, found.evaluation_samples, found.sizes["vocabulary"]) == (
        60,
        9,
        len(SUBWORDS) + 4,
    )
    of_length, tokens = dataset_info.length_counts(found, 60)
    for longest in range(len(of_length)):
        members = lengths[:, lengths.max(0) == longest]
        assert (of_length[longest], tokens[longest]) == (members.shape[1], members.sum())
    assert WMT16EnDe().verify(tmp_path / "to")[-2].startswith("wmt16-en-de: sound")


def test_chunks_and_processes_do_not_change_the_data(source, tmp_path, monkeypatch):
    WMT16EnDe().prepare(source, tmp_path / "plain")
    monkeypatch.setattr(text_lines, "CHUNK_BYTES", 97)
    monkeypatch.setattr(prepared, "cores", lambda: 1)
    WMT16EnDe().prepare(source, tmp_path / "chunks")
    # Files are larger than a chunk, so that several processes read them.
    monkeypatch.setattr(prepared, "cores", lambda: 2)
    WMT16EnDe().prepare(source, tmp_path / "processes")
    found = {
        manifests.read(tmp_path / name).fingerprint for name in ("plain", "chunks", "processes")
    }
    assert len(found) == 1


def test_files_that_differ_from_the_references_make_runs_open(source, tmp_path, monkeypatch):
    lines = WMT16EnDe().prepare(source, tmp_path / "to")
    assert lines[-1].startswith(
        f"notice: md5 differs from the reference's: {TRAIN_EN}, {TRAIN_DE}, "
    )
    manifest = manifests.read(tmp_path / "to")
    assert manifest.matches_published is False
    assert dataset_info.load_dataset_info(tmp_path / "to").notes == tuple(manifest.notes) != ()
    mine = {
        key: hashlib.md5((source / name).read_bytes()).hexdigest()
        for key, name in WMT16_FILES.items()
    }
    monkeypatch.setattr(dataset, "WMT16_MD5", mine)
    references = hashlib.md5((source / WMT16_REFERENCES).read_bytes()).hexdigest()
    monkeypatch.setitem(dataset.NEWSTEST2014_MD5, "de", references)
    WMT16EnDe().prepare(source, tmp_path / "same")
    same = manifests.read(tmp_path / "same")
    assert (same.matches_published, list(same.notes)) == (True, [])
    assert (
        dataset_info.load_dataset_info(tmp_path / "same")
        .notes[0]
        .startswith("counts differ from the published wmt16-en-de: ")
    )


def test_long_pairs_are_dropped_and_counted(source, tmp_path):
    lines = (source / TRAIN_DE).read_text().splitlines()
    lines[5], lines[50], lines[7] = (
        " ".join(["w1"] * 255),
        " ".join(["w2"] * 900),
        " ".join(["w3"] * 254),
    )
    write_lines(source / TRAIN_DE, lines)
    printed = WMT16EnDe().prepare(source, tmp_path / "to")
    assert "notice: dropped training pairs: 2 over 254 subwords" in printed
    pairs = prepared.read(tmp_path / "to", "train", 58)
    assert len(pairs.target.sentence(6)) == 254
    assert np.load(tmp_path / "to" / prepared.LENGTH_COUNTS)[0, 254] == 1
    vocabulary = Vocabulary(SUBWORDS)
    english = (source / TRAIN_EN).read_text().splitlines()
    assert pairs.source.sentence(5).tolist() == vocabulary.encode(english[6])
    assert pairs.source.sentence(57).tolist() == vocabulary.encode(english[59])


def delete_all(source):
    for path in source.iterdir():
        path.unlink()


def write_broken_archive(source):
    delete_all(source)
    (source / "de-en.tgz").write_bytes(b"\x1f\x8b broken")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (
            lambda source: write_lines(source / TRAIN_DE, sentences(1, 59)),
            f"{TRAIN_EN} has 60 lines, ",
        ),
        (lambda source: write_lines(source / WMT16_REFERENCES, ["a"] * 8), "8 lines, but"),
        (lambda source: (source / WMT16_VOCABULARY).unlink(), f"{WMT16_VOCABULARY}: no such file"),
        (shutil.rmtree, "no such folder"),
        (delete_all, "no europarl-v7.de-en.en, neither as a file nor in an archive"),
        (write_broken_archive, "de-en.tgz: cannot be read"),
    ],
)
def test_inconsistent_and_missing_files_are_rejected(source, tmp_path, damage, problem):
    damage(source)
    assert problem in rejection(source, tmp_path)


@pytest.mark.parametrize(
    ("chunk_bytes", "cores", "line", "problem"),
    [
        *((300, 1, blank, "an empty line") for blank in (b"", b"  ", b"\t")),
        *(
            (*size, b"w1 \xe4 w2", "not UTF-8 (byte 0xe4)")
            for size in ((1 << 22, 1), (64, 1), (64, 2))
        ),
    ],
)
def test_an_empty_or_undecodable_line_is_rejected(
    source, tmp_path, monkeypatch, chunk_bytes, cores, line, problem
):
    monkeypatch.setattr(text_lines, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(prepared, "cores", lambda: cores)
    lines = (source / TRAIN_EN).read_bytes().split(b"\n")
    lines[41] = line
    (source / TRAIN_EN).write_bytes(b"\n".join(lines))
    assert f"{source / TRAIN_EN}:42: {problem}" in rejection(source, tmp_path)


def test_a_vocabulary_that_does_not_fit_the_text_is_rejected(source, tmp_path, monkeypatch):
    monkeypatch.setattr(text_lines, "CHUNK_BYTES", 50)
    monkeypatch.setattr(prepared, "cores", lambda: 1)
    write_lines(source / WMT16_VOCABULARY, [f"x{number}" for number in range(30)] + SUBWORDS[:20])
    line = rejection(source, tmp_path)
    assert f"{source / WMT16_VOCABULARY} does not fit {source / TRAIN_EN}: it lacks " in line
    first = (source / TRAIN_EN).read_text().splitlines()
    number, word = next(
        (n, w) for n, text in enumerate(first, 1) for w in text.split() if w not in SUBWORDS[:20]
    )
    assert f"({word!r} in line {number})" in line


def test_a_few_unknown_subwords_are_counted(source, tmp_path):
    write_lines(source / TRAIN_EN, [*sentences(1, 59), "w1 nie w2"])
    assert "notice: 1 unknown subwords" in WMT16EnDe().prepare(source, tmp_path / "to")


def test_preparing_again_changes_nothing(source, tmp_path):
    check_prepared_once(
        WMT16EnDe(),
        source,
        tmp_path / "to",
        lambda: write_lines(source / TRAIN_EN, sentences(1, 60)),
    )


def test_damaged_files_are_rejected_by_name(source, tmp_path):
    WMT16EnDe().prepare(source, tmp_path / "to")
    path = tmp_path / "to" / "train_target.npy"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(ValueError, match=r"train_target\.npy: .* bytes instead of"):
        WMT16EnDe().verify(tmp_path / "to")
    with pytest.raises(ValueError, match=r"train_target\.npy: cannot be read as a NumPy array"):
        prepared.read(tmp_path / "to", "train", 60)
    with pytest.raises(
        ValueError, match=r"train_source_offsets\.npy: expected int64 \(60,\), got int64 \(61,\)"
    ):
        prepared.read(tmp_path / "to", "train", 59)


def test_sentences_are_framed_with_begin_and_end(source, tmp_path):
    WMT16EnDe().prepare(source, tmp_path / "to")
    side = prepared.read(tmp_path / "to", "train", 60).source
    numbers = np.array([3, 17, 3])
    ids = [side.sentence(number).tolist() for number in numbers]
    rows, lengths = prepared.framed(side, numbers, 24, GNMT, begin=True, end=True)
    assert [row[:n].tolist() for row, n in zip(rows, lengths, strict=True)] == [
        [2, *line, 3] for line in ids
    ]
    assert not any(row[n:].any() for row, n in zip(rows, lengths, strict=True))
    rows, lengths = prepared.framed(side, numbers, 24, SHIFTED, begin=True, end=True)
    assert [row[:n].tolist() for row, n in zip(rows, lengths, strict=True)] == [
        [*line, 3] for line in ids
    ]
    rows, lengths = prepared.framed(side, numbers, 3, GNMT, begin=True, end=True)
    assert rows.tolist() == [[2, line[0], 3] for line in ids]
    assert lengths.tolist() == [3, 3, 3]


def test_plain_text_is_tokenized_and_split_into_subwords(tmp_path):
    write_plain(tmp_path / "from")
    plain = PlainText()
    plain.merges = 30
    assert plain.prepare(tmp_path / "from", tmp_path / "to")[0].startswith(
        "parallel-text: 60 training pairs"
    )
    vocabulary = Vocabulary.read(tmp_path / "to" / prepared.VOCABULARY)
    pairs = prepared.read(tmp_path / "to", "test", 3)
    assert vocabulary.decode(pairs.target.sentence(1)) == "Eine Katze schläft &amp; träumt ."
    assert vocabulary.decode(pairs.source.sentence(0)) == "The dog , it barks ."
    assert prepared.read_references(tmp_path / "to", 3)[1] == "Eine Katze schläft & träumt."


def test_plain_text_with_unequal_numbers_of_lines_or_a_missing_file_is_rejected(tmp_path):
    write_plain(tmp_path / "from")
    write_lines(tmp_path / "from" / "dev.de", ["Eins."])
    assert "has 3 lines, " in rejection(tmp_path / "from", tmp_path, PlainText)
    (tmp_path / "from" / "dev.de").unlink()
    assert "dev.de: no such file. Expected: train.en" in rejection(
        tmp_path / "from", tmp_path, PlainText
    )


def rewrite(folder, encoding, end="\n", languages=("en", "de")):
    """Rewrite the plain text of some languages in an encoding."""
    for path in folder.iterdir():
        if path.suffix[1:] in languages:
            path.write_bytes(path.read_text(encoding="utf-8").replace("\n", end).encode(encoding))


@pytest.mark.parametrize(
    ("encoding", "end"),
    [
        ("utf-8-sig", "\n"),
        ("utf-8", "\r\n"),
        ("utf-8-sig", "\r\n"),
        ("utf-16", "\n"),
        ("utf-16", "\r\n"),
        ("utf-32", "\n"),
    ],
)
@pytest.mark.parametrize("languages", [("en", "de"), ("de",)], ids="".join)
def test_encoding_and_line_ends_of_plain_text_do_not_change_the_data(
    tmp_path, encoding, end, languages
):
    fingerprints = []
    for name in ("plain", "other"):
        write_plain(tmp_path / name)
        if name == "other":
            rewrite(tmp_path / name, encoding, end, languages)
        plain = PlainText()
        plain.merges = 30
        plain.prepare(tmp_path / name, tmp_path / f"{name} to")
        fingerprints.append(manifests.read(tmp_path / f"{name} to").fingerprint)
    assert fingerprints[0] == fingerprints[1]
    assert "\ufeff" not in (tmp_path / "other to" / prepared.REFERENCES).read_text(encoding="utf-8")


def test_byte_order_marks_of_processed_files_do_not_change_the_data(source, tmp_path):
    WMT16EnDe().prepare(source, tmp_path / "plain")
    for path in source.iterdir():
        path.write_bytes(path.read_text(encoding="utf-8").encode("utf-8-sig"))
    WMT16EnDe().prepare(source, tmp_path / "marked")
    assert len({manifests.read(tmp_path / name).fingerprint for name in ("plain", "marked")}) == 1


CYRILLIC, LONG, LOPSIDED = "Кошка спит.", "word " * 81, "word " * 19
NOTHING_LEFT = {
    "empty": ([""] * 3, "all 3 {} pairs were dropped (3 with an empty side)"),
    "blank": (["", "  ", "\t\xa0"], "all 3 {} pairs were dropped (3 with an empty side)"),
    "cyrillic": ([CYRILLIC] * 200, "all 200 {} pairs were dropped (200 not in latin-1)"),
    "one": ([CYRILLIC], "the only {} pair was dropped (1 not in latin-1)"),
    "long": ([LONG] * 2, "all 2 {} pairs were dropped (2 over 80 words)"),
    "lopsided": ([LOPSIDED] * 2, "all 2 {} pairs were dropped "
                 "(2 with one side more than 9 times as long as the other)"),
    "long word": (["x" * 1_001] * 2,
                  "all 2 {} pairs were dropped (2 with a word of over 1,000 characters)"),
    "several": (["", CYRILLIC, CYRILLIC],
                "all 3 {} pairs were dropped (1 with an empty side, 2 not in latin-1)"),
}  # fmt: skip


@pytest.mark.parametrize(("split", "kind"), [("train", "training"), ("dev", "validation")])
@pytest.mark.parametrize("case", NOTHING_LEFT)
@pytest.mark.parametrize("language", ["en", "de"])
def test_a_split_without_remaining_pairs_is_rejected(tmp_path, split, kind, case, language):
    lines, why = NOTHING_LEFT[case]
    source = tmp_path / "from"
    write_plain(source)
    for code in ("en", "de"):
        write_lines(source / f"{split}.{code}", lines if code == language else ["x y"] * len(lines))
    assert (
        rejection(source, tmp_path, PlainText)
        == f"{source}/{split}.en and {source}/{split}.de: no {kind} pair is left:"
        f" {why.format(kind)}"
    )


def test_training_pairs_that_all_have_too_many_subwords_are_rejected(source, tmp_path):
    for name in (TRAIN_EN, TRAIN_DE):
        write_lines(source / name, [" ".join(["w1"] * 255)] * 3)
    assert (
        rejection(source, tmp_path)
        == f"{source / TRAIN_EN} and {source / TRAIN_DE}: no training pair is left: all 3 training"
        " pairs were dropped (3 with too many subwords)"
    )
    write_plain(tmp_path / "plain")
    for name, lines in (
        ("train.en", ["x" * 300, "", "a"]),
        ("train.de", ["y" * 300, "b", CYRILLIC]),
    ):
        write_lines(tmp_path / "plain" / name, lines)
    plain = PlainText()
    plain.merges = 1
    with pytest.raises(
        ValueError, match=r"train\.en and .*train\.de: no training pair is left: all 3 "
    ) as caught:
        plain.prepare(tmp_path / "plain", tmp_path / "to")
    assert str(caught.value).endswith(
        "(1 with an empty side, 1 not in latin-1, 1 with too many subwords)"
    )


@pytest.mark.parametrize(
    "name", [f"{split}.{code}" for split in ("train", "dev", "test") for code in ("en", "de")]
)
@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"], ids=["nothing", "mark"])
def test_an_empty_file_is_rejected_by_name(tmp_path, name, content):
    write_plain(tmp_path / "from")
    (tmp_path / "from" / name).write_bytes(content)
    assert (
        rejection(tmp_path / "from", tmp_path, PlainText)
        == f"{tmp_path / 'from' / name}: no line of text"
    )


@pytest.mark.parametrize("code", ["en", "de"])
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("blank", ["", "   ", "\t"])
def test_an_empty_line_of_the_test_set_is_rejected_with_the_users_file(
    tmp_path, code, number, blank
):
    write_plain(tmp_path / "from")
    path = tmp_path / "from" / f"test.{code}"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[number - 1] = blank
    write_lines(path, lines)
    problem = rejection(tmp_path / "from", tmp_path, PlainText)
    assert problem == f"{path}:{number}: an empty line. A sentence pair needs both sides"


@pytest.mark.parametrize("name", ["train.en", "dev.de", "test.de"])
def test_text_that_is_not_utf8_is_rejected_with_the_users_file(tmp_path, name):
    write_plain(tmp_path / "from")
    path = tmp_path / "from" / name
    lines = path.read_bytes().split(b"\n")
    lines[1] = b"\xe4"
    path.write_bytes(b"\n".join(lines))
    assert rejection(tmp_path / "from", tmp_path, PlainText).startswith(
        f"{path}:2: not UTF-8 (byte 0xe4)"
    )


@pytest.mark.parametrize(
    ("splits", "problem"),
    [
        (
            ("train", "dev", "test"),
            (
                "no training pair is left: the only training pair was dropped (1 over 80 words)."
                " Probable cause: line ends"
            ),
        ),
        (("dev",), "dev.en: line ends are CR alone"),
        (("test",), "test.en: line ends are CR alone"),
    ],
)
def test_line_ends_of_cr_alone_are_rejected_with_a_remedy(tmp_path, splits, problem):
    source = tmp_path / "from"
    write_plain(source)
    for split in splits:
        for code in ("en", "de"):
            path = source / f"{split}.{code}"
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r"))
    message = rejection(source, tmp_path, PlainText)
    assert problem in message
    assert message.endswith(r"tr '\r' '\n' <OLD >NEW")
    (source / "train.de").write_bytes((source / "train.de").read_bytes().replace(b"\r", b"\n"))
    (source / "train.en").write_bytes((source / "train.en").read_bytes().replace(b"\n", b"\r"))
    assert rejection(source, tmp_path, PlainText).startswith(
        f"{source / 'train.en'}: line ends are CR alone"
    )


def test_a_cr_inside_a_line_is_not_a_line_end(tmp_path):
    write_plain(tmp_path / "from")
    path = tmp_path / "from" / "train.en"
    path.write_bytes(path.read_bytes().replace(b"dog sleeps", b"dog\rsleeps"))
    lines = PlainText().prepare(tmp_path / "from", tmp_path / "to")
    assert lines[0].startswith("parallel-text: 60 training pairs")


@pytest.mark.parametrize("lines", [["a b c"] * 5, ["house"]], ids=["characters", "nothing twice"])
def test_text_without_repeated_characters_is_rejected(tmp_path, lines):
    write_plain(tmp_path / "from")
    for code in ("en", "de"):
        write_lines(
            tmp_path / "from" / f"train.{code}",
            lines if code == "en" else [line.upper() for line in lines],
        )
    assert "train.de: no two neighboring characters occur twice" in rejection(
        tmp_path / "from", tmp_path, PlainText
    )


def test_pairs_are_cleaned_as_in_the_reference(tmp_path):
    pairs = [("a b", "c d"), ("", "c"), ("a " * 81, "b " * 81), ("a " * 80, "b " * 80),
             ("a", "b " * 10), ("a", "b " * 9), ("a", "č"), ("ä", "ß"), ("a", "x" * 1_001),
             ("ö" * 1_000, "x" * 600 + "|" + "x" * 600)]  # fmt: skip
    for side, name in enumerate(("source", "target")):
        write_lines(tmp_path / name, [pair[side] for pair in pairs])
    out = [tmp_path / "source.clean", tmp_path / "target.clean"]
    pairs_read, dropped = sources.clean([tmp_path / "source", tmp_path / "target"], out)
    assert pairs_read == 10
    assert dropped == {
        DropReason.EMPTY: 1, DropReason.MANY_WORDS: 1, DropReason.LOPSIDED: 1,
        DropReason.NOT_LATIN1: 1, DropReason.LONG_WORD: 1,
    }  # fmt: skip
    kept = [0, 3, 5, 7, 9]
    assert out[0].read_text().splitlines() == [" ".join(pairs[n][0].split()) for n in kept]
    assert out[1].read_text().splitlines() == [" ".join(pairs[n][1].split()) for n in kept]


def sgm(lines):
    body = "".join(f'<seg id="{n}"> {line} </seg>\n' for n, line in enumerate(lines, 1))
    return f'<srcset setid="x" srclang="any">\n<doc>\n<p>\n{body}</p>\n</doc>\n</srcset>\n'.encode()


def test_the_archives_of_wmt_are_read_in_the_order_of_the_reference(tmp_path):
    source = tmp_path / "from"
    source.mkdir()
    for archive, corpus in (
        ("de-en.tgz", "europarl-v7"),
        ("nc.tgz", "news-commentary-v11"),
        ("cc.tgz", "commoncrawl"),
    ):
        texts = {"en": f"The word of {corpus}.\n", "de": f"The Wort of {corpus}.\n"}
        end = "last line without its end"
        write_tar(
            source / archive,
            {f"training/{corpus}.de-en.{at}": (t * 30 + end).encode() for at, t in texts.items()},
        )
    tests = {
        year: sgm([f"A line of {year}.", "Another\none."]) for year in ("2014", "2015", "2016")
    }
    kinds = ("src.de", "ref.en")
    write_tar(
        source / "dev.tgz",
        {
            f"dev/newstest{year}-deen-{kind}.sgm": text
            for year, text in tests.items()
            for kind in kinds
        },
    )
    wmt = WMT16EnDe()
    wmt.merges = 40
    lines = wmt.prepare(source, tmp_path / "to")
    assert lines[0].startswith("wmt16-en-de: 93 training pairs")
    assert "made by sacremoses " in lines[-1]
    vocabulary = Vocabulary.read(tmp_path / "to" / prepared.VOCABULARY)
    train = prepared.read(tmp_path / "to", "train", 93)
    text = [vocabulary.decode(train.source.sentence(number)) for number in (0, 30, 31, 62)]
    assert text[:2] == ["The word of europarl-v7 .", "last line without its end"]
    assert text[2:] == ["The word of commoncrawl .", "The word of news-commentary-v11 ."]
    assert dataset_info.load_dataset_info(tmp_path / "to").sizes["dev"] == 4
    assert prepared.read_references(tmp_path / "to", 2) == ["A line of 2014.", "Another one."]


def write_wmt16(source, change=None):
    """Write a small archive with all corpora of WMT16.

    `change` maps names of files to different contents.
    """
    corpora = {
        f"{corpus}.{code}": b"A line.\n" * 3
        for corpus in sources.WMT_TRAIN
        for code in ("en", "de")
    }
    tests = {
        f"{year}-deen-{kind}.sgm": sgm(["A line.", "Another."])
        for year in sources.WMT_TESTS
        for kind in ("src.de", "ref.en")
    }
    source.mkdir()
    write_tar(
        source / "all.tgz",
        {f"training/{name}": data for name, data in {**corpora, **tests, **(change or {})}.items()},
    )


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "commoncrawl.de-en.en",
            b"a\n\xe4\n",
            "all.tgz:training/commoncrawl.de-en.en:2: not UTF-8 (byte 0xe4)",
        ),
        ("commoncrawl.de-en.en", b"a\n", "all.tgz:training/commoncrawl.de-en.en has 1 lines, "),
        (
            "newstest2014-deen-ref.en.sgm",
            sgm(["a", " "]),
            "newstest2014-deen-ref.en.sgm: segment 2 is empty",
        ),
        (
            "newstest2014-deen-ref.en.sgm",
            sgm(["a"]),
            "newstest2014-deen-ref.en.sgm has 1 lines, newstest2014-deen-src.de.sgm has 2",
        ),
        (
            "newstest2015-deen-ref.en.sgm",
            sgm(["a"]),
            "newstest2015-deen-ref.en.sgm, newstest2016-deen-ref.en.sgm has 3 lines",
        ),
    ],
)
def test_errors_name_the_file_in_the_archive(tmp_path, name, content, problem):
    write_wmt16(tmp_path / "from", {name: content})
    message = rejection(tmp_path / "from", tmp_path)
    assert problem in message
    assert ".text." not in message


@pytest.mark.parametrize("hidden", [".ipynb_checkpoints", "__MACOSX"])
def test_hidden_corpora_are_skipped(tmp_path, hidden):
    source = tmp_path / "from"
    write_wmt16(source)
    WMT16EnDe().prepare(source, tmp_path / "plain")
    (source / hidden).mkdir()
    (source / hidden / "europarl-v7.de-en.en").write_bytes(b"Hidden.\n" * 3)
    write_tar(
        source / "a.tgz",
        {f"{hidden}/europarl-v7.de-en.en": b"Hidden.\n" * 3, "._europarl-v7.de-en.en": b"\0"},
    )
    write_tar(source / hidden / "a.tgz", {"europarl-v7.de-en.en": b"Hidden.\n" * 3})
    (source / "._all.tgz").write_bytes(b"\0\5\x16\7")
    WMT16EnDe().prepare(source, tmp_path / "hidden")
    assert len({manifests.read(tmp_path / name).fingerprint for name in ("plain", "hidden")}) == 1


def test_the_command_prepares_and_rejects_invalid_options(tmp_path, capsys):
    write_plain(tmp_path / "from")
    prepare = ["data", "prepare", "parallel-text", "--from", str(tmp_path / "from")]
    assert main([*prepare, "--to", str(tmp_path / "to"), "--merges", "20"]) == 0
    assert "60 training pairs" in capsys.readouterr().out
    assert main([*prepare, "--to", str(tmp_path / "other"), "--merges", "0"]) == 2
    assert "--merges 0: expected at least 1" in capsys.readouterr().err


def test_too_large_archives_and_pipes_are_rejected_before_reading(tmp_path):
    source = tmp_path / "from"
    source.mkdir()
    info = tarfile.TarInfo("training/europarl-v7.de-en.en")
    info.size = sources.BYTES_MAXIMUM + 1
    (source / "a.tar").write_bytes(info.tobuf() + bytes(10_240))
    assert "a.tar: cannot be read (europarl-v7.de-en.en has 4,294,967,297 bytes" in rejection(
        source, tmp_path
    )
    (source / "a.tar").unlink()
    os.mkfifo(source / "a.tar")
    assert "not a regular file" in rejection(source, tmp_path)
