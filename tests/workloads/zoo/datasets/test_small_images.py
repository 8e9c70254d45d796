"""CIFAR-10 in both formats, Fashion-MNIST, and batches from arrays. The tests write the files."""

import contextlib
import gzip
import io
import os
import struct
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.catalog.sets import named_sets
from testing import synthetic
from tests.helpers import examples
from tests.workloads.common.networks import synthetic_caffe2_files as python2
from workloads.common import dropout, manifest
from workloads.common import manifest as manifests
from workloads.zoo.datasets import cifar10, fashion_mnist
from workloads.zoo.datasets.cifar10 import Cifar10
from workloads.zoo.datasets.fashion_mnist import FashionMNIST
from workloads.zoo.settings import profile_defaults
from workloads.zoo.workload import Zoo

COUNT = 6
"""Images per file. The published files have 10,000."""
STEMS = [stem for stems in cifar10.FILES.values() for stem in stems]


def planes(stem):
    """Return images (N, 3072) and labels (N,) of a file."""
    numbers = np.random.default_rng(STEMS.index(stem))
    return numbers.integers(0, 256, (COUNT, 3072), np.uint8), numbers.integers(0, 10, COUNT)


def pickled(images, labels):
    """Return a batch as Python 2 wrote it."""
    data = python2.array(images, python2.dtype(b"u1", b"|"))
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    entries = (
        python2.text("data") + data + python2.text("labels") + numbers + python2.text("batch_label")
    )
    return b"\x80\x02}(" + entries + python2.text("training batch 1 of 5") + b"u."


def binary(images, labels):
    """Return records of a label and its image."""
    return np.concatenate([labels[:, None].astype(np.uint8), images], axis=1).tobytes()


def write_archive(path, folder, ending, content, change=None):
    """Write a tar archive of all files. `change` maps names to different contents."""
    with tarfile.open(path, "w:gz") as archive:
        for stem in STEMS:
            data = (change or {}).get(stem, content(*planes(stem)))
            item = tarfile.TarInfo(f"{folder}/{stem}{ending}")
            item.size = len(data)
            archive.addfile(item, io.BytesIO(data))
    return path


PYTHON, BINARY = ("cifar-10-batches-py", "", pickled), ("cifar-10-batches-bin", ".bin", binary)
"""Folder, suffix, and content of the files of an archive."""


@pytest.fixture
def archives(tmp_path):
    """Return archives in the Python and in the binary format."""
    return [write_archive(tmp_path / f"{form[0]}.tar.gz", *form) for form in (PYTHON, BINARY)]


def test_both_forms_of_cifar10_give_the_same_images(archives, tmp_path):
    fingerprints = []
    for number, archive in enumerate(archives):
        destination = tmp_path / f"prepared{number}"
        lines = Cifar10().prepare(archive, destination)
        assert "30 training and 6 validation images of 10 classes" in lines[0]
        assert any("differs from the published archives" in line for line in lines)
        assert Cifar10().verify(destination)[-1 - len(lines[1:])].startswith("cifar10: sound")
        fingerprints.append(manifest.read(destination).fingerprint)
    assert fingerprints[0] == fingerprints[1]
    images = np.load(tmp_path / "prepared0" / "train_image.npy")
    labels = np.load(tmp_path / "prepared0" / "train_label.npy")
    first, wanted = planes("data_batch_1")
    assert images.shape == (30, 32, 32, 3)
    assert (images[2, 5, 7] == first[2].reshape(3, 32, 32)[:, 5, 7]).all()
    assert (labels[:COUNT] == wanted).all()


def test_hidden_members_of_an_archive_are_skipped(tmp_path):
    plain = write_archive(tmp_path / "plain.tar.gz", *PYTHON)
    Cifar10().prepare(plain, tmp_path / "plain")
    hidden = write_archive(tmp_path / "hidden.tar.gz", *PYTHON)
    with tarfile.open(tmp_path / "both.tar.gz", "w:gz") as archive:
        for path in (hidden, plain):
            with tarfile.open(path) as source:
                for item in source.getmembers():
                    content = source.extractfile(item).read()
                    if path == plain:
                        item.name, content = f"__MACOSX/{item.name}", bytes(len(content))
                    archive.addfile(item, io.BytesIO(content))
    Cifar10().prepare(tmp_path / "both.tar.gz", tmp_path / "both")
    assert len({manifests.read(tmp_path / name).fingerprint for name in ("plain", "both")}) == 1


def test_an_unpacked_folder_is_read_and_a_second_preparation_is_skipped(archives, tmp_path):
    with tarfile.open(archives[0]) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    Cifar10().prepare(archives[0], tmp_path / "prepared")
    again = Cifar10().prepare(tmp_path / "unpacked", tmp_path / "prepared")
    assert again == [f"cifar10: already prepared in {tmp_path / 'prepared'}"]


@pytest.mark.parametrize(
    ("form", "content", "message"),
    [
        (PYTHON, b"\x80\x02cposix\nsystem\nU\x04true\x85R.", "names 'posix' 'system'"),
        (PYTHON, b"\x80\x02}.", "`data` does not contain images of 3,072 bytes"),
        (
            PYTHON,
            pickled(planes("test_batch")[0], np.arange(COUNT) + 5),
            "expected labels from 0 to 9",
        ),
        (
            PYTHON,
            pickled(planes("test_batch")[0], np.arange(COUNT - 1)),
            "`labels` does not contain a label for each image",
        ),
        (
            BINARY,
            binary(*planes("test_batch"))[:-1],
            "expected records of 3,073 bytes, got 18,437 bytes",
        ),
    ],
)
def test_a_bad_file_is_rejected_and_executes_no_code(form, content, message, tmp_path):
    path = write_archive(tmp_path / "bad.tar.gz", *form, {"test_batch": content})
    with pytest.raises(ValueError, match=rf"test_batch{form[1]}: .*{message}"):
        Cifar10().prepare(path, tmp_path / "prepared")
    assert not (tmp_path / "prepared").exists()


