import dataclasses
import functools
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from testing import synthetic_ncf as synthetic
from workloads.ncf.data import NCFData, evaluation_users_per_batch
from workloads.ncf.dataset_info import load_dataset_info, published_facts
from workloads.ncf.sampling import Positives
from workloads.ncf.sharding import SyntheticNCFData

USERS, ITEMS = synthetic.USERS, synthetic.ITEMS


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("prepared")
    synthetic.write(path)
    return path


def open_data(
    folder: Path,
    process: int = 0,
    replicas: range = range(1),
    total: int = 1,
    seed: int = 4,
    **options,
):
    batch = options.pop("batch", 4001)
    dataset_info = synthetic.write(folder)
    return NCFData(
        synthetic.settings(folder, batch, **options),
        dataset_info,
        synthetic.place(process, replicas, total),
        seed,
    )


def samples(batches) -> Counter:
    """Return the samples of some batches as a multiset of (user, item, label), without padding."""
    found: Counter = Counter()
    for batch in batches:
        arrays = batch.arrays
        real = arrays["weight"] > 0
        assert real.sum() == batch.weight_sum
        assert not any(arrays[name][~real].any() for name in ("user", "item", "label"))
        found.update(
            zip(*(arrays[name][real].tolist() for name in ("user", "item", "label")), strict=True)
        )
    return found


def places(replicas: int, per_process: int):
    for process, first in enumerate(range(0, replicas, per_process)):
        yield process, range(first, min(first + per_process, replicas)), replicas


@pytest.mark.parametrize(("replicas", "per_process"), [(2, 1), (2, 2), (3, 1), (3, 3)])
def test_replicas_share_the_same_samples(folder, replicas, per_process):
    whole = open_data(folder)
    last = whole.steps_per_epoch - 1
    parts = [open_data(folder, *place) for place in places(replicas, per_process)]
    assert {part.steps_per_epoch for part in parts} == {whole.steps_per_epoch}
    for step in (0, 1, last, last + 1):
        (expected,) = next(iter(whole.train(step, step + 1)))
        batches = [batch for part in parts for batch in next(iter(part.train(step, step + 1)))]
        assert len(batches) == replicas
        assert len({len(batch.arrays["user"]) for batch in batches}) == 1
        assert len(batches[0].arrays["user"]) == -(-expected.global_samples // replicas)
        assert {(b.global_weight_sum, b.global_samples) for b in batches} == {
            (expected.weight_sum, expected.global_samples)
        }
        assert sum(batch.weight_sum for batch in batches) == expected.weight_sum
        assert samples(batches) == samples([expected])
        order = np.concatenate([b.arrays["user"][: int(b.weight_sum)] for b in batches])
        assert (order == expected.arrays["user"]).all()


@pytest.fixture(scope="module")
def epochs(folder):
    """Return the input pipeline and the batches of two epochs."""
    data = open_data(folder)
    steps = data.steps_per_epoch
    batches = [batch for (batch,) in data.train(0, 2 * steps)]
    return data, (batches[:steps], batches[steps:])


def test_types_and_shapes(folder):
    for batch in next(iter(open_data(folder, 0, range(2), 3, batch=1000).train(0, 1))):
        kinds = {name: (array.dtype.name, array.shape) for name, array in batch.arrays.items()}
        assert kinds == {
            **dict.fromkeys(("user", "item"), ("int32", (334,))),
            **dict.fromkeys(("label", "weight"), ("float32", (334,))),
        }


def test_an_epoch_has_every_sample_once_and_its_last_batch_is_kept(epochs):
    data, (batches, _) = epochs
    sizes = [batch.global_samples for batch in batches]
    assert sizes[:-1] == [4001] * (len(sizes) - 1)
    assert 0 < sizes[-1] < 4001
    user, item = synthetic.pairs()
    epoch = samples(batches)
    assert sum(epoch.values()) == 5 * len(user) == data.samples_per_epoch == sum(sizes)
    positive = Counter({key[:2]: n for key, n in epoch.items() if key[2] == 1})
    assert positive == Counter(zip(user.tolist(), item.tolist(), strict=True))
    negatives: Counter = Counter()
    for (sampled_user, _, label), n in epoch.items():
        negatives[sampled_user] += n * (label == 0)
    assert negatives == Counter(
        {int(u): int(4 * n) for u, n in enumerate(np.bincount(user, minlength=USERS)) if n}
    )
    positives = Positives(user, item, USERS, ITEMS)
    drawn = np.array([key[:2] for key in epoch if key[2] == 0])
    assert not positives.contains(drawn[:, 0], drawn[:, 1]).any()


def test_epochs_differ_in_order_and_negatives_and_spread_positives_evenly(epochs):
    _, both = epochs
    orders = [np.concatenate([batch.arrays["user"] for batch in epoch]) for epoch in both]
    assert (orders[0] == orders[1]).mean() < 0.05
    first, second = map(samples, both)
    assert {k for k in first if k[2]} == {k for k in second if k[2]}
    assert first != second
    shares = np.array([batch.arrays["label"].sum() for epoch in both for batch in epoch[:-1]])
    assert abs(shares.mean() - 800.2) < 8
    assert 0.5 < shares.var() / (4001 * 0.2 * 0.8) < 1.5


def test_a_last_batch_smaller_than_the_number_of_replicas(tmp_path):
    total = open_data(tmp_path).samples_per_epoch
    parts = [open_data(tmp_path, *place, batch=total - 2) for place in places(5, 1)]
    batches = [next(iter(part.train(1, 2)))[0] for part in parts]
    assert [batch.weight_sum for batch in batches] == [1, 1, 0, 0, 0]
    assert all(len(batch.arrays["user"]) == 1 and batch.global_weight_sum == 2 for batch in batches)


def test_any_segment_of_steps_is_reproducible(epochs):
    data, (first, second) = epochs
    n = data.steps_per_epoch
    for step, wanted in enumerate([*first[-2:], *second[:2]], start=n - 2):
        ((batch,),) = data.train(step, step + 1)
        assert all((batch.arrays[name] == wanted.arrays[name]).all() for name in wanted.arrays)


def test_gpus_of_a_host_share_its_cores(folder, monkeypatch):
    """Check 16 processes on two hosts of 96 cores.

    Each host has eight processes with 12 cores each, and sampling uses 8 of them. With 48 cores, it
    uses 6.
    """
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(96)))
    place = dataclasses.replace(synthetic.place(0, range(1), 16), world_size=16, local_world_size=8)
    settings = dataclasses.replace(synthetic.settings(folder, 4001), device="cuda")
    assert NCFData(settings, synthetic.write(folder), place, 4).threads == 8
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(48)))
    assert NCFData(settings, synthetic.write(folder), place, 4).threads == 6


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(folder, epochs, threads, monkeypatch):
    monkeypatch.setattr("workloads.ncf.data.CHUNK", 700)
    for (batch,), wanted in zip(
        open_data(folder, data_threads=threads).train(0, 3), epochs[1][0], strict=False
    ):
        assert all((batch.arrays[name] == wanted.arrays[name]).all() for name in wanted.arrays)


