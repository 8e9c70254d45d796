"""Seek points of prepared data: made once, beside the data, used where they are, and without any effect on pixels."""

import os
import shutil

import numpy as np
import pytest

from tests.helpers import suite_here
from tests.workloads.resnet50 import synthetic_images as synthetic
from workloads.common import manifest as manifests
from workloads.common.images import index, seek
from workloads.common.images.batches.labelled import ImageNetData
from workloads.common.images.counts import IMAGENET
from workloads.common.images.seek import prepared as stored


@pytest.fixture
def small(monkeypatch):
    """The synthetic images count as large."""
    monkeypatch.setattr(stored, "LEAST_PIXELS", 0)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return synthetic.write(tmp_path_factory.mktemp("original images"))


def prepare(original, folder, **options):
    dataset = synthetic.Folders()
    for name, value in options.items():
        setattr(dataset, name, value)
    return folder, dataset.prepare(original, folder)


def train(folder, **options):
    """Arrays of two epochs, and how many excerpts were decoded for them."""
    data = ImageNetData(
        synthetic.settings(folder, **options), IMAGENET.read(folder), synthetic.place(0, range(1), 1), 3
    )
    arrays = [array.copy() for step in data.train(0, 10) for batch in step for array in batch.arrays.values()]
    data.close()
    return arrays


def facts(images, number):
    """Path, bytes and size of an image."""
    return images.path(number), int(images.bytes[number]), int(images.width[number]), int(images.height[number])


def read(folder):
    """The index of the training images, and their seek points."""
    manifest = manifests.read(folder)
    images = index.read(folder, "train", index.root(folder, manifest), 60)
    return images, seek.read_points(folder, manifest, 60)


def counted(monkeypatch):
    """A list that grows with every crop: whether an excerpt was of use."""
    used = []
    cut_excerpt = seek.cut_excerpt

    def noted(*given):
        excerpt = cut_excerpt(*given)
        used.append(excerpt is not None)
        return excerpt

    monkeypatch.setattr(seek, "cut_excerpt", noted)
    return used


@pytest.mark.parametrize("decode", ["exact", "scaled"])
def test_batches_and_fingerprint_are_the_same_with_and_without(original, tmp_path, small, monkeypatch, decode):
    with_points, lines = prepare(original, tmp_path / "with")
    assert "seek points of 60 of 60 training images" in lines[-1]
    without, lines = prepare(original, tmp_path / "without", seek_points=False)
    assert not any("seek" in line for line in lines)
    assert not (without / "seek").exists()
    assert len({manifests.read(folder).fingerprint for folder in (with_points, without)}) == 1
    used = counted(monkeypatch)
    one, other = train(with_points, decode=decode), train(without, decode=decode)
    assert sum(used) > 10
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_preparing_again_adds_them(original, tmp_path, small):
    folder, _ = prepare(original, tmp_path / "p", seek_points=False)
    _, lines = prepare(original, folder)
    assert "already prepared" in lines[0]
    assert "seek points of 60" in lines[1]
    made = (folder / "seek" / "records.bin").stat().st_mtime_ns
    assert prepare(original, folder)[1] == lines[:1]
    assert (folder / "seek" / "records.bin").stat().st_mtime_ns == made


def test_those_of_other_data_or_of_another_version_are_not_used_and_made_anew(original, tmp_path, small, monkeypatch):
    folder, _ = prepare(original, tmp_path / "p")
    monkeypatch.setattr(stored, "VERSION", 2)
    manifest = manifests.read(folder)
    assert seek.read_points(folder, manifest, 60) is None
    assert "seek points of 60" in prepare(original, folder)[1][-1]
    assert seek.read_points(folder, manifest, 60) is not None


def test_a_folder_that_cannot_be_written_stays_usable(original, tmp_path, small, monkeypatch):
    folder, _ = prepare(original, tmp_path / "p", seek_points=False)

    def refuse(*given, **options):
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(manifests.tempfile, "mkdtemp", refuse)
    lines = prepare(original, folder)[1]
    assert lines[1] == f"notice: dummy: no seek points ({folder}: Permission denied)"
    assert train(folder)


def test_images_of_other_kinds_have_none_and_are_decoded_as_ever(original, tmp_path, small):
    source = shutil.copytree(original, tmp_path / "images")
    from PIL import Image

    for path in sorted((source / "train").rglob("*.JPEG"))[:7]:
        with Image.open(path) as image:
            image.save(path, "JPEG", quality=80, progressive=True)
    folder, lines = prepare(source, tmp_path / "p")
    assert "seek points of 53 of 60 training images" in lines[-1]
    _, points = read(folder)
    assert sum(points.record(number) is None for number in range(60)) == 7
    assert len(train(folder)) == 20


