import heapq
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.helpers import examples
from workloads.ncf.metrics import hit_rate, hits


def slow_hit(logits: list[float], items: list[int], top: int = 10) -> bool:
    """Return whether the test item is a hit, by the definition.

    The rank is among distinct candidates, and ties count against the test item.
    """
    score = logits[0]
    if math.isnan(score):
        return False
    seen = {items[0]}
    rank = 1
    for value, item in zip(logits[1:], items[1:], strict=True):
        if item in seen:
            continue
        seen.add(item)
        if math.isnan(value) or value >= score:
            rank += 1
    return rank <= top


@st.composite
def candidates(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Draw few items (many repeats) and few values (many ties), sometimes NaN or infinity."""
    users, width, kinds = (
        draw(st.integers(1, 6)),
        draw(st.integers(2, 60)),
        draw(st.integers(1, 40)),
    )
    items = draw(hnp.arrays(np.int32, (users, width), elements=st.integers(0, kinds)))
    items[:, 1:].sort(axis=1)
    values = st.sampled_from(
        [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, float("nan"), float("inf"), float("-inf")]
    )
    few = draw(st.booleans())
    number = st.sampled_from([0.0, 1.0]) if few else st.one_of(values, st.floats(-9, 9, width=32))
    return draw(hnp.arrays(np.float32, (users, width), elements=number)), items


@examples(500)
@given(candidates(), st.integers(1, 12))
def test_hits_equal_the_slow_version(rows, top):
    logits, items = rows
    expected = [
        slow_hit(row.tolist(), item.tolist(), top) for row, item in zip(logits, items, strict=True)
    ]
    assert hits(logits, items, top).tolist() == expected


def test_without_ties_it_is_the_references_ranking():
    """Compare with the reference, which ranks a dictionary with a score for every item."""
    generator = np.random.default_rng(1)
    for _ in range(200):
        scores = generator.permutation(300).astype(np.float32)
        test, drawn = (
            int(generator.choice(np.argsort(-scores)[:20])),
            generator.integers(0, 300, 200),
        )
        by_item = {item: scores[item] for item in [*drawn.tolist(), test]}
        items = np.array([[test, *np.sort(drawn)]], np.int32)
        best = heapq.nlargest(10, by_item, key=by_item.__getitem__)
        assert hits(scores[items], items).tolist() == [test in best]


NAN = float("nan")


@pytest.mark.parametrize(
    ("test", "negatives", "items", "hit"),
    [
        (1.0, [2.0] * 9, range(9, 18), True),  # tenth
        (1.0, [2.0] * 10, range(9, 19), False),  # eleventh
        (1.0, [1.0] * 10, range(9, 19), False),  # ties count as misses
        (1.0, [2.0] * 20, [9] * 20, True),  # the same item, twenty times
        (1.0, [1.0] * 20, [7] * 20, True),  # copies of the test item
        (1.0, [NAN] * 10, range(9, 19), False),
        (NAN, [0.0], [9], False),  # NaN is a miss even among few candidates
        (0.0, [0.0] * 999, range(9, 1008), False),  # a constant predictor
    ],
)
def test_ranking_rules(test, negatives, items, hit):
    found = hits(np.array([[test, *negatives]], np.float32), np.array([[7, *items]], np.int32))
    assert found.tolist() == [hit]


def test_hit_rate():
    assert hit_rate(np.array([True, False, False, True])) == 0.5
    with pytest.raises(ValueError, match="no user"):
        hit_rate(np.array([], bool))
