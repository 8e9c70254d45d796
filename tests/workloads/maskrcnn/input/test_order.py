"""Each replica groups images by orientation separately, as in maskrcnn_benchmark's samplers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import examples
from workloads.common.images.shape_groups import ShapeGroup
from workloads.common.randomness import Permutation, stream
from workloads.maskrcnn.input.order import StreamOrder

LYING, STANDING = (8, 16), (16, 8)


def groups_of(lying):
    """Return groups of images by whether they are in landscape orientation."""
    found = []
    for shape, mine in ((LYING, lying), (STANDING, ~lying)):
        if mine.any():
            found.append(ShapeGroup(shape, int(mine.sum()), np.flatnonzero(mine)))
    return found


def batches_of(order, replica, share):
    return [order(step, replica * share, (replica + 1) * share) for step in range(order.steps)]


@given(
    lying=st.lists(st.booleans(), min_size=12, max_size=200),
    replicas=st.integers(1, 4),
    share=st.integers(1, 3),
    seed=st.integers(0, 2**31),
)
@examples(60)
def test_every_image_in_batches_of_one_orientation_and_steps_are_equal(
    lying, replicas, share, seed
):
    lying = np.array(lying)
    order = StreamOrder(groups_of(lying), share * replicas, replicas, seed, 0)
    seen = []
    for replica in range(replicas):
        for images, shape in batches_of(order, replica, share):
            assert len(images) == share
            assert set(lying[images]) == {shape == LYING}
            seen += images.tolist()
    assert set(seen) == set(range(len(lying)))
    assert len(seen) - len(lying) <= (len(order.groups) + 1) * share * replicas


def original(lying, replicas, replica, share, permutation):
    """Return the batches of a rank's epoch as in the original.

    This is a new implementation of DistributedSampler and GroupedBatchSampler (data/samplers, tag
    v0.5).
    """
    count = -(-len(lying) // replicas)
    padded = [*permutation, *permutation[: count * replicas - len(lying)]]
    mine = padded[replica * count : (replica + 1) * count]
    batches = []
    for kind in (True, False):
        members = [image for image in mine if lying[image] == kind]
        batches += [members[first : first + share] for first in range(0, len(members), share)]
    return sorted(batches, key=lambda batch: mine.index(batch[0]))


def test_batches_and_their_order_are_the_originals():
    lying = np.random.default_rng(5).random(1_003) < 0.7
    groups, replicas, share = groups_of(lying), 4, 3
    order = StreamOrder(groups, replicas * share, replicas, 11, 2)
    joined = np.concatenate([group.images for group in groups])
    permutation = joined[
        Permutation(stream(11, "image order", 2), len(joined))(np.arange(len(joined)))
    ].tolist()
    for replica in range(replicas):
        wanted = original(lying, replicas, replica, share, permutation)
        found = [images.tolist() for images, _ in batches_of(order, replica, share)]
        assert len(wanted) <= order.steps <= len(wanted) + 1
        for batch, ours in zip(wanted, found, strict=False):
            assert (
                ours[: len(batch)] == batch
            )  # the original's last batch of an orientation is shorter


@pytest.mark.parametrize(("share_lying", "replicas"), [(0.74, 8), (0.74, 2)])
def test_replicas_have_independent_orientations_in_a_step(share_lying, replicas):
    lying = np.random.default_rng(1).random(20_000) < share_lying
    order = StreamOrder(groups_of(lying), 4 * replicas, replicas, 3, 0)
    kinds = np.array(
        [[shape == LYING for _, shape in batches_of(order, r, 4)] for r in range(replicas)]
    )
    alike = (kinds.all(axis=0) | ~kinds.any(axis=0)).mean()
    chance = share_lying**replicas + (1 - share_lying) ** replicas
    assert alike == pytest.approx(chance, abs=0.06)
    assert kinds.mean(axis=0).std() == pytest.approx(
        (share_lying * (1 - share_lying) / replicas) ** 0.5, abs=0.03
    )
