"""Batches of sentence pairs: coverage, equal steps of all replicas, arrays, and evaluation."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.synthetic import place
from tests.helpers import examples
from tests.workloads.common.text.synthetic_translation import Shifted, Translation, data_of, make
from workloads.common.batch_plan import buckets_by_samples, buckets_by_tokens
from workloads.common.text import batches, dataset_info, prepared
from workloads.common.text.batches import Batching, TranslationData, equal_edges, growing_edges
from workloads.common.text.prepared import Parallel
from workloads.common.text.vocabulary import EOS, GNMT, SHIFTED


def random_split(lengths):
    """Return a split with sentences of these lengths."""
    return Parallel(*(batches.random_side(side, np.zeros(1)) for side in lengths))


def identify(split):
    """Return a split in which all ids of a sentence are the sentence's number + 4."""

    def numbers(side):
        return np.repeat(np.arange(len(side)) + 4, np.diff(side.offsets)).astype(np.int32)

    return Parallel(
        *(prepared.Side(numbers(side), side.offsets) for side in (split.source, split.target))
    )


@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=200),
    replicas=st.integers(1, 3),
    share=st.integers(1, 4),
    framing=st.sampled_from([GNMT, SHIFTED]),
    by_tokens=st.booleans(),
    every=st.booleans(),
    seed=st.integers(0, 2**31),
)
@examples(40)
def test_each_pair_is_used_once_and_all_replicas_have_equal_steps(
    lengths, replicas, share, framing, by_tokens, every, seed
):
    lengths = np.array(lengths, np.uint16).T
    edges = equal_edges(25, 4)
    make_buckets, size = (buckets_by_tokens, 25) if by_tokens else (buckets_by_samples, 1)
    chosen = make_buckets(edges, size * share * replicas, replicas)
    batching = Batching(framing, chosen, (32,), 4, by_tokens, replicas, every)
    split = identify(random_split(lengths))
    seen = []
    counts = batches.count(prepared.length_counts(lengths), batching)
    batches_of_replicas = []
    for replica in range(replicas):
        here, splits = (
            place(replica, range(replica, replica + 1), replicas),
            {"train": split, "test": split},
        )
        data = TranslationData(batching, lengths, splits, here, seed, counts.steps)
        batches_of_replicas.append([batch for (batch,) in data.train(0, counts.steps)])
    for step in zip(*batches_of_replicas, strict=True):
        assert len({batch.arrays["source"].shape for batch in step}) == 1
        assert (
            len(
                {
                    (batch.global_weight_sum, batch.global_samples, batch.global_counts["tokens"])
                    for batch in step
                }
            )
            == 1
        )
        assert sum(batch.weight_sum for batch in step) == step[0].global_weight_sum
        tokens = 0
        for batch in step:
            begin = 0 if framing.begin is None else 1
            for row in range(len(batch.arrays["source"])):
                seen.append(check_row(batch, row, begin, framing, lengths))
            tokens += int(
                batch.arrays["source_length"].sum() + batch.arrays["target_length"].sum()
            ) + begin * len(batch.arrays["source"])
        assert tokens == step[0].global_counts["tokens"]
    short = lengths.max(0) + framing.extra <= 25
    assert counts.too_long == int((~short).sum())
    assert (len(seen), len(set(seen))) == (
        len(set(seen)) + counts.repeated,
        int(short.sum()) - counts.left_out,
    )
    most = chosen[-1].batch_samples - 1
    if every:
        assert (set(seen), counts.left_out) == (set(np.flatnonzero(short)), 0)
        assert counts.repeated <= most
    else:
        assert counts.repeated == 0
        assert counts.left_out <= sum(bucket.batch_samples - 1 for bucket in chosen)


def check_row(batch, row, begin, framing, lengths):
    """Check the arrays of a row and return the number of its pair."""
    arrays = {name: array[row] for name, array in batch.arrays.items()}
    source, label = (
        arrays["source"][: arrays["source_length"]],
        arrays["label"][: arrays["target_length"]],
    )
    pair = int(source[begin]) - 4
    assert source.tolist() == [framing.begin] * begin + [pair + 4] * lengths[0, pair] + [EOS]
    assert label.tolist() == [pair + 4] * lengths[1, pair] + [EOS]
    assert not arrays["source"][len(source) :].any()
    assert not arrays["label"][len(label) :].any()
    fed = arrays["target"]
    assert fed[: len(label)].tolist() == [framing.start, *label[:-1].tolist()]
    assert not fed[len(label) :].any()
    assert arrays["target"].shape == arrays["label"].shape == (len(arrays["source"]) - begin,)
    return pair


