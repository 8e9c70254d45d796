"""`suite data prepare imagenet`: layouts, index, rejected or skipped input, and repeated runs."""

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from tests.helpers import suite_here
from tests.workloads.common.images import preparing, synthetic_jpegs
from tests.workloads.resnet50 import synthetic_images as synthetic
from workloads.api.fingerprints import NOT_VERIFIED
from workloads.common import manifest as manifests
from workloads.common.data.published import COUNTS
from workloads.common.images import index
from workloads.common.images.counts import IMAGENET
from workloads.resnet50.dataset import ImageNet


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return synthetic.write(tmp_path_factory.mktemp("original images"), 40, 20)


@pytest.fixture
def source(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "My Images"))


def prepare(source, destination, **options):
    return preparing.prepare(synthetic.Folders(), source, destination, **options)


def rejection(source, tmp_path, **options):
    return preparing.rejection(synthetic.Folders(), source, tmp_path, **options)


def opened(destination, split="train"):
    manifest = manifests.read(destination)
    return index.read(destination, split, Path(manifest.options["images"]), manifest.counts[split])


def test_the_index_describes_the_files(source, tmp_path):
    lines = prepare(source, tmp_path / "p")
    assert "40 training and 20 validation images of 5 classes" in lines[0]
    images = opened(tmp_path / "p")
    names = sorted(str(path.relative_to(source)) for path in (source / "train").rglob("*.JPEG"))
    assert [images.name(i) for i in range(40)] == names
    for number in range(40):
        path = source / names[number]
        height, width, _, _ = simplejpeg.decode_jpeg_header(path.read_bytes())
        assert (images.width[number], images.height[number]) == (width, height)
        assert images.bytes[number] == path.stat().st_size
        assert images.label[number] == int(path.parent.name[1:])
    dataset_info = IMAGENET.read(tmp_path / "p")
    assert (dataset_info.train_samples, dataset_info.evaluation_samples, dataset_info.sizes) == (
        40,
        20,
        {"classes": 5},
    )
    assert dataset_info.notes == ()
    assert (tmp_path / "p" / "classes.txt").read_text().split() == [f"n{i:08d}" for i in range(5)]


def test_preparing_again_changes_nothing(source, tmp_path):
    """Check also that a folder `seek`, which earlier versions wrote, is ignored."""
    prepare(source, tmp_path / "p")
    (tmp_path / "p" / "seek").mkdir()
    (tmp_path / "p" / "seek" / "records.bin").write_bytes(b"x")
    assert not any("seek" in line for line in synthetic.Folders().verify(tmp_path / "p"))
    preparing.check_prepared_once(
        synthetic.Folders(), source, tmp_path / "p", lambda: at(source).unlink()
    )


def test_the_fingerprint_depends_on_the_images_and_not_on_their_location(source, tmp_path):
    prepare(source, tmp_path / "p")
    source.rename(tmp_path / "elsewhere")
    prepare(tmp_path / "elsewhere", tmp_path / "q")
    assert IMAGENET.read(tmp_path / "p").fingerprint == IMAGENET.read(tmp_path / "q").fingerprint
    prepare(tmp_path / "elsewhere", tmp_path / "r", subset=39)
    assert IMAGENET.read(tmp_path / "p").fingerprint != IMAGENET.read(tmp_path / "r").fingerprint


def test_a_subset_is_spread_over_the_classes(source, tmp_path):
    prepare(source, tmp_path / "p", subset=10)
    images = opened(tmp_path / "p")
    assert np.bincount(images.label).tolist() == [2] * 5
    assert len(opened(tmp_path / "p", "val")) == 5
    assert IMAGENET.read(tmp_path / "p").notes == ("subset of 10 training images",)
    prepare(source, tmp_path / "q", subset=2)
    # There is no note on missing classes.
    (note,) = IMAGENET.read(tmp_path / "q").notes
    assert note == "subset of 2 training images"
    assert "--subset 0" in rejection(source, tmp_path, subset=0)


@pytest.mark.parametrize(("share", "same"), [(1.02, True), (1.05, False), (0.95, False)])
def test_imagenet_is_recognized_by_its_counts_and_the_bytes_of_its_images(
    source, tmp_path, monkeypatch, share, same
):
    files = {
        split: [path.stat().st_size for path in (source / split).rglob("*.JPEG")]
        for split in ("train", "val")
    }
    monkeypatch.setitem(COUNTS, "imagenet", {"train": 40, "val": 20, "classes": 5})
    monkeypatch.setattr(
        ImageNet, "archives", {split: int(share * sum(sizes)) for split, sizes in files.items()}
    )
    ImageNet().prepare(source, tmp_path / "p")
    assert manifests.read(tmp_path / "p").matches_published is same
    assert [note.partition(":")[0] for note in IMAGENET.read(tmp_path / "p").notes] == (
        [NOT_VERIFIED] if same else ["content not known to be the published imagenet's"]
    )


# -- A flat validation set


