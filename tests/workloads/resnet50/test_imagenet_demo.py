import hashlib
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest

from workloads.common import manifest as manifests
from workloads.common.images import index
from workloads.common.images.counts import IMAGENET
from workloads.resnet50 import demo

LINEAR_LIMIT = 0.40
SQUARE = 16
"""Side length of the images that the linear classifiers use. With 32 they are not better."""
PENALTIES = (10.0, 100.0, 1000.0, 10000.0)
DRAWN_SHA256 = "6d3b5cc4630465a8e2cce7e0a427eac7f68b89c9df268fe1eb1cb211c2a4019c"
"""Digest of GOLDEN_IMAGES before JPEG compression, equal on every machine."""
GOLDEN_IMAGES = [(split, index) for split in ("train", "val") for index in range(0, 300, 7)]


@pytest.fixture(scope="module")
def prepared(demo_data) -> Path:
    return demo_data("imagenet-demo")


@pytest.fixture(scope="module")
def root(prepared) -> Path:
    return prepared / "images"


def files(root: Path, split: str) -> list[Path]:
    return sorted((root / split).glob("*/*.JPEG"))


def pixels(path: Path) -> np.ndarray:
    """Return the center square, reduced to (SQUARE * SQUARE * 3,) float64 in [0, 1]."""
    image = cv2.imread(str(path))
    height, width = image.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = image[top : top + side, left : left + side]
    return cv2.resize(square, (SQUARE, SQUARE), interpolation=cv2.INTER_AREA).reshape(-1) / 255.0


def load(root: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels (n, SQUARE * SQUARE * 3) and classes (n,)."""
    paths = files(root, split)
    kinds = {name: kind for kind, name in enumerate(sorted({path.parent.name for path in paths}))}
    with ThreadPoolExecutor(2) as pool:
        return np.stack(list(pool.map(pixels, paths))), np.array(
            [kinds[path.parent.name] for path in paths]
        )


def ridge_top1(
    train: np.ndarray, labels: np.ndarray, test: np.ndarray, truth: np.ndarray
) -> list[float]:
    """Return the top-1 accuracy of least squares to one-hot targets, for each of PENALTIES."""
    mean = train.mean(0)
    centred, targets = train - mean, np.eye(10)[labels] - 0.1
    gram, moments = centred.T @ centred, centred.T @ targets
    weights = [
        np.linalg.solve(gram + penalty * np.eye(len(gram)), moments) for penalty in PENALTIES
    ]
    return [float((((test - mean) @ weight).argmax(1) == truth).mean()) for weight in weights]


def test_layout_balanced_classes_and_unique_images(root):
    assert sorted(path.name for path in root.iterdir()) == ["train", "val"]
    assert demo.SIZES == {"train": 4000, "val": 1000}
    digests = set()
    for split, count in demo.SIZES.items():
        per_class = Counter(path.parent.name for path in files(root, split))
        assert per_class == {demo.wnid(kind): count // 10 for kind in range(10)}
        digests |= {hashlib.sha256(path.read_bytes()).digest() for path in files(root, split)}
    assert len(digests) == 5000


@pytest.mark.full  # The golden digest detects changes of the data in every run.
def test_a_linear_classifier_on_raw_pixels_fails(root):
    (train, labels), (test, truth) = load(root, "train"), load(root, "val")
    found = ridge_top1(train, labels, test, truth)
    assert max(found) < LINEAR_LIMIT
    # The classifiers do learn: they are better than chance on new and on training images.
    assert min(found) > 0.15
    assert ridge_top1(train, labels, train, labels)[0] > 0.5


def test_drawn_pixels_have_the_golden_digest():
    digest = hashlib.sha256()
    for split, number in GOLDEN_IMAGES:
        image = demo.draw(split, number)
        digest.update(f"{image.shape}".encode() + image.tobytes())
    assert digest.hexdigest() == DRAWN_SHA256


def test_writing_again_with_one_thread_gives_the_same_bytes(root, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(demo, "SIZES", {"train": 150, "val": 50})
    demo.write_images(tmp_path)
    for split, count in demo.SIZES.items():
        again = files(tmp_path, split)
        assert len(again) == count
        for path in again:
            assert path.read_bytes() == (root / path.relative_to(tmp_path)).read_bytes()


def test_the_demo_is_prepared_as_the_real_data_set(prepared, root):
    dataset_info = IMAGENET.read(prepared)
    assert (dataset_info.train_samples, dataset_info.evaluation_samples, dataset_info.sizes) == (
        4000,
        1000,
        {"classes": 10},
    )
    assert dataset_info.notes == ()
    manifest = manifests.read(prepared)
    assert index.root(prepared, manifest) == root
    for split, count in demo.SIZES.items():
        images = index.read(prepared, split, root, count)
        assert np.bincount(images.label).tolist() == [count // 10] * 10
        for number in range(0, count, 97):
            path = Path(images.path(number))
            assert path.is_relative_to(root)
            assert path.parent.name == demo.wnid(int(images.label[number]))