def test_many_images_are_shared_by_processes_and_progress_is_said(original, tmp_path, small, monkeypatch, capsys):
    one = prepare(original, tmp_path / "one")[0]
    monkeypatch.setattr(stored, "WORTH_PROCESSES", 1)
    monkeypatch.setattr(stored, "IMAGES_PER_TASK", 7)
    monkeypatch.setattr(stored, "SECONDS_BETWEEN_LINES", -1.0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    two = prepare(original, tmp_path / "two")[0]
    for name in ("ends.npy", "records.bin"):
        assert (one / "seek" / name).read_bytes() == (two / "seek" / name).read_bytes()
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("seek points: 7 of 60 images, about ")
    assert len(said) == 9


def test_damaged_files_are_named(original, tmp_path, small):
    folder, _ = prepare(original, tmp_path / "p")
    assert any(line.startswith("seek/records.bin:") for line in synthetic.Folders().verify(folder))
    path = folder / "seek" / "records.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"records\.bin: .* bytes instead of"):
        synthetic.Folders().verify(folder)
    with pytest.raises(ValueError, match="seek points of other images; remove it, or prepare the data again"):
        train(folder)
    (folder / "seek" / "ends.npy").write_bytes(b"text")
    with pytest.raises(ValueError, match=r"cannot be read .*; remove it, or prepare the data again"):
        train(folder)
    shutil.rmtree(folder / "seek")
    assert train(folder)


def test_what_a_killed_preparation_left_is_removed_after_a_day(original, tmp_path, small):
    folder, _ = prepare(original, tmp_path / "p", seek_points=False)
    old, new, mine = folder / ".seek.old", folder / ".seek.new", folder / ".seek.mine"
    for path in (old, new, mine):
        path.mkdir()
        (path / "records.bin").touch()
    (mine / "paper.txt").touch()
    for path in (old, mine):
        os.utime(path, (1, 1))
    prepare(original, folder)
    assert (old.exists(), new.exists(), mine.exists()) == (False, True, True)


def test_a_folder_of_somebody_elses_stays(original, tmp_path, small):
    (tmp_path / "p" / "seek").mkdir(parents=True)
    (tmp_path / "p" / "seek" / "paper.txt").write_text("mine")
    prepare(original, tmp_path / "p")
    assert (tmp_path / "p" / "seek" / "paper.txt").read_text() == "mine"


def test_a_damaged_manifest_is_said(original, tmp_path, small):
    folder, _ = prepare(original, tmp_path / "p", seek_points=False)
    (folder / "seek").mkdir()
    (folder / "seek" / "manifest.json").write_text("{")
    lines = prepare(original, folder)[1]
    assert lines[1].startswith("notice: dummy: no seek points (")
    assert "remove" in lines[1]


def test_very_large_images_have_none(original, tmp_path, small, monkeypatch):
    monkeypatch.setattr(stored, "MOST_PIXELS", 8000)
    folder, _ = prepare(original, tmp_path / "p")
    images, points = read(folder)
    large = images.width * images.height > 8000
    assert 5 < np.count_nonzero(large) < 55
    assert not any(points.record(int(number)) for number in np.flatnonzero(large))


def test_records_belong_to_their_images(original, tmp_path, small):
    folder, _ = prepare(original, tmp_path / "p")
    images, points = read(folder)
    for number in (0, 1, 31, 59):
        assert bytes(points.record(number)) == stored.records_of([facts(images, number)])[0]
    path, size, width, height = facts(images, 3)
    wrong = [("", 5, 5, 5), (str(tmp_path / "no.jpg"), size, width, height), (path, size + 1, width, height)]
    assert stored.records_of([*wrong, (path, size, width, height + 1)]) == [b""] * 4


def test_the_command_takes_the_option(original, tmp_path):
    done = suite_here(
        tmp_path, "data", "prepare", "imagenet", "--from", original, "--to", tmp_path / "p", "--no-seek-points"
    )
    assert done.returncode == 0, done.stderr
    wrong = suite_here(tmp_path, "data", "prepare", "ml-20m", "--from", original, "--no-seek-points")
    assert wrong.returncode != 0
    assert wrong.stderr.strip() == "suite data: --no-seek-points means nothing for ml-20m; leave it out"