def test_edges_of_buckets():
    # In the reference, the number of a sentence's bucket is length // 10, at most 4.
    assert equal_edges(50, 5) == (9, 19, 29, 39, 50)
    assert equal_edges(75, 5) == (14, 29, 44, 59, 75)
    assert set(equal_edges(4, 9)) <= {1, 2, 3, 4}
    reference = growing_edges(8, 1.1, 1, 256)
    assert (reference[:4], reference[-1]) == ((8, 9, 10, 11), 256)
    steps = [after - before for before, after in itertools.pairwise(reference[:-1])]
    assert steps == [max(1, int(before * 1.1) - before) for before in reference[:-2]]
    assert all(edge % 4 == 0 for edge in growing_edges(8, 1.2, 4, 64))


@pytest.mark.parametrize(("count", "lowest", "highest"), [(5, 0.74, 0.84), (10, 0.84, 0.90)])
def test_fill_of_batches_with_the_lengths_of_wmt(count, lowest, highest):
    lengths = dataset_info.synthetic_lengths(100_000)
    batching = Batching(
        GNMT, buckets_by_samples(equal_edges(50, count), 128, 1), (256,), 64, False, 1
    )
    counts = batches.count(prepared.length_counts(lengths), batching)
    assert lowest < counts.fill < highest
    plan = batches.plan(lengths, batching, 1, 0)
    assert len(plan) == counts.steps
    assert plan.samples_left_out == counts.too_long + counts.left_out
    taken = sum(
        lengths[:, samples].sum(dtype=np.int64) + 4 * len(samples)
        for _, samples in map(plan.batch, range(len(plan)))
    )
    places = sum(
        2 * bucket.edge * len(samples) for bucket, samples in map(plan.batch, range(len(plan)))
    )
    assert taken / places == pytest.approx(counts.fill, abs=2e-3)


@pytest.mark.parametrize("kind", [Translation, Shifted])
def test_several_processes_have_the_batches_of_a_single_process(demo_data, kind):
    folder = demo_data("translation-demo")
    workload = make(folder, kind, devices=2)
    alone = workload.open_data(place(0, range(2), 2), 5)
    parts = data_of(workload, 5)
    steps = zip(alone.train(3, 9), *(part.train(3, 9) for part in parts), strict=True)
    for both, *single in steps:
        for batch, (single_batch,) in zip(both, single, strict=True):
            assert batch.weight_sum == single_batch.weight_sum
            for name, array in batch.arrays.items():
                np.testing.assert_array_equal(array, single_batch.arrays[name])
    for data in (alone, *parts):
        data.close()


def test_training_may_start_at_any_step_and_epochs_differ(demo_data):
    workload = make(demo_data("translation-demo"))
    steps, data = workload.steps_per_epoch, workload.open_data(place(0, range(1), 1), 1)
    both = [batch.arrays["source"] for (batch,) in data.train(0, 2 * steps)]
    for source, (again,) in zip(both[steps:], data.train(steps, steps + 2), strict=False):
        np.testing.assert_array_equal(source, again.arrays["source"])
    shapes = [array.shape for array in both]
    assert sorted(shapes[:steps]) == sorted(shapes[steps:])
    assert shapes[:steps] != shapes[steps:]


@pytest.mark.parametrize(("devices", "size"), [(1, 64), (2, 64), (3, 7), (1, 1_000)])
def test_each_evaluation_sentence_is_in_a_single_batch(demo_data, devices, size):
    workload = make(
        demo_data("translation-demo"), devices=devices, batch=36, evaluation_batch_size=size
    )
    shapes = [
        {name: spec.shape for name, spec in specs.items()} for specs in workload.evaluation_shapes()
    ]
    seen = {"test": [], "dev": []}
    lengths = {"test": [], "dev": []}
    counts = set()
    for data in data_of(workload):
        batches_seen = [batch for (batch,) in data.evaluation()]
        counts.add(len(batches_seen))
        for batch in batches_seen:
            arrays = batch.arrays
            split = "dev" if "label" in arrays else "test"
            wanted = {
                name: array.shape
                for name, array in arrays.items()
                if name not in ("number", "valid")
            }
            assert wanted in shapes
            seen[split] += arrays["number"][arrays["valid"]].tolist()
            lengths[split].append(arrays["source"].shape[1])
            assert batch.weight_sum == arrays["valid"].sum()
    assert len(counts) == 1
    assert sorted(seen["test"]) == sorted(seen["dev"]) == list(range(200))
    of_first = lengths["test"][: len(lengths["test"]) // devices]
    assert of_first == sorted(of_first, reverse=True)


def test_long_evaluation_sentences_are_not_truncated(demo_data):
    folder = demo_data("translation-demo")
    workload = make(folder, longest=20)
    test = prepared.read(folder, "test", 200)
    for (batch,) in data_of(workload)[0].evaluation():
        for row, number in enumerate(batch.arrays["number"] if "label" not in batch.arrays else ()):
            length = batch.arrays["source_length"][row]
            assert batch.arrays["source"][row, :length].tolist() == [
                2,
                *test.source.sentence(int(number)).tolist(),
                3,
            ]
