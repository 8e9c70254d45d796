"""Images that are not square: each in batches of the shape most like it, whoever makes them; nothing lost; memory shared."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from tests.workloads.resnet50 import synthetic_images as synthetic
from workloads.api import ArraySpec, Facts
from workloads.common.images.index import ImageIndex
from workloads.common.images.resize import resize_into
from workloads.common.images.shape_groups import ShapeGroup, group_by_shape, with_shape_counts
from workloads.common.images.sharded import EpochOrder, ImageData
from workloads.common.images.synthetic import SyntheticData
from workloads.common.images.workload import GREY, ImageOptions, ImageWorkload
from workloads.common.randomness import Permutation, stream

LYING, STANDING = (24, 40), (40, 24)
MODEL = {"image_shapes": [list(LYING), list(STANDING)]}
G = 8
"""Images of a step."""


class WholeImages(ImageData):
    """Images as they are, resized to the shape of their batch; `number` says which they are."""

    OPTIONS = dataclasses.make_dataclass(
        "Options", [("evaluation_batch_size", int, 5)], bases=(ImageOptions,), frozen=True
    )

    def begin(self, job):
        arrays = {"image": self.take(len(job.images), job.shape), "number": job.images}

        def make(reader, slot):
            image = int(job.images[slot])
            box = (0, 0, int(self.images.width[image]), int(self.images.height[image]))
            resize_into(self.part(reader, image, box, job.shape), arrays["image"][slot])

        return arrays, self.pool.start(make, len(job.images))

    def evaluation_facts(self, images, valid):
        return {"number": images}

    def evaluation_image(self, pixels, out):
        resize_into(pixels, out)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return synthetic.prepare(tmp_path_factory.mktemp("shapes"), 61, 23)


def opened(prepared, replicas=range(1), total=1, **options):
    folder, facts = prepared
    settings = dataclasses.replace(synthetic.settings(folder, G, **options), model=MODEL)
    return WholeImages(settings, facts, synthetic.place(replicas.start, replicas, total), 5)


def steps_of(data, first, stop):
    """Copies of the arrays of each step, joined over the local replicas, whose shapes must be one."""
    steps = []
    for step in data.train(first, stop):
        assert len({batch.arrays["image"].shape for batch in step}) == 1
        steps.append({name: np.concatenate([batch.arrays[name] for batch in step]) for name in step[0].arrays})
    data.close()
    return steps


def expected_pixels(path, shape):
    out = np.empty((*shape, 3), np.uint8)
    resize_into(simplejpeg.decode_jpeg(Path(path).read_bytes()), out)
    return out


def shape_of(index, image):
    return LYING if index.width[image] >= index.height[image] else STANDING


def test_every_image_is_in_batches_of_the_shape_most_like_it(prepared):
    data = opened(prepared)
    index, per_epoch = data.images, data.steps_per_epoch
    lying = {image for image in range(61) if shape_of(index, image) == LYING}
    assert 20 < len(lying) < 45
    assert per_epoch == -(-len(lying) // G) + -(-(61 - len(lying)) // G)
    steps = steps_of(data, 0, 2 * per_epoch)
    orders = []
    for epoch in (steps[:per_epoch], steps[per_epoch:]):
        seen = {LYING: [], STANDING: []}
        for step in epoch:
            shape = step["image"].shape[1:3]
            assert len(step["number"]) == G
            seen[shape] += step["number"].tolist()
            for image, pixels in zip(step["number"], step["image"], strict=True):
                np.testing.assert_array_equal(pixels, expected_pixels(index.path(image), shape))
        for shape, members in ((LYING, lying), (STANDING, set(range(61)) - lying)):
            numbers = seen[shape]
            assert sorted(numbers[: len(members)]) == sorted(members)
            assert numbers[len(members) :] == numbers[: -len(members) % G]  # filled up from the beginning
        shapes = [step["image"].shape[1:3] for step in epoch]
        assert len([pair for pair in itertools.pairwise(shapes) if pair[0] != pair[1]]) >= 2  # they take turns
        orders.append([step["number"].tolist() for step in epoch])
    assert orders[0] != orders[1]


@pytest.mark.parametrize(("threads", "replicas"), [(1, 4), (3, 2)])
def test_threads_replicas_and_the_first_step_change_nothing(prepared, threads, replicas):
    alone = steps_of(opened(prepared, data_threads=1), 0, 12)
    other = steps_of(opened(prepared, range(replicas), replicas, data_threads=threads), 3, 12)
    assert all(synthetic.batches_equal(*pair) for pair in zip(alone[3:], other, strict=True))
    apart = [
        steps_of(opened(prepared, range(r, r + 1), replicas, data_threads=threads), 3, 12) for r in range(replicas)
    ]
    for one, parts in zip(alone[3:], zip(*apart, strict=True), strict=True):
        assert synthetic.batches_equal(one, {name: np.concatenate([part[name] for part in parts]) for name in one})


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_evaluation_sees_each_image_once(prepared, replicas):
    seen, shapes = [], []
    for replica in range(replicas):
        data = opened(prepared, range(replica, replica + 1), replicas)
        for (batch,) in data.evaluation():
            images, valid, shape = batch.arrays["image"], batch.arrays["valid"], batch.arrays["image"].shape[1:3]
            assert len(images) == 5
            assert batch.weight == valid.sum() <= batch.weight_global == batch.samples_global
            assert not images[~valid].any()
            shapes.append(shape)
            for image, pixels in zip(batch.arrays["number"][valid], images[valid], strict=True):
                assert shape_of(data.evaluation_images, image) == shape
                np.testing.assert_array_equal(pixels, expected_pixels(data.evaluation_images.path(image), shape))
                seen.append(int(image))
        data.close()
    assert sorted(seen) == list(range(23))
    assert set(shapes) == {LYING, STANDING}


# -- groups and orders ------------------------------------------------------------------------------------------------


def index_of(width, height):
    empty = np.zeros(0, np.int64)
    width, height = np.array(width, np.int32), np.array(height, np.int32)
    return ImageIndex(Path(), empty.astype(np.uint8), empty, width, width, height, empty)


def test_groups_by_aspect_ratio():
    index = index_of([640, 480, 500, 2000, 101, 100], [480, 640, 500, 100, 100, 101])
    landscape, portrait = group_by_shape(index, [(800, 1344), (1344, 800)])
    assert (landscape.shape, landscape.images.tolist()) == ((800, 1344), [0, 2, 3, 4])  # square ones are in the first
    assert (portrait.shape, portrait.images.tolist(), portrait.count) == ((1344, 800), [1, 5], 2)
    three = group_by_shape(index, [(100, 300), (100, 100), (300, 100)])
    assert [group.images.tolist() for group in three] == [[3], [0, 1, 2, 4, 5]]  # none is empty
    (whole,) = group_by_shape(index, [(224, 224)])
    assert (whole.shape, whole.count, whole.images) == ((224, 224), 6, None)


def test_one_shape_has_the_order_of_the_epoch_alone():
    order = EpochOrder([ShapeGroup((8, 8), 50)], 12, 7, 3)
    permutation = Permutation(stream(7, "image order", 3), 50)
    for step in range(5):
        images, shape = order(step, 4, 12)
        assert shape == (8, 8)
        np.testing.assert_array_equal(images, permutation(np.arange(step * 12 + 4, step * 12 + 12) % 50))


# -- batches without data ---------------------------------------------------------------------------------------------


class Synthetic(SyntheticData):
    BATCHES = 3
    STREAM = "shapes of tests"

    def targets(self, key, count):
        return {"label": np.arange(count)}


def test_synthetic_batches_take_the_shapes_in_turn():
    facts = Facts(1000, 100, {"classes": 10}, "synthetic")
    settings = dataclasses.replace(synthetic.settings("", G), model=MODEL)
    data = Synthetic(settings, facts, synthetic.place(0, range(2), 2), 1)
    steps = list(data.train(0, 8))
    for number, step in enumerate(steps):
        shape = (LYING, STANDING)[number % 2]
        assert [batch.arrays["image"].shape for batch in step] == [(G // 2, *shape, 3)] * 2
    assert len({batch.arrays["image"].tobytes() for step in steps for batch in step}) == 4
    data.close()


class Shaped(ImageWorkload):
    """Any workload on images of two shapes."""

    Options = ImageOptions
    defaults = read_facts = activation_values = learning_rate = initial_weights = open_data = None

    def target_shapes(self, count):
        return {"label": ArraySpec((count,), "int32")}


def test_steps_of_an_epoch_are_those_of_the_data(prepared):
    folder, facts = prepared
    settings = dataclasses.replace(synthetic.settings(folder, G), model=MODEL)
    counted = with_shape_counts(facts, settings)
    data = opened(prepared)
    try:
        assert Shaped(settings, counted).steps_per_epoch == data.steps_per_epoch
    finally:
        data.close()
    counts = [counted.sizes[f"train_{height}x{width}"] for height, width in (LYING, STANDING)]
    assert min(counts) > 0
    assert sum(counts) == facts.train_samples
    assert with_shape_counts(facts, synthetic.settings(folder, G)) == facts  # one shape: the counts say it all


def test_dummy_batches_come_in_every_shape():
    settings = dataclasses.replace(
        synthetic.settings("", G), model=MODEL, devices=2, options={"evaluation_batch_size": 5}
    )
    workload = Shaped(settings, Facts(61, 23, {"classes": 3}, ""))
    training = [workload.dummy_batch(specs) for specs in workload.shapes()]
    evaluation = [workload.dummy_batch(specs) for specs in workload.evaluation_shapes()]
    assert [batch.arrays["image"].shape for batch in training] == [(G // 2, *LYING, 3), (G // 2, *STANDING, 3)]
    assert [batch.arrays["image"].shape for batch in evaluation] == [(5, *LYING, 3), (5, *STANDING, 3)]
    assert [set(batch.arrays) for batch in evaluation] == [{"image"}, {"image"}]
    for batch in training + evaluation:
        assert (batch.arrays["image"] == GREY).all()
        assert (batch.weight, batch.weight_global) == (len(batch.arrays["image"]),) * 2
    assert not training[0].arrays["label"].any()
