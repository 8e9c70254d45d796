"""Batches of images: independence of replicas, processes, and threads, and complete evaluation."""

import itertools
import threading
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from tests.helpers import wait_until
from tests.workloads.resnet50 import synthetic_images as synthetic
from workloads.api import DatasetInfo
from workloads.common.images.batches.augment import crop_boxes, flips
from workloads.common.images.batches.labelled import ImageNetData, SyntheticImageData
from workloads.common.images.jpeg import BadImage
from workloads.common.images.resize import central_into, resize_into


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return synthetic.prepare(tmp_path_factory.mktemp("images of tests"))


def opened(prepared, process=0, replicas=range(1), total=1, batch=12, seed=5, **options):
    folder, dataset_info = prepared
    return ImageNetData(
        synthetic.settings(folder, batch, **options),
        dataset_info,
        synthetic.place(process, replicas, total),
        seed,
    )


def trained(prepared, first, stop, **where):
    """Return copies of the local batches' arrays of some steps."""
    data = opened(prepared, **where)
    steps = [
        [{k: v.copy() for k, v in batch.arrays.items()} for batch in step]
        for step in data.train(first, stop)
    ]
    data.close()
    return steps


def joined(steps):
    """Return the arrays of each step, joined over its replicas."""
    return [
        {name: np.concatenate([batch[name] for batch in step]) for name in step[0]}
        for step in steps
    ]


def test_a_batch_contains_decoded_cropped_resized_and_flipped_images(prepared):
    data = opened(prepared)
    # An epoch has 5 steps, so this is step 2 of epoch 1.
    (batch,) = next(iter(data.train(7, 8)))
    assert batch.arrays["image"].shape == (12, 32, 32, 3)
    assert batch.arrays["image"].dtype == np.uint8
    assert batch.arrays["label"].dtype == np.int32
    assert (batch.weight_sum, batch.global_weight_sum, batch.global_samples) == (12.0, 12.0, 12)
    found = set()
    for slot, image in enumerate(batch.arrays["image"]):
        for number in range(60):
            whole = simplejpeg.decode_jpeg(Path(data.images.path(number)).read_bytes())
            size = [whole.shape[1]], [whole.shape[0]]
            left, top, width, height = crop_boxes(5, 1, [number], *size, 0.05)[0]
            expected = np.empty((32, 32, 3), np.uint8)
            resize_into(
                whole[top : top + height, left : left + width],
                expected,
                bool(flips(5, 1, [number])[0]),
            )
            if (expected == image).all():
                found.add(number)
                # Images are sorted by class.
                assert batch.arrays["label"][slot] == number // 12
    assert len(found) == 12
    data.close()


@pytest.mark.parametrize(("threads", "replicas"), [(1, 4), (3, 2)])
def test_threads_replicas_and_the_first_step_do_not_change_the_batches(prepared, threads, replicas):
    alone = joined(trained(prepared, 0, 9, data_threads=1))
    where = {"total": replicas, "data_threads": threads}
    together = trained(prepared, 3, 9, replicas=range(replicas), **where)
    apart = [trained(prepared, 3, 9, replicas=range(r, r + 1), **where) for r in range(replicas)]
    parts = [list(itertools.chain.from_iterable(step)) for step in zip(*apart, strict=True)]
    for expected, *batches in zip(alone[3:], joined(together), joined(parts), strict=True):
        assert all(synthetic.batches_equal(expected, batch) for batch in batches)


def test_batches_stay_valid_while_they_are_referenced_and_memory_is_bounded(prepared):
    data = opened(prepared)
    kept, digests = [], []
    for number, (batch,) in enumerate(data.train(0, 40)):
        if number % 10 == 0:
            kept.append(batch.arrays["image"][3:])
            digests.append(batch.arrays["image"][3:].copy())
    for view, digest in zip(kept, digests, strict=True):
        np.testing.assert_array_equal(view, digest)
    assert data._buffers[12].allocated <= 4 + 3 + 2
    data.close()


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("size", [7, 64])
def test_evaluation_sees_each_of_1001_images_once(replicas, size, images_1001):
    folder, dataset_info, expected = images_1001
    seen, valid = [], 0
    for process in range(replicas):
        data = opened(
            (folder, dataset_info),
            process,
            range(process, process + 1),
            replicas,
            evaluation_batch_size=size,
        )
        for (batch,) in data.evaluation():
            assert batch.arrays["image"].shape == (size, 32, 32, 3)
            valid += int(batch.arrays["valid"].sum())
            assert batch.weight_sum == batch.arrays["valid"].sum()
            assert not batch.arrays["image"][~batch.arrays["valid"]].any()
            seen += [image.tobytes() for image in batch.arrays["image"][batch.arrays["valid"]]]
        data.close()
    assert valid == len(seen) == 1001
    assert seen == expected
    assert len(set(seen)) == 1001


