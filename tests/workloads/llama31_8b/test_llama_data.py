"""Batches of token windows: their tokens, their order, and their coverage."""

import numpy as np
import pytest

from testing import synthetic
from workloads.api import DatasetInfo
from workloads.llama31_8b import token_files
from workloads.llama31_8b.data import TokenData
from workloads.llama31_8b.settings import DEMO_MODEL

LENGTH, SAMPLES, EVALUATION, BATCH = 8, 10, 5, 4
TOKENS = {"train": SAMPLES * LENGTH + 1, "validation": 7 * LENGTH + 3}


@pytest.fixture
def folder(tmp_path):
    """Return a folder with token files. Token number n of a split is n."""
    for split, count in TOKENS.items():
        edges = np.array([0, 5, 6, count // 2, count])
        documents = np.split(np.arange(count, dtype=np.int32), edges[1:-1])
        token_files.write(tmp_path, split, documents)
    return tmp_path


def opened(folder, rank=0, devices=1, seed=1, vocabulary=256):
    """Return the data pipeline of a process with one device."""
    model = {**DEMO_MODEL, "sequence_length": LENGTH, "vocabulary": vocabulary}
    settings = synthetic.settings(
        "llama31_8b", devices=devices, global_batch_size=BATCH, model=model, dataset="llama-demo",
        data_dir=str(folder),
    )  # fmt: skip
    worker = synthetic.place(rank, range(rank, rank + 1), devices)
    return TokenData(settings, DatasetInfo(SAMPLES, EVALUATION, {}, "test"), worker, seed)


def firsts(data, steps):
    """Return the number of the first token of each window, (steps, windows)."""
    return np.array([batch.arrays["token"][:, 0] for (batch,) in data.train(0, steps)])


def test_labels_are_the_next_tokens_and_windows_overlap_by_a_token(folder):
    for (batch,) in opened(folder).train(0, 2):
        tokens, labels = batch.arrays["token"], batch.arrays["label"]
        assert tokens.shape == labels.shape == (BATCH, LENGTH)
        assert tokens.dtype == labels.dtype == np.int64
        np.testing.assert_array_equal(labels, tokens + 1)
        assert not (tokens[:, 0] % LENGTH).any()
        assert batch.global_weight_sum == batch.weight_sum == BATCH * LENGTH
        assert batch.global_samples == BATCH


def test_an_epoch_has_no_window_twice_and_epochs_differ(folder):
    order = firsts(opened(folder), 4)
    for epoch in (order[:2], order[2:]):
        assert len(np.unique(epoch)) == 2 * BATCH
    assert not np.array_equal(order[:2], order[2:])
    assert not np.array_equal(order, firsts(opened(folder, seed=2), 4))


def test_devices_share_the_batch_of_one_device(folder):
    whole = firsts(opened(folder), 4)
    parts = [firsts(opened(folder, rank, 2), 4) for rank in (0, 1)]
    np.testing.assert_array_equal(np.concatenate(parts, 1), whole)


def test_steps_in_the_middle_equal_those_of_a_run_from_the_start(folder):
    data = opened(folder)
    resumed = np.array([batch.arrays["token"][:, 0] for (batch,) in data.train(3, 5)])
    np.testing.assert_array_equal(resumed, firsts(data, 5)[3:])


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_an_evaluation_has_the_first_windows_in_their_order(folder, devices):
    every = [list(opened(folder, rank, devices).evaluation()) for rank in range(devices)]
    assert len({len(batches) for batches in every}) == 1, "an evaluation is a collective operation"
    found = {}
    for batches in every:
        for (batch,) in batches:
            numbers = batch.arrays["number"]
            for number, first in zip(numbers, batch.arrays["token"][:, 0], strict=True):
                if number >= 0:
                    assert number not in found
                    found[int(number)] = int(first)
    assert found == {number: number * LENGTH for number in range(EVALUATION)}


def test_a_token_outside_of_the_vocabulary_has_a_message(folder):
    with pytest.raises(ValueError, match=r"train\.bin: token \d+ is not in the vocabulary of 60"):
        firsts(opened(folder, vocabulary=60), 2)


def test_tokens_without_files_depend_on_the_seed_only():
    first, again, other = (firsts(opened("", seed=seed, vocabulary=60), 2) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.min() >= 0
    assert first.max() < 60
