from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.common.quantiles import inverse_normal, log
from workloads.common.randomness import (
    CHUNK,
    Permutation,
    bits,
    fold,
    integers,
    normal,
    stream,
    uniform,
)

MASK = (1 << 64) - 1


def chi_square_is_usual(counts: np.ndarray, expected: float) -> bool:
    """Check whether χ² is within five standard deviations of its mean.

    With d degrees of freedom, the mean is d and the variance 2 d.
    """
    freedom = counts.size - 1
    value = float(((counts - expected) ** 2 / expected).sum())
    return abs(value - freedom) < 5 * (2 * freedom) ** 0.5


def test_first_values_equal_those_of_the_published_splitmix64():
    # The reference C code (Vigna, splitmix64.c) prints these values for the seed 1234567.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert bits(1234567, np.arange(4)).tolist() == published


@given(st.integers(0, MASK), st.lists(st.integers(0, 2**40), min_size=1, max_size=4))
def test_scalars_arrays_and_prefixes_agree(key, coordinates):
    expected = fold(key, *coordinates)
    assert bits(key, *coordinates) == expected
    assert bits(key, *coordinates[:-1], np.array([coordinates[-1]])).tolist() == [int(expected)]
    assert bits(key, *[np.array([c]) for c in coordinates]).tolist() == [int(expected)]
    assert bits(fold(key, *coordinates[:-1]), coordinates[-1]) == expected


def test_broadcast_and_chunks_change_nothing():
    rows, columns = np.arange(37)[:, None], np.arange(CHUNK + 5)
    table = bits(3, rows, columns)
    assert table.shape == (37, CHUNK + 5)
    assert table[31, CHUNK + 2] == fold(3, 31, CHUNK + 2)
    assert (table[5] == bits(3, 5, columns)).all()
    assert (bits(3, columns.astype(np.int32)) == bits(3, columns)).all()
    assert bits(3, np.arange(0)).shape == (0,)


def test_streams_differ_by_seed_label_and_coordinate():
    keys = {
        int(stream(seed, label, epoch))
        for seed in range(20)
        for label in ("a", "b", "ab")
        for epoch in range(20)
    }
    assert len(keys) == 20 * 3 * 20


@pytest.mark.parametrize("n", [1, 2, 7, 1000, 26_744, 1 << 32])
def test_integers_cover_the_range_uniformly(n):
    drawn = integers(bits(stream(1, "n"), np.arange(400_000)), n)
    assert drawn.dtype == np.int64
    assert 0 <= drawn.min() <= drawn.max() < n
    cells = min(n, 1000)
    counts = np.bincount(drawn * cells // n, minlength=cells)
    shares = np.diff((np.arange(cells + 1) * n + cells - 1) // cells) / n
    assert (
        cells == 1
        or abs(((counts - 4e5 * shares) ** 2 / (4e5 * shares)).sum() - cells)
        < 5 * (2 * cells) ** 0.5
    )


def test_every_bit_is_fair_and_neighbors_are_independent():
    random = bits(stream(5, "x"), np.arange(100_000))
    for bit in range(64):
        ones = int(((random >> np.uint64(bit)) & np.uint64(1)).sum())
        assert abs(ones - 50_000) < 5 * 158
    a = uniform(random)
    assert abs(np.corrcoef(a[1:], a[:-1])[0, 1]) < 5 / 100_000**0.5
    pairs = (a[::2] * 30).astype(int) * 30 + (a[1::2] * 30).astype(int)
    assert chi_square_is_usual(np.bincount(pairs, minlength=900), 50_000 / 900)


def test_uniform_reaches_both_ends_and_stays_below_one():
    assert uniform(np.array([0, MASK], np.uint64)).tolist() == [0.0, 1 - 2.0**-53]


def test_normal_has_the_moments_and_tails_of_the_distribution():
    draws = normal(bits(stream(6, "z"), np.arange(1_000_000)), np.float64)
    assert abs(draws.mean()) < 5e-3
    assert abs(draws.var() - 1) < 7e-3
    assert abs((draws**4).mean() - 3) < 0.05
    for size in (1.0, 2.0, 3.0, 4.0):
        expected = 2 * NormalDist().cdf(-size) * 1e6
        assert abs(int((np.abs(draws) > size).sum()) - expected) < 5 * expected**0.5 + 1
    extremes = normal(np.array([0, MASK], np.uint64), np.float64)
    assert np.isfinite(extremes).all()
    assert extremes[0] == -extremes[1]
    small = normal(np.zeros((2, 3), np.uint64))
    assert (small.dtype, small.shape) == (np.float32, (2, 3))


def test_inverse_normal_agrees_with_the_standard_library():
    probability = np.concatenate([np.linspace(1e-6, 1 - 1e-6, 5001), 2.0 ** -np.arange(1.0, 500.0)])
    expected = np.array([NormalDist().inv_cdf(p) for p in probability.tolist()])
    assert np.abs(inverse_normal(probability) - expected).max() < 1e-13


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_log_agrees_with_numpy(x):
    assert abs(float(log(x)) - float(np.log(x))) <= 4e-16 * max(1.0, abs(float(np.log(x))))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 24, 25, 26, 100, 101, 9_999, 10_001, 410_765])
def test_a_permutation_is_a_bijection(size):
    images = Permutation(stream(1, "order"), size)(np.arange(size))
    assert images.dtype == np.int64
    assert (np.bincount(images, minlength=size) == 1).all()


@given(st.integers(1, 3000), st.integers(0, MASK))
def test_a_permutation_is_a_bijection_for_any_key(size, key):
    assert sorted(Permutation(key, size)(np.arange(size)).tolist()) == list(range(size))


def test_a_permutation_looks_random():
    size = 1_000_000
    images = Permutation(stream(2, "order"), size)(np.arange(size))
    assert abs(np.corrcoef(images, np.arange(size))[0, 1]) < 5 / size**0.5
    steps = np.diff(images) % size
    assert chi_square_is_usual(np.bincount(steps * 500 // size, minlength=500), (size - 1) / 500)
    cell = np.arange(size) * 30 // size * 30 + images * 30 // size
    assert chi_square_is_usual(np.bincount(cell, minlength=900), size / 900)
    # The number of fixed points has a Poisson distribution with mean 1.
    assert abs(int((images == np.arange(size)).sum()) - 1) < 8
    # Each of five consecutive images is the smallest with equal probability.
    assert chi_square_is_usual(
        np.bincount(images.reshape(-1, 5).argmin(axis=1), minlength=5), size / 25
    )


def test_a_permutation_is_evaluated_anywhere_and_depends_on_its_key():
    permutation = Permutation(3, 99_308_850)
    at = np.array([[0, 99_308_849], [17, 50_000_000]])
    assert permutation(at).shape == (2, 2)
    assert permutation(at[1])[0] == permutation(17)
    assert (permutation(at) != Permutation(4, 99_308_850)(at)).all()
    many = permutation(np.arange(90_000_000, 90_500_000))
    assert np.unique(many).size == 500_000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bits(1, np.arange(3.0)), "integers"),
        *(
            (lambda n=n: integers(bits(1, np.arange(3)), n), "n: expected 1")
            for n in (0, -1, (1 << 32) + 1)
        ),
        *((lambda at=at: Permutation(1, 10)(at), "positions") for at in ([-1], [10], [0, 10])),
        *(
            (lambda size=size: Permutation(1, size), "size of a permutation: expected 1")
            for size in (0, -3, 1 << 49)
        ),
    ],
)
def test_arguments_out_of_range_are_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