@pytest.fixture(scope="module")
def images_1001(tmp_path_factory):
    """Return (folder, dataset info, contents of the evaluation images in order) of 1,001 images.

    The images are small and all different.
    """
    folder, dataset_info = synthetic.prepare(tmp_path_factory.mktemp("1001"), 10, 1001)
    data = opened((folder, dataset_info))
    expected = []
    for number in range(1001):
        out = np.empty((32, 32, 3), np.uint8)
        content = Path(data.evaluation_images.path(number)).read_bytes()
        central_into(simplejpeg.decode_jpeg(content), out, 37)
        expected.append(out.tobytes())
    data.close()
    return folder, dataset_info, expected


# -- Damage after preparation


@pytest.fixture
def damaged(tmp_path):
    folder, dataset_info = synthetic.prepare(tmp_path)
    return folder, dataset_info, tmp_path / "images"


def truncate(path):
    path.write_bytes(path.read_bytes()[:-200])


def garble(path):
    data = bytearray(path.read_bytes())
    at = data.index(b"\xff\xda") + 30
    data[at : at + 40] = b"\xff\x03" * 20
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage", [truncate, garble, lambda path: path.unlink(), lambda path: path.write_bytes(b"")]
)
def test_a_file_damaged_after_preparation_ends_the_run_with_its_name(damaged, damage):
    folder, dataset_info, images = damaged
    path = images / "train" / "n00000002" / "train_00007.JPEG"
    damage(path)
    before = threading.active_count()
    data = opened((folder, dataset_info))
    # The crop is the whole image, so that any damage is detected.
    data.area_minimum = 1.0
    with pytest.raises(BadImage) as raised:
        list(data.train(0, 5))
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)
    data.close()
    wait_until("the end of the threads", lambda: threading.active_count() <= before)


def test_with_skip_bad_the_next_image_replaces_a_damaged_image_in_training(damaged, capsys):
    folder, dataset_info, images = damaged
    truncate(images / "train" / "n00000002" / "train_00007.JPEG")
    alone = joined(trained((folder, dataset_info), 0, 10, skip_bad=True))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"left out: {images}/train/n00000002/train_00007.JPEG: ")
    distributed = joined(
        trained(
            (folder, dataset_info), 0, 10, skip_bad=True, replicas=range(2), total=2, data_threads=1
        )
    )
    assert all(synthetic.batches_equal(*pair) for pair in zip(alone, distributed, strict=True))
    labels = np.concatenate([step["label"] for step in alone[:5]])
    # The next image, which has the same class, is used twice.
    assert np.bincount(labels).tolist() == [12] * 5


def test_a_damaged_evaluation_image_always_ends_the_run(damaged):
    folder, dataset_info, images = damaged
    path = images / "val" / "n00000001" / "val_00006.JPEG"
    truncate(path)
    data = opened((folder, dataset_info), skip_bad=True)
    with pytest.raises(BadImage, match=r"val_00006\.JPEG: .* when it was prepared"):
        list(data.evaluation())
    data.close()


# -- Options


def test_synthetic_batches_are_not_copied():
    dataset_info = DatasetInfo(1000, 100, {"classes": 10}, "synthetic")
    data = SyntheticImageData(
        synthetic.settings("", 8), dataset_info, synthetic.place(0, range(2), 2), 1
    )
    steps = list(data.train(0, 8))
    assert all(batch.arrays["image"].shape == (4, 32, 32, 3) for step in steps for batch in step)
    assert steps[0][0].arrays["image"] is steps[4][0].arrays["image"]
    assert steps[0][0].arrays["image"] is not steps[0][1].arrays["image"]
    assert (steps[0][0].weight_sum, steps[0][0].global_weight_sum) == (4.0, 8.0)
    assert 100 < steps[0][0].arrays["image"].mean() < 155
    assert 0 <= steps[0][0].arrays["label"].min() <= steps[0][0].arrays["label"].max() < 10
    assert list(data.evaluation()) == []
    data.close()