@pytest.mark.parametrize("content", [b"no archive", b""])
def test_a_file_that_is_not_an_archive_is_rejected(content, tmp_path):
    path = tmp_path / "download"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="download: not a tar archive"):
        Cifar10().prepare(path, tmp_path / "prepared")


def write_fashion(folder, count=12):
    """Write the four files of Debian's package with few images.

    Returns:
        Images and labels of the training split.
    """
    folder.mkdir()
    found = {}
    for split, name in fashion_mnist.SPLITS.items():
        numbers = np.random.default_rng(len(name))
        images, labels = (
            numbers.integers(0, 256, (count, 28, 28), np.uint8),
            np.arange(count, dtype=np.uint8) % 10,
        )
        for kind, array, magic in (("images-idx3", images, 0x803), ("labels-idx1", labels, 0x801)):
            header = struct.pack(f">{1 + array.ndim}I", magic, *array.shape)
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(
                gzip.compress(header + array.tobytes())
            )
        found[split] = images, labels
    return found["train"]


def zoo(folder, dataset, batch=8, **options):
    """Return a workload with prepared arrays."""
    defaults = profile_defaults("reference", {"dataset": dataset, **options})
    settings = synthetic.settings(
        "zoo", profile="reference", global_batch_size=batch, dataset=dataset,
        data_dir=str(folder), model=defaults.model, hyperparameter_set="rmsprop_demo",
        hyperparameters=named_sets(Zoo)["rmsprop_demo"].plain, options=options,
    )  # fmt: skip
    return Zoo(settings, Zoo.load_dataset_info(settings))


def test_batches_of_arrays_use_every_image(tmp_path):
    """Check that an epoch uses every image once, except the images that fill up its last batch.

    Gray images have three equal channels. The keys of dropout depend on epoch and image.
    """
    images, labels = write_fashion(tmp_path / "source")
    FashionMNIST().prepare(tmp_path / "source", tmp_path / "prepared")
    workload = zoo(tmp_path / "prepared", "fashion-mnist", evaluation_batch_size=8)
    assert workload.settings.model["image_size"] == 28
    assert workload.network.classes == 10
    data = workload.open_data(synthetic.place(0, range(1), 1), 3)
    batches = [batch for (batch,) in data.train(0, 4)]
    for batch in batches:
        specs = workload.shapes()[0]
        assert {
            name: (batch.arrays[name].shape, str(batch.arrays[name].dtype)) for name in specs
        } == {name: (spec.shape, spec.dtype) for name, spec in specs.items()}
        for image, label in zip(batch.arrays["image"], batch.arrays["label"], strict=True):
            (number,) = np.flatnonzero((images == image[..., 0]).all((1, 2)))
            assert (image == image[..., :1]).all()
            assert labels[number] == label
    keys = [
        set(np.concatenate([batch.arrays["dropout_key"] for batch in pair]))
        for pair in (batches[:2], batches[2:])
    ]
    assert keys == [set(dropout.keys(3, epoch, np.arange(12)).tolist()) for epoch in (0, 1)]
    seen = [batch for (batch,) in data.evaluation()]
    assert [int(batch.arrays["valid"].sum()) for batch in seen] == [8, 4]
    data.close()


@examples(60)
@given(position=st.integers(0, 200), byte=st.integers(0, 255))
def test_a_damaged_archive_is_rejected_or_read(tmp_path_factory, position, byte):
    """Check damage in the header, the data, and the checksum of a gzip file."""
    folder = tmp_path_factory.mktemp("damaged") / "fashion"
    write_fashion(folder, count=2)
    path = folder / "train-labels-idx1-ubyte.gz"
    content = bytearray(path.read_bytes())
    content[position % len(content)] ^= byte
    path.write_bytes(content)
    with contextlib.suppress(ValueError):
        assert len(fashion_mnist.read_idx(path, fashion_mnist.LABELS_MAGIC)) == 2


def test_pipes_and_files_that_unpack_to_too_many_bytes_are_rejected(tmp_path):
    write_fashion(tmp_path / "fashion")
    images = tmp_path / "fashion" / "train-images-idx3-ubyte.gz"
    images.write_bytes(gzip.compress(bytes(fashion_mnist.BYTES_MAXIMUM + 1)))
    with pytest.raises(ValueError, match="not an IDX file"):
        FashionMNIST().prepare(tmp_path / "fashion", tmp_path / "to")
    images.unlink()
    (tmp_path / "cifar").mkdir()
    for pipe in (images, tmp_path / "cifar" / "data_batch_1"):
        os.mkfifo(pipe)
    with pytest.raises(
        ValueError, match=r"train-images-idx3-ubyte\.gz: cannot be read .*not a regular file"
    ):
        FashionMNIST().prepare(tmp_path / "fashion", tmp_path / "to")
    with pytest.raises(ValueError, match=r"data_batch_1: not a regular file"):
        Cifar10().prepare(tmp_path / "cifar", tmp_path / "to")
