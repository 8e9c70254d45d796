"""Which images a step has, and batches without data in every shape that a model pads to."""

import dataclasses

import numpy as np

from tests.workloads.resnet50 import synthetic_images as synthetic
from workloads.api import ArraySpec, Facts
from workloads.common.images.shape_groups import ShapeGroup
from workloads.common.images.sharded import EpochOrder
from workloads.common.images.synthetic import SyntheticData
from workloads.common.images.workload import GREY, ImageOptions, ImageWorkload
from workloads.common.randomness import Permutation, stream

LYING, STANDING = (24, 40), (40, 24)
MODEL = {"padded_shapes": [list(LYING), list(STANDING)]}
G = 8
"""Images of a step."""


def test_steps_follow_the_permutation_of_the_epoch():
    order = EpochOrder(ShapeGroup((8, 8), 50), 12, 7, 3)
    permutation = Permutation(stream(7, "image order", 3), 50)
    assert order.steps == 5
    for step in range(5):
        images, shape = order(step, 4, 12)
        assert shape == (8, 8)
        np.testing.assert_array_equal(images, permutation(np.arange(step * 12 + 4, step * 12 + 12) % 50))


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