@pytest.fixture(scope="module")
def candidates(folder):
    """Return each user's candidates (1000,), computed with a single replica."""
    whole = {}
    for (batch,) in open_data(folder).evaluation():
        whole |= zip(batch.arrays["user"].tolist(), batch.arrays["item"], strict=True)
    return whole


@pytest.mark.parametrize(
    ("replicas", "per_process"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 3), (7, 7)]
)
def test_evaluation_covers_every_user_once(folder, candidates, replicas, per_process):
    seen, lengths, test = {}, set(), np.load(folder / "test_item.npy")
    for place in places(replicas, per_process):
        steps = list(open_data(folder, *place).evaluation())
        lengths.add(len(steps))
        for step in steps:
            assert len(step) == len(place[1])
            assert {batch.global_samples for batch in step} == {int(step[0].global_weight_sum)}
            if per_process == replicas:
                assert step[0].global_weight_sum == sum(batch.weight_sum for batch in step)
            for replica, batch in zip(place[1], step, strict=True):
                valid, users, items = (batch.arrays[name] for name in ("valid", "user", "item"))
                assert items.shape == (len(valid), 1000) == (min(64, -(-USERS // replicas)), 1000)
                assert batch.weight_sum == valid.sum()
                users, items = users[valid], items[valid]
                assert (users % replicas == replica).all()
                assert (items[:, 0] == test[users]).all()
                assert (np.diff(items[:, 1:], axis=1) >= 0).all()
                assert seen.keys().isdisjoint(users.tolist())
                seen |= zip(users.tolist(), items, strict=True)
    assert len(lengths) == 1
    assert sorted(seen) == list(range(USERS))
    assert all((candidates[user] == items).all() for user, items in seen.items())


@pytest.mark.parametrize("users", [1, 7, 10_000])
def test_users_per_batch_change_nothing_but_the_batches(folder, candidates, users):
    batches = [
        batch.arrays
        for (batch,) in open_data(folder, evaluation_users_per_batch=users).evaluation()
    ]
    assert len(batches) == -(-USERS // min(users, USERS))
    numbers, items = (
        np.concatenate([arrays[name][arrays["valid"]] for arrays in batches])
        for name in ("user", "item")
    )
    assert numbers.tolist() == list(range(USERS))
    assert (items == np.stack([candidates[user] for user in range(USERS)])).all()


def test_a_gpu_scores_about_a_million_candidates_at_once():
    on_cpu = synthetic.settings("")
    on_gpu = dataclasses.replace(on_cpu, device="cuda")
    users = functools.partial(evaluation_users_per_batch, users=138_493, replicas=8)
    assert (users(on_cpu), users(on_gpu)) == (64, 1_048)
    assert users(dataclasses.replace(on_gpu, options={"evaluation_users_per_batch": 7})) == 7


def test_more_replicas_than_users(tmp_path):
    dataset_info = synthetic.write(tmp_path)
    for name in ("train_user", "train_item", "test_item"):
        np.save(
            tmp_path / f"{name}.npy",
            np.load(tmp_path / f"{name}.npy")[:2] * 0 + np.arange(2, dtype=np.int32),
        )
    dataset_info = type(dataset_info)(2, 2, {"users": 2, "items": ITEMS}, "tiny")
    data = NCFData(synthetic.settings(tmp_path), dataset_info, synthetic.place(0, range(3), 3), 0)
    ((first, second, third),) = list(data.evaluation())
    assert [batch.weight_sum for batch in (first, second, third)] == [1, 1, 0]
    assert third.arrays["item"].shape == (1, 1000)
    assert not third.arrays["valid"].any()


def test_evaluation_negatives_are_constant_and_depend_on_the_seed(folder):
    data = open_data(folder)
    assert (data._positives, data._evaluation) == (None, None), "the constructor must not sample"
    first, again, other_seed = (
        np.concatenate([batch.arrays["item"] for (batch,) in source.evaluation()])
        for source in (data, data, open_data(folder, seed=5))
    )
    assert (first == again).all()
    assert (first != other_seed).any(axis=1).all()


def test_close_stops_an_unfinished_train(folder):
    data = open_data(folder)
    stream = data.train(0, 10**6)
    next(stream)
    assert len(data._running) == 1
    data.close()
    assert list(stream) == []
    data.close()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "No such file"),
        (lambda path: path.write_bytes(b""), r"test_item\.npy"),
        (lambda path: path.write_bytes(b"\x93NUMPY\x01\x00"), r"test_item\.npy"),
        (lambda path: path.write_bytes(path.read_bytes()[:-8]), r"test_item\.npy"),
        (lambda path: np.save(path, np.zeros(USERS)), r"expected int32 .*, got float64"),
        (lambda path: np.save(path, np.zeros(3, np.int32)), r"expected int32 .*, got int32 \(3,\)"),
        (lambda path: np.save(path, np.array([{}] * USERS), allow_pickle=True), r"test_item\.npy"),
    ],
)
def test_the_message_on_damaged_arrays_names_them(tmp_path, damage, message):
    dataset_info = synthetic.write(tmp_path)
    damage(tmp_path / "test_item.npy")
    with pytest.raises(ValueError, match=message):
        NCFData(synthetic.settings(tmp_path), dataset_info, synthetic.place(0, range(1), 1), 0)


def test_an_item_out_of_range_is_not_trained_on(tmp_path):
    dataset_info = synthetic.write(tmp_path)
    items = np.load(tmp_path / "train_item.npy")
    items[5] = ITEMS + 8
    np.save(tmp_path / "train_item.npy", items)
    data = NCFData(synthetic.settings(tmp_path), dataset_info, synthetic.place(0, range(1), 1), 0)
    with pytest.raises(ValueError, match="train_item"):
        next(iter(data.train(0, 1)))


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("ml-20m", "suite data prepare ml-20m --from FILE_OR_ZIP"),
        ("ml-demo", "suite data make-demo ml-demo"),
    ],
)
def test_the_message_on_missing_data_contains_the_command(tmp_path, name, command):
    with pytest.raises(ValueError, match=command) as caught:
        load_dataset_info(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("replicas", "batch"), [(1, 1_048_576), (3, 100_000)])
def test_synthetic_batches_have_the_real_sizes(replicas, batch):
    dataset_info = published_facts()
    data = SyntheticNCFData(
        synthetic.settings("", batch),
        dataset_info,
        synthetic.place(0, range(replicas), replicas),
        0,
    )
    assert data.steps_per_epoch == -(-99_308_850 // batch)
    last = data.steps_per_epoch - 1
    for step in (*data.train(0, 6), *data.train(last, last + 1)):
        assert len(step) == replicas
        assert (
            sum(part.weight_sum for part in step)
            == step[0].global_weight_sum
            == step[0].global_samples
        )
        for part in step:
            assert part.arrays["weight"].sum() == part.weight_sum
            assert len(part.arrays["user"]) == -(-part.global_samples // replicas)
            assert part.arrays["item"].max() < 26_744
            assert part.arrays["user"].max() < 138_493
    assert list(data.evaluation()) == []
    data.close()
