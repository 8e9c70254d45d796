"""Sharded images: reduced decoding, order of an epoch, and substitutes of damaged images."""

import dataclasses
import os

import numpy as np
import pytest

from tests.workloads.resnet50 import synthetic_images as synthetic
from workloads.common.images.batches.labelled import ImageNetData
from workloads.common.images.jpeg import BadImage
from workloads.common.images.shape_groups import ShapeGroup
from workloads.common.images.sharded import SUBSTITUTES, EpochOrder, reduction
from workloads.common.randomness import Permutation, stream


@pytest.mark.parametrize(
    ("width", "height", "shape", "expected"),
    [
        (300, 300, (300, 300), 2),
        (299, 300, (300, 300), 1),
        (299, 5000, (300, 300), 1),
        (600, 599, (300, 300), 2),
        (600, 600, (300, 300), 4),
        (1199, 1300, (300, 300), 4),
        (1200, 1200, (300, 300), 8),
        (400, 300, (300, 400), 2),
        (400, 299, (300, 400), 1),
        (399, 300, (300, 400), 1),
        (400, 300, (400, 300), 1),
        (1600, 1200, (300, 400), 8),
        (1200, 1600, (300, 400), 4),
    ],
)
def test_a_reduced_crop_has_at_least_half_of_the_target_size(width, height, shape, expected):
    assert (
        reduction((7, 5, width, height), shape)
        == reduction((7, 5, height, width), shape[::-1])
        == expected
    )


def test_steps_follow_the_permutation_of_the_epoch():
    order = EpochOrder(ShapeGroup((8, 8), 50), 12, 7, 3)
    permutation = Permutation(stream(7, "image order", 3), 50)
    assert order.steps == 5
    for step in range(5):
        images, shape = order(step, 4, 12)
        assert shape == (8, 8)
        np.testing.assert_array_equal(
            images, permutation(np.arange(step * 12 + 4, step * 12 + 12) % 50)
        )


@pytest.fixture
def data(tmp_path):
    folder, dataset_info = synthetic.prepare(tmp_path)
    opened = ImageNetData(
        synthetic.settings(folder, skip_bad=True), dataset_info, synthetic.place(0, range(1), 1), 0
    )
    yield opened
    opened.close()


def test_processes_of_a_host_share_its_cores(data, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(96)))
    # Without sharing, eight processes of a host would start 8 * 96 threads.
    worker = dataclasses.replace(data.worker, world_size=16, local_world_size=8)
    opened = ImageNetData(synthetic.settings(data.folder), data.dataset_info, worker, 0)
    assert opened.pool.threads == 12
    opened.close()


def test_a_damaged_image_is_replaced_by_the_next_image(data, capsys):
    tried = []

    def make(image):
        tried.append(image)
        if image in (58, 59, 0):
            raise BadImage("broken")

    assert data.make_or_replace(58, make) == 1
    assert data.make_or_replace(59, make) == 1
    assert data.make_or_replace(4, make) == 4
    assert tried == [58, 59, 0, 1, 59, 0, 1, 4]
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"left out: {data.images.path(image)}: broken" for image in (58, 59, 0)]


def test_many_consecutive_damaged_images_end_the_run(data):
    tried = []

    def make(image):
        tried.append(image)
        raise BadImage("broken")

    with pytest.raises(BadImage) as raised:
        data.make_or_replace(3, make)
    assert tried == [(3 + number) % 60 for number in range(SUBSTITUTES)]
    assert (
        str(raised.value)
        == f"{data.images.path(tried[-1])}: and 99 images before it cannot be decoded"
    )


def test_finish_completes_the_prefetched_batches(data):
    batches = data.train(0, 3)
    (batch,) = next(batches)
    data.finish()
    waiting = [task for ahead in data._running for _, tasks in ahead._waiting for task in tasks]
    assert waiting
    assert all(task.done() for task in waiting)
    assert np.array_equal(batch.arrays["label"], next(iter(data.train(0, 1)))[0].arrays["label"])
