"""The Transformer's data set: plain corpora, split into subtokens of a published vocabulary."""

import hashlib

import numpy as np
import pytest

from tests.workloads.common.text.synthetic_text import SUBTOKENS, write_subtokens, write_tar
from tests.workloads.common.text.synthetic_translation import (
    Shifted,
    Translation,
    data_of,
    settings,
)
from workloads.common import manifest as manifests
from workloads.common.text import dataset, dataset_info, prepared
from workloads.common.text.dataset import WMT17_VOCABULARY, WMT17EnDe
from workloads.common.text.subtokens import Subtokeniser

LINES = {
    "news-commentary-v12.de-en": [
        ("The theatre.", "Das Theater."),
        ("", "Nichts"),
        ("A\u2028b", " c\xa0 "),
    ],
    "commoncrawl.de-en": [("the wa", "der Wa")] * 40,
    "europarl-v7.de-en": [("the " * 256, "y"), ("the " * 255, "y"), ("last", "Ende")],
    "newstest2013": [("dev one", "dev eins")],
    "newstest2014": [("test one", "Test eins, ä"), ("test _ two", "Test  zwei")],
}
"""Sentence pairs of each corpus. "the" is a single subtoken."""


@pytest.fixture
def source(tmp_path):
    """Return a folder with two corpora in archives, and the rest as files in a subfolder."""
    folder = tmp_path / "from"
    (folder / "below").mkdir(parents=True)
    for corpus, pairs in LINES.items():
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs).encode()
            name = f"{corpus}.{language}"
            if corpus.startswith(("comm", "news-comm")):
                write_tar(folder / f"{name}.tgz", {f"training/{name}": text})
            else:
                (folder / "below" / name).write_bytes(text)
    write_subtokens(folder / WMT17_VOCABULARY)
    return folder


def test_all_lines_except_long_lines_are_kept(source, tmp_path):
    lines = WMT17EnDe().prepare(source, tmp_path / "to")
    assert lines[0].startswith("wmt17-en-de: 45 training pairs")
    assert lines[1] == "notice: dropped training pairs: 1 over 255 subwords"
    subtokens = Subtokeniser(["<pad>_", "<EOS>_", *SUBTOKENS])
    train = prepared.read(tmp_path / "to", "train", 45)
    wanted = [
        pair for corpus in dataset.WMT17_TRAIN for pair in LINES[corpus] if len(pair[0]) < 4 * 256
    ]
    for number, pair in enumerate(wanted):
        for side, text in zip((train.source, train.target), pair, strict=True):
            assert side.sentence(number).tolist() == subtokens.encode(text.strip())
            assert subtokens.decode(side.sentence(number)) == text.strip()
    assert len(train.source.sentence(1)) == 0, "an empty line is a pair too, as in the reference"
    found = dataset_info.load_dataset_info(tmp_path / "to")
    assert (found.sizes["vocabulary"], found.sizes["end"], found.evaluation_samples) == (
        len(SUBTOKENS) + 2,
        1,
        2,
    )
    assert prepared.read_references(tmp_path / "to", 2)[1] == "Test  zwei"
    assert WMT17EnDe().verify(tmp_path / "to")[-3].startswith("wmt17-en-de: sound")


def test_differences_from_the_reference_are_notes(source, tmp_path, monkeypatch):
    WMT17EnDe().prepare(source, tmp_path / "to")
    manifest = manifests.read(tmp_path / "to")
    assert manifest.matches_published is False
    first, second = manifest.notes
    assert (
        first
        == f"md5 differs from the reference's: {WMT17_VOCABULARY}, newstest2014.en, newstest2014.de"
    )
    assert second == "46 training pairs, not 4,590,101"
    monkeypatch.setattr(dataset, "WMT17_PAIRS", 46)
    digest = hashlib.md5((source / WMT17_VOCABULARY).read_bytes()).hexdigest()
    monkeypatch.setattr(dataset, "WMT17_VOCABULARY_MD5", digest)
    for language in ("en", "de"):
        data = (source / "below" / f"newstest2014.{language}").read_bytes()
        monkeypatch.setitem(dataset.NEWSTEST2014_MD5, language, hashlib.md5(data).hexdigest())
    WMT17EnDe().prepare(source, tmp_path / "same")
    assert manifests.read(tmp_path / "same").matches_published is True