def flatten(source):
    """Move the validation images to val/*.JPEG and return their classes by file name."""
    labels = {}
    for path in sorted((source / "val").rglob("*.JPEG")):
        labels[path.name] = path.parent.name
        path.rename(source / "val" / path.name)
    for folder in (source / "val").iterdir():
        if folder.is_dir():
            folder.rmdir()
    return dict(sorted(labels.items()))


@pytest.mark.parametrize("form", ["pairs", "csv", "in order", "no suffix"])
def test_a_flat_validation_set_is_labeled_by_a_file(source, tmp_path, form):
    prepare(source, tmp_path / "p")
    prepared = opened(tmp_path / "p", "val")
    expected = sorted(zip(prepared.bytes.tolist(), prepared.label.tolist(), strict=True))
    labels = flatten(source)
    if form == "in order":
        (source / "val_labels.txt").write_text("".join(f"{wnid}\n" for wnid in labels.values()))
    elif form == "csv":
        rows = "".join(
            f"{name.removesuffix('.JPEG')},{wnid} 1 2 3 4\n"
            for name, wnid in reversed(labels.items())
        )
        (source / "LOC_val_solution.csv").write_text("ImageId,PredictionString\n" + rows)
    else:
        ending = "" if form == "pairs" else ".JPEG"
        rows = [f"{name.removesuffix(ending)} {wnid}\n" for name, wnid in labels.items()]
        (source / "val" / "val_labels.txt").write_text("".join(rows))
    prepare(source, tmp_path / "q")
    flat = opened(tmp_path / "q", "val")
    assert sorted(zip(flat.bytes.tolist(), flat.label.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (None, "val_labels.txt with lines NAME WNID"),
        (lambda labels: ["n00000001"] * 19, "expected 20 labels for 20 images, got 19"),
        (lambda labels: ["490"] * 20, "expected a WordNet id (n01440764) per line"),
        (
            lambda labels: [f"{name} {wnid}" for name, wnid in [*labels.items()][1:]],
            "val_00000.JPEG (1 of 20 images)",
        ),
        (lambda labels: [*map(" ".join, labels.items()), "lonely"], "line 21: "),
        (lambda labels: [f"{name} n1234" for name in labels], "n1234 (val_labels.txt)"),
    ],
)
def test_invalid_labels_are_rejected(source, tmp_path, rows, problem):
    labels, path = flatten(source), source / "val_labels.txt"
    if rows is not None:
        path.write_text("".join(f"{row}\n" for row in rows(labels)))
    message = rejection(source, tmp_path)
    assert problem in message
    assert path.name in message


LEFT_BY_SYSTEMS = (".ipynb_checkpoints", ".thumbnails", "__MACOSX", "lost+found", "@eaDir")


@pytest.mark.parametrize("hidden", LEFT_BY_SYSTEMS)
@pytest.mark.parametrize("layout", ["folders", "flat"])
def test_hidden_files_and_folders_are_skipped(source, tmp_path, hidden, layout):
    if layout == "flat":
        labels = flatten(source)
        (source / "val_labels.txt").write_text("".join(f"{wnid}\n" for wnid in labels.values()))
    prepare(source, tmp_path / "p")
    for place in (
        "train",
        "val",
        "train/n00000000",
        *(["val/n00000001"] if layout == "folders" else []),
    ):
        folder = source / place / hidden
        folder.mkdir()
        shutil.copy(at(source), folder / "train_00007-checkpoint.JPEG")
        for name in ("._train_00007.JPEG", "Thumbs.db", "desktop.ini", ".DS_Store"):
            (source / place / name).write_bytes(b"x")
    prepare(source, tmp_path / "q")
    found = [manifests.read(tmp_path / name) for name in ("p", "q")]
    assert found[0].fingerprint == found[1].fingerprint
    assert found[1].counts["classes"] == 5


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("header", ["", "ImageId,PredictionString\n"])
def test_a_label_file_may_have_a_byte_order_mark_and_any_line_ends(
    source, tmp_path, encoding, end, header
):
    labels = flatten(source)
    text = header + "".join(f"{name},{wnid}\n" for name, wnid in labels.items())
    (source / "LOC_val_solution.csv").write_bytes(text.replace("\n", end).encode(encoding))
    prepare(source, tmp_path / "p")
    assert manifests.read(tmp_path / "p").counts["val"] == 20


# -- Bad input


def at(source, name="n00000002/train_00007.JPEG", content=None):
    """Return the path of a training image. If `content` is given, it is written to the file."""
    path = source / "train" / name
    if content is not None:
        path.write_bytes(content)
    return path


def wide(height):
    """Return a JPEG that is 20,000 pixels wide."""
    return simplejpeg.encode_jpeg(np.zeros((height, 20_000, 3), np.uint8), 50, "RGB", "420")


def pipe(source):
    at(source).unlink()
    os.mkfifo(at(source))
    return at(source)


def link(source, to):
    path = at(source, "n00000003/link.JPEG")
    path.symlink_to(to)
    return path


def unknown_class(source):
    (source / "val" / "n00000004").rename(source / "val" / "n77777777")
    return source / "val" / "n77777777"


def empty_class(source):
    (source / "train" / "n00000009").mkdir()
    return source / "train" / "n00000009"


