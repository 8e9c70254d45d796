"""Plans of batches: every sample once, in shapes of its bucket, the same for everybody, another in
each epoch.
"""

import numpy as np
import pytest

from workloads.common.batch_plan import BatchPlan, Bucket, buckets_by_samples, buckets_by_tokens


def batches(plan):
    return [plan.batch(step) for step in range(len(plan))]


def plan_of(seed, epoch, every=False):
    """Two buckets of 2,000 samples each."""
    return BatchPlan(
        np.repeat([5, 12], 2_000), buckets_by_samples([8, 16], 20, 4), seed, epoch, every
    )


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("other", [(7, 1), (8, 0)])
def test_each_epoch_and_each_seed_has_an_order_of_its_own(other, every):
    """Of buckets among batches, of samples within a bucket, and of who stands with whom in a batch."""
    one, other = batches(plan_of(7, 0, every)), batches(plan_of(*other, every))
    edges = [[bucket.edge for bucket, _ in plan] for plan in (one, other)]
    assert edges[0] not in (
        edges[1],
        sorted(edges[0]),
        sorted(edges[0], reverse=True),
    ), "the order of batches"
    assert sorted(edges[0]) == sorted(edges[1])
    together = [{frozenset(samples.tolist()) for _, samples in plan} for plan in (one, other)]
    assert not together[0] & together[1], "who stands with whom"


def test_buckets_of_equal_size_are_not_ordered_alike():
    """A bucket's samples are numbered one after the other here: the order of one tells nothing of
    the other's.
    """
    found = {8: set(), 16: set()}
    for bucket, samples in batches(plan_of(7, 0)):
        found[bucket.edge].add(tuple(sorted(samples % 2_000)))
    assert not found[8] & found[16]


def test_samples_longer_than_any_bucket_are_left_out():
    plan = BatchPlan(np.array([3, 4, 7, 8]), (Bucket(4, 2), Bucket(8, 2)), 1, 0)
    assert plan.samples_left_out == 0
    assert BatchPlan(np.array([9, 9]), (Bucket(8, 1),), 1, 0).samples_left_out == 2


def test_a_batch_of_tokens_never_has_more_with_padding_and_is_shared_equally():
    for bucket in buckets_by_tokens(range(5, 64, 7), 1_000, 3):
        assert bucket.edge * bucket.batch_samples <= 1_000
        assert bucket.batch_samples % 3 == 0
        assert bucket.edge * (bucket.batch_samples + 3) > 1_000


def test_what_replicas_cannot_share_is_refused():
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