@pytest.mark.parametrize("name", [WMT17_VOCABULARY, "below/newstest2014.de"])
def test_a_missing_file_is_rejected_with_its_origin(source, tmp_path, name):
    (source / name).unlink()
    with pytest.raises(
        ValueError, match=r"mlcommons/training, retired_benchmarks/transformer"
    ) as caught:
        WMT17EnDe().prepare(source, tmp_path / "to")
    assert f"no {name.rpartition('/')[2]}, neither as a file nor in an archive" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "below/europarl-v7.de-en.en",
            b"a\n\xe4\nb\n",
            "/europarl-v7.de-en.en:2: not UTF-8 (byte 0xe4)",
        ),
        ("below/europarl-v7.de-en.en", b"a\n", "/europarl-v7.de-en.en has 1 lines, "),
        ("below/newstest2014.en", b"", "/newstest2014.en has 0 lines, "),
        (
            WMT17_VOCABULARY,
            b"'<pad>_'\n'<EOS>_'\nx\n",
            f"/{WMT17_VOCABULARY}:3: 'x' is not a subtoken in quotes",
        ),
        (WMT17_VOCABULARY, b"'\xe4'\n", f"/{WMT17_VOCABULARY}:1: not UTF-8 (byte 0xe4)"),
    ],
)
def test_errors_name_the_users_file(source, tmp_path, name, content, problem):
    (source / name).write_bytes(content)
    with pytest.raises(ValueError, match=r".") as caught:
        WMT17EnDe().prepare(source, tmp_path / "to")
    assert str(caught.value).startswith(str(source))
    assert problem in str(caught.value)
    assert ".text." not in str(caught.value)


def test_a_vocabulary_in_an_archive_is_named_with_the_archive(source, tmp_path):
    (source / WMT17_VOCABULARY).unlink()
    write_tar(source / "v.tgz", {f"vocab/{WMT17_VOCABULARY}": b"x\n"})
    with pytest.raises(
        ValueError, match=rf"/v\.tgz:vocab/{WMT17_VOCABULARY}:1: 'x' is not a subtoken in quotes"
    ):
        WMT17EnDe().prepare(source, tmp_path / "to")


def test_byte_order_marks_do_not_change_the_data(source, tmp_path):
    WMT17EnDe().prepare(source, tmp_path / "plain")
    for name in (
        WMT17_VOCABULARY,
        "below/newstest2014.en",
        "below/newstest2014.de",
        "below/newstest2013.en",
    ):
        path = source / name
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    WMT17EnDe().prepare(source, tmp_path / "marked")
    assert len({manifests.read(tmp_path / name).fingerprint for name in ("plain", "marked")}) == 1


def test_runs_have_the_ids_of_the_vocabulary(source, tmp_path):
    """Check that EOS is 1 and that translations need no detokenizer."""
    WMT17EnDe().prepare(source, tmp_path / "to")
    chosen = settings(tmp_path / "to", batch=4, longest=20, buckets=1, evaluation_batch_size=2)
    workload = Shifted(chosen, Shifted.load_dataset_info(chosen))
    assert workload.end == 1
    (data,) = data_of(workload)
    for (batch,) in data.train(0, 3):
        lengths = batch.arrays["target_length"]
        assert (batch.arrays["label"][np.arange(4), lengths - 1] == 1).all()
        assert (batch.arrays["target"][:, 0] == 0).all()
    assert (workload.dummy_batch(workload.shapes()[0]).arrays["label"][:, -1] == 1).all()
    test = prepared.read(tmp_path / "to", "test", 2)
    ids = [[*test.target.sentence(number).tolist(), 1] for number in range(2)]
    results = {
        "number": np.array([1, 0]), "token_count": np.array([len(ids[1]), len(ids[0])]),
        "token": np.concatenate([ids[1], ids[0]]),
    }  # fmt: skip
    assert workload.translations(results) == ["Test eins, ä", "Test  zwei"]


def test_a_model_that_needs_a_begin_token_is_rejected(source, tmp_path):
    WMT17EnDe().prepare(source, tmp_path / "wmt17-en-de")
    with pytest.raises(
        ValueError, match=r"an id for the beginning of a sentence.*Set workload.dataset=wmt16-en-de"
    ):
        Translation.load_dataset_info(settings(tmp_path / "wmt17-en-de", batch=4, longest=20))