BAD = {
    "zero bytes": lambda source: at(source, content=b""),
    "truncated": lambda source: at(source, content=synthetic_jpegs.jpeg(1, 90, 80)[:-300]),
    "text": lambda source: at(source, content=b"This is not a picture.\n"),
    "very wide": lambda source: at(source, content=wide(100)),
    "a pipe": pipe,
    "a link in a circle": lambda source: link(source, "link.JPEG"),
    "a link to nowhere": lambda source: link(source, "nowhere"),
    "no image": lambda source: at(source, "n00000000/notes.txt", b"x"),
    "a class without images": empty_class,
    "a class of val alone": unknown_class,
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_or_folder_is_rejected_or_skipped(source, tmp_path, kind):
    path = BAD[kind](source)
    preparing.check_rejected_or_skipped(synthetic.Folders(), source, tmp_path, f"{path}: ")
    dataset_info = IMAGENET.read(tmp_path / "p")
    assert dataset_info.notes[0] == "1 files or folders that cannot be used were left out"
    assert (dataset_info.train_samples == 39) == (path == at(source))
    assert not any(
        path.name in opened(tmp_path / "p").name(i) for i in range(dataset_info.train_samples)
    )
    is_skipped_class = kind == "a class of val alone"
    assert dataset_info.evaluation_samples == (16 if is_skipped_class else 20)
    assert ("1 of 5 classes have no validation image" in dataset_info.notes) == is_skipped_class


def test_damaged_pixels_are_found_with_full(source, tmp_path):
    data = bytearray(synthetic_jpegs.jpeg(1, 90, 80))
    scan = data.index(b"\xff\xda") + 60
    data[scan : scan + 40] = b"\xff\x03" * 20
    path = at(source, content=bytes(data))
    prepare(source, tmp_path / "p")
    assert f"{path}: damaged JPEG" in rejection(source, tmp_path, full=True)


def test_unusual_files_are_accepted(source, tmp_path):
    """Check an image 95 times as wide as high, a hidden file, and a file next to the classes."""
    at(source, content=wide(210))
    at(source, "n00000000/.DS_Store", b"x")
    at(source, "README.txt", b"x")
    prepare(source, tmp_path / "p")
    assert IMAGENET.read(tmp_path / "p").train_samples == 40


def test_gray_cmyk_and_png_are_accepted_and_counted(source, tmp_path):
    folder = source / "train" / "n00000000"
    image = synthetic_jpegs.pixels(1, 60, 70)
    (folder / "a grey.jpg").write_bytes(synthetic_jpegs.jpeg(1, 60, 70, "Gray"))
    (folder / "cmyk.JPEG").write_bytes(
        synthetic_jpegs.pillow(np.dstack([image, image[:, :, 0]]), "CMYK")
    )
    (folder / "png.JPEG").write_bytes(synthetic_jpegs.pillow(image, kind="PNG"))
    lines = prepare(source, tmp_path / "p", full=True)
    assert lines[1] == "converted to RGB while they are read: 1 CMYK, 1 PNG, 1 grey"
    assert IMAGENET.read(tmp_path / "p").train_samples == 43


@pytest.mark.parametrize("name", ["train", "train/n00000003", "val", "val/n00000001"])
def test_an_unreadable_folder_is_rejected_or_skipped(source, tmp_path, monkeypatch, name):
    """Simulate the error, because tests may run as root, who can read every folder."""
    folder, scandir = source / name, os.scandir

    def denied(path):
        if str(path) == str(folder):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    assert rejection(source, tmp_path).startswith(f"{folder}: cannot be read (Permission denied)")
    if "/" in name:
        prepare(source, tmp_path / "p", skip_bad=True)
        assert (
            IMAGENET.read(tmp_path / "p").notes[0]
            == "1 files or folders that cannot be used were left out"
        )


@pytest.mark.parametrize(
    ("gone", "problem"),
    [
        (".", "no such folder"),
        ("train", "has no folder train, expected train/<wnid>/*.JPEG and val/"),
        ("val", "has no folder val, expected val/<wnid>/*.JPEG, or val/*.JPEG with val_labels.txt"),
        ("train/*", "has no class folders"),
        ("val/*/*", "val/n00000000: class folder without images"),
    ],
)
def test_a_folder_in_a_different_layout_is_rejected(source, tmp_path, gone, problem):
    for path in [source] if gone == "." else list(source.glob(gone)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert problem in rejection(source, tmp_path)


def test_the_command_prepares_and_verifies(source, tmp_path):
    at(source, content=b"")
    root = {"SUITE_DATA_DIR": str(tmp_path / "data")}
    done = suite_here(tmp_path, "data", "prepare", "imagenet", "--from", source, **root)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "train_00007.JPEG: empty (0 bytes)" in done.stderr
    options = ("--skip-bad", "--subset", 20, "--full")
    done = suite_here(tmp_path, "data", "prepare", "imagenet", "--from", source, *options, **root)
    assert done.returncode == 0, done.stderr
    assert "20 training and 10 validation images of 5 classes, decoded" in done.stdout
    done = suite_here(tmp_path, "data", "verify", "imagenet", **root)
    assert done.returncode == 0, done.stderr
