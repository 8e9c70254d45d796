"""Data that only have the name of a public data set are open, regardless of their manifest."""

import json

import pytest

from tests.workloads.common.coco import synthetic_coco
from tests.workloads.common.text.synthetic_text import write_processed
from tests.workloads.ncf.test_ncf_dataset import write_source
from tests.workloads.resnet50 import synthetic_images
from workloads.api.fingerprints import FINGERPRINTS, NOT_VERIFIED, PUBLISHED_DATASETS, is_verified
from workloads.common import manifest as manifests
from workloads.common.data.published import COUNTS, differences
from workloads.common.images.counts import COCO2017, IMAGENET
from workloads.common.text import dataset_info as text
from workloads.common.text.dataset import WMT16EnDe
from workloads.ncf.dataset import ML1M
from workloads.ncf.dataset_info import load_dataset_info

PREPARED = {
    "ml-20m": (lambda to: ML1M().prepare(write_source(to.parent), to), load_dataset_info),
    "coco2017": (
        lambda to: synthetic_coco.prepare(synthetic_coco.write(to.parent / "coco"), to),
        COCO2017.read,
    ),
    "imagenet": (lambda to: synthetic_images.prepare(to.parent), IMAGENET.read),
    "wmt16-en-de": (
        lambda to: write_processed(to.parent / "x") or WMT16EnDe().prepare(to.parent / "x", to),
        text.load_dataset_info,
    ),
}
"""For each public name, functions that prepare different data and that read their info."""


def renamed(folder, name, **changes):
    """Change the name in the manifest and remove its notes."""
    path = folder / manifests.NAME
    content = {**json.loads(path.read_text()), "dataset": name, "notes": [], **changes}
    path.write_text(json.dumps(content))
    return content


@pytest.mark.parametrize("name", PREPARED)
@pytest.mark.parametrize("matches", [True, False, None])
def test_different_data_with_a_public_name_have_a_note(tmp_path, name, matches, monkeypatch):
    prepare, read = PREPARED[name]
    folder = tmp_path / "prepared"
    prepare(folder)
    content = renamed(folder, name, matches_published=matches, compared="everything")
    (note,) = read(folder).notes
    assert (
        note == f"counts differ from the published {name}: {differences(name, content['counts'])}"
    )
    assert all(f"{count:,}" in note for count in COUNTS[name].values())
    monkeypatch.setitem(COUNTS, name, {key: content["counts"][key] for key in COUNTS[name]})
    (note,) = read(folder).notes
    if not matches:
        assert note.startswith(f"content not known to be the published {name}'s")
        return
    assert note == NOT_VERIFIED == "data set fingerprint not verified"
    monkeypatch.setitem(FINGERPRINTS, name, {"0" * 64: "another"})
    assert read(folder).notes == (NOT_VERIFIED,)
    monkeypatch.setitem(FINGERPRINTS, name, {content["fingerprint"]: "small"})
    assert read(folder).notes == ()


def test_every_public_name_needs_a_verified_fingerprint():
    assert set(COUNTS) == PUBLISHED_DATASETS
    assert set(FINGERPRINTS) <= PUBLISHED_DATASETS
    assert is_verified("my-ratings", "x")
    assert not is_verified("ml-20m", "x")


def test_missing_counts_and_strings_differ():
    assert differences("ml-100k", {"ratings": "100000", "items": 1_682}) == (
        "no ratings instead of 100,000, no users instead of 943"
    )
    assert differences("my-ratings", {}) == ""
