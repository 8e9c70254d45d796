import numpy as np
import pytest

from testing import synthetic_ncf as synthetic
from workloads.ncf.sampling import (
    EVALUATION_NEGATIVES,
    Positives,
    draw,
    evaluation_key,
    evaluation_negatives,
)

USERS, ITEMS = synthetic.USERS, synthetic.ITEMS


@pytest.fixture(scope="module")
def positives() -> Positives:
    return Positives(*synthetic.pairs(), USERS, ITEMS)


def test_contains_equals_the_training_pairs(positives):
    user, item = np.divmod(np.arange(USERS * ITEMS), ITEMS)
    dense = np.zeros((USERS, ITEMS), bool)
    dense[synthetic.pairs()] = True
    assert (positives.contains(user, item) == dense[user, item]).all()


@pytest.mark.parametrize(("threads", "block_bytes"), [(1, 1), (2, 1000), (5, 1000), (5, 1 << 20)])
def test_the_bitmap_does_not_depend_on_blocks_and_threads(
    positives, threads, block_bytes, monkeypatch
):
    monkeypatch.setattr("workloads.ncf.sampling._BLOCK_BYTES", block_bytes)
    assert (Positives(*synthetic.pairs(), USERS, ITEMS, threads).bitmap == positives.bitmap).all()


@pytest.mark.parametrize("items", [1, 7, 8, 9])
def test_users_without_positives_and_odd_widths(items):
    empty = Positives(np.zeros(0, np.int32), np.zeros(0, np.int32), 3, items)
    assert not empty.contains(np.repeat(np.arange(3), items), np.tile(np.arange(items), 3)).any()


def test_a_user_with_every_item_is_refused():
    user, item = np.array([0, 1, 1, 1], np.int32), np.array([0, 0, 1, 2], np.int32)
    with pytest.raises(ValueError, match="user 1 has all 3 items"):
        Positives(user, item, 2, 3)
    Positives(user[:3], item[:3], 2, 3)


def test_draws_are_uniform_over_the_allowed_items(positives):
    # Draw many times for a user: chi-square over the allowed items.
    user = int(np.bincount(synthetic.pairs()[0]).argmax())
    numbers = np.arange(400_000)
    out = np.empty(numbers.size, np.int32)
    draw(evaluation_key(5), numbers, np.full(numbers.size, user), positives, out)
    allowed = np.flatnonzero(~positives.contains(np.full(ITEMS, user), np.arange(ITEMS)))
    counts = np.bincount(out, minlength=ITEMS)
    expected = numbers.size / allowed.size
    assert counts.sum() == counts[allowed].sum()
    freedom = allowed.size - 1
    assert (
        abs(((counts[allowed] - expected) ** 2 / expected).sum() - freedom)
        < 5 * (2 * freedom) ** 0.5
    )


def test_the_only_item_left_is_found():
    positives = Positives(
        np.zeros(499, np.int32), np.delete(np.arange(500, dtype=np.int32), 123), 1, 500
    )
    out = np.empty(100, np.int32)
    draw(1, np.arange(100), np.zeros(100, np.int32), positives, out)
    assert (out == 123).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_evaluation_negatives(positives, threads):
    users = np.arange(USERS)
    table = np.empty((USERS, EVALUATION_NEGATIVES), np.int32)
    evaluation_negatives(1, users, positives, table, threads)
    assert (np.diff(table, axis=1) >= 0).all()
    assert not positives.contains(np.repeat(users, EVALUATION_NEGATIVES), table.reshape(-1)).any()
    # A part of the users has the same negatives as among all users.
    part = np.empty((len(users[1::3]), EVALUATION_NEGATIVES), np.int32)
    evaluation_negatives(1, users[1::3], positives, part)
    assert (part == table[1::3]).all()
    # Items are drawn with replacement, and every item that is not a training positive may occur.
    assert (np.diff(table, axis=1) == 0).any()
    assert np.bincount(table.reshape(-1), minlength=ITEMS).all()
