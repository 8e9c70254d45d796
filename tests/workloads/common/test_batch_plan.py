"""Batch plans: order by seed and epoch, buckets, left-out samples, and equal shares of devices."""

import numpy as np
import pytest

from workloads.common.batch_plan import BatchPlan, Bucket, buckets_by_samples, buckets_by_tokens


def batches(plan):
    return [plan.batch(step) for step in range(len(plan))]


def plan_of(seed, epoch, every=False):
    """Return a plan of two buckets with 2,000 samples each."""
    return BatchPlan(
        np.repeat([5, 12], 2_000), buckets_by_samples([8, 16], 20, 4), seed, epoch, every
    )


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize(("seed", "epoch"), [(7, 1), (8, 0)])
def test_the_order_differs_by_epoch_and_seed(seed, epoch, every):
    """Check the order of the buckets and the samples that are in a batch together."""
    plans = (batches(plan_of(7, 0, every)), batches(plan_of(seed, epoch, every)))
    edges = [[bucket.edge for bucket, _ in plan] for plan in plans]
    assert edges[0] not in (
        edges[1],
        sorted(edges[0]),
        sorted(edges[0], reverse=True),
    ), "the order of batches"
    assert sorted(edges[0]) == sorted(edges[1])
    together = [{frozenset(samples.tolist()) for _, samples in plan} for plan in plans]
    assert not together[0] & together[1], "samples of a batch"


def test_buckets_of_equal_size_have_independent_orders():
    """Check that the order of a bucket does not determine the order of the second bucket.

    The samples of a bucket have consecutive numbers, so equal orders would be visible.
    """
    found = {8: set(), 16: set()}
    for bucket, samples in batches(plan_of(7, 0)):
        found[bucket.edge].add(tuple(sorted(samples % 2_000)))
    assert not found[8] & found[16]


def test_samples_longer_than_any_bucket_are_left_out():
    plan = BatchPlan(np.array([3, 4, 7, 8]), (Bucket(4, 2), Bucket(8, 2)), 1, 0)
    assert plan.samples_left_out == 0
    assert BatchPlan(np.array([9, 9]), (Bucket(8, 1),), 1, 0).samples_left_out == 2


def test_a_batch_by_tokens_includes_padding_and_is_shared_equally():
    for bucket in buckets_by_tokens(range(5, 64, 7), 1_000, 3):
        assert bucket.edge * bucket.batch_samples <= 1_000
        assert bucket.batch_samples % 3 == 0
        assert bucket.edge * (bucket.batch_samples + 3) > 1_000


def test_a_batch_that_devices_cannot_share_equally_is_rejected():
    with pytest.raises(
        ValueError,
        match=r"^batch size 10 cannot be divided equally among 4 devices.*Set batch=global:8$",
    ):
        buckets_by_samples([8], 10, 4)
    with pytest.raises(
        ValueError,
        match=r"^batch size 100 tokens cannot .* of 4 devices.*Set batch=global:256 or more$",
    ):
        buckets_by_tokens([32, 64], 100, 4)
