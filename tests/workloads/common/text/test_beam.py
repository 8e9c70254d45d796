"""Beam search: equality with plain searches, independence of the batch, and early stopping."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import examples
from tests.workloads.common.text.beam_plain import (
    END,
    RandomModel,
    Rows,
    exhaustive,
    plain_search,
    reference_search,
)
from workloads.api import Batch
from workloads.common.text.beam import Beam, Candidates, search, top


def batch_of(count):
    return Batch({"source": np.zeros((count, 1), np.int32)}, count, count, count)


def found(model, sentences, beam, longest, **rows):
    decoder = Rows(model, sentences, beam.width, **rows)
    result = search(decoder, batch_of(len(sentences)), beam, longest)
    texts = [
        tuple(line[:count].tolist())
        for line, count in zip(result.tokens, result.counts, strict=True)
    ]
    assert all(
        set(line[count:].tolist()) <= {0}
        for line, count in zip(result.tokens, result.counts, strict=True)
    )
    return list(zip(result.scores.tolist(), texts, strict=True)), decoder.steps


class Endless(RandomModel):
    """Model that never predicts the end of a sentence."""

    def next(self, sentence, prefix):
        scores, attention = super().next(sentence, prefix)
        scores[END] = -np.inf
        return scores, attention


def plainly(model, sentence, beam, longest):
    """Return (score, tokens) of the plain search that corresponds to the kind of the beam."""
    return (reference_search if beam.keeps_finished else plain_search)(
        model, sentence, beam, longest
    )


beams = st.builds(
    Beam,
    width=st.integers(1, 5),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    coverage_penalty=st.sampled_from([0.0, 0.1, 0.7]),
    counts_begin=st.booleans(),
    keeps_finished=st.booleans(),
    reorders_coverage=st.booleans(),
)


@pytest.mark.parametrize("penalties", [(0.0, 0.0), (0.6, 0.1), (1.5, 0.7)])
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_as_wide_as_all_sentences_finds_the_best_of_all(seed, penalties):
    beam = Beam(80, *penalties, counts_begin=seed % 2 == 0)
    model = RandomModel(seed, words=4)
    results, _ = found(model, (0, 1, 2), beam, 4)
    for sentence, (score, tokens) in enumerate(results):
        expected = exhaustive(model, sentence, beam, 4)
        assert tokens == expected[1]
        assert score == pytest.approx(expected[0], abs=1e-6)


@given(
    seed=st.integers(0, 2**31),
    beam=beams,
    longest=st.integers(1, 12),
    sharpness=st.sampled_from([0.5, 2.0, 5.0]),
)
@examples(100)
def test_results_equal_those_of_a_plain_search_per_sentence(seed, beam, longest, sharpness):
    beam = replace(beam, reorders_coverage=beam.reorders_coverage or not beam.keeps_finished)
    model = RandomModel(seed, sharpness=sharpness)
    results, _ = found(model, (0, 1, 2), beam, longest)
    for sentence, (score, tokens) in enumerate(results):
        expected = plainly(model, sentence, beam, longest)
        assert (tokens, pytest.approx(score, abs=1e-6)) == (expected[1], expected[0])


@given(
    seed=st.integers(0, 2**31),
    beam=beams,
    order=st.permutations([0, 1, 2]),
    limits=st.lists(st.integers(1, 8), min_size=3, max_size=3),
)
@examples(40)
def test_a_result_does_not_depend_on_the_batch(seed, beam, order, limits):
    model = RandomModel(seed)
    alone = [found(model, (sentence,), beam, limits[sentence])[0][0] for sentence in range(3)]
    together, _ = found(model, order, beam, [limits[sentence] for sentence in order], padding=2)
    for sentence, (score, tokens) in zip(order, together, strict=True):
        assert tokens == alone[sentence][1]
        assert score == pytest.approx(alone[sentence][0], abs=1e-12)


def test_the_search_stops_when_no_hypothesis_can_win():
    class SureOfTheEnd(RandomModel):
        def next(self, sentence, prefix):
            probability = np.full(self.words, 0.001)
            probability[END if len(prefix) == 2 else 4] = 1 - 0.001 * (self.words - 1)
            return np.log(probability).astype(np.float32), np.full(
                self.places[sentence], 0.25, np.float32
            )

    results, steps = found(SureOfTheEnd(1), (0, 1), Beam(4), 100)
    assert [tokens for _, tokens in results] == [(4, 4, END)] * 2
    assert steps == 3


def test_rows_that_are_not_live_stay_empty_and_add_no_steps():
    model, beam = RandomModel(3), Beam(3)
    decoder = Rows(model, (0, 1), 3)
    result = search(decoder, batch_of(2), beam, [2, 50], live=[True, False])
    assert result.counts[1] == 0
    assert not result.tokens[1].any()
    assert decoder.steps <= 2
    assert not search(Rows(model, (0,), 3), batch_of(1), beam, 5, live=[False]).counts.any()


def test_an_endless_translation_is_cut_off_at_the_longest_length():
    for keeps_finished in (True, False):
        beam = Beam(3, coverage_penalty=0.2, keeps_finished=keeps_finished)
        results, _ = found(Endless(5), (0, 1, 2), beam, [6, 3, 4])
        assert [len(tokens) for _, tokens in results] == [6, 3, 4]
        for sentence, (score, tokens) in enumerate(results):
            expected = plainly(Endless(5), sentence, beam, [6, 3, 4][sentence])
            assert (tokens, pytest.approx(score, abs=1e-6)) == (expected[1], expected[0])


def test_equal_scores_are_ordered_by_hypothesis_and_token():
    class Even(RandomModel):
        def next(self, sentence, prefix):
            return np.full(self.words, -1.0, np.float32), np.full(
                self.places[sentence], 0.2, np.float32
            )

    class AnyOrder(Rows):
        def step(self, state, tokens, parents):
            fed_tokens.append(tokens.reshape(3, -1).tolist())
            candidates, state = super().step(state, tokens, parents)
            shuffled = np.random.default_rng(self.steps).permutation(5)
            return Candidates(
                candidates.scores[:, shuffled], candidates.tokens[:, shuffled], candidates.attention
            ), state

    fed_tokens = []
    search(
        AnyOrder(Even(1), (0, 1, 2), 3, offered=5),
        batch_of(3),
        Beam(3, 1.0, keeps_finished=True),
        4,
    )
    assert fed_tokens[1] == [[0, 1, 2]] * 3


def test_rows_of_a_finished_sentence_keep_their_order():
    class Watched(Rows):
        def step(self, state, tokens, parents):
            seen.append((tokens[:3].tolist(), parents[:3].tolist()))
            return super().step(state, tokens, parents)

    for keeps_finished in (True, False):
        seen = []
        beam = Beam(3, keeps_finished=keeps_finished)
        search(Watched(Endless(4), (0, 1), 3), batch_of(2), beam, [2, 6])
        assert len(seen) == 6
        # The sentence is finished after step 2, whose choice is passed to step 3.
        assert seen[3:] == [([0, 0, 0], [0, 1, 2])] * 3


def test_top_returns_the_best_tokens_and_at_most_all():
    scores = np.log(np.array([[0.1, 0.6, 0.3], [0.5, 0.25, 0.25]]))
    best, tokens = top(scores, 2)
    assert tokens.tolist() == [[1, 2], [0, 1]]
    np.testing.assert_allclose(np.exp(best), [[0.6, 0.3], [0.5, 0.25]], rtol=1e-6)
    assert top(scores, 10)[1].shape == (2, 3)


@pytest.mark.parametrize(
    "values",
    [{"width": 0}, {"width": 4, "length_penalty": -0.1}, {"width": 4, "coverage_penalty": -1}],
)
def test_parameters_out_of_range_are_rejected_in_one_line(values):
    with pytest.raises(ValueError, match="at least") as caught:
        Beam(**values)
    assert "\n" not in str(caught.value)


class Broken(RandomModel):
    """Model whose weights are NaN for sentence 1."""

    def next(self, sentence, prefix):
        scores, attention = super().next(sentence, prefix)
        return (np.full_like(scores, np.nan) if sentence == 1 else scores), attention


@pytest.mark.parametrize("keeps_finished", [True, False])
def test_nan_ends_a_search_and_changes_no_other_sentence(keeps_finished):
    beam = Beam(2, keeps_finished=keeps_finished)
    broken, _ = found(Broken(3), (0, 1, 2), beam, 6)
    whole, _ = found(RandomModel(3), (0, 1, 2), beam, 6)
    assert [broken[0], broken[2]] == [whole[0], whole[2]]
