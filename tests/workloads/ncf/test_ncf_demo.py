from pathlib import Path

import numpy as np
import pytest

from testing import synthetic_ncf as synthetic
from workloads.ncf.data import NCFData
from workloads.ncf.dataset_info import load_dataset_info
from workloads.ncf.demo import MLDemo
from workloads.ncf.metrics import hit_rate, hits

TARGET = 0.635


@pytest.fixture(scope="module")
def folder(demo_data) -> Path:
    return demo_data("ml-demo")


def hr_at_10(folder: Path, scores, seed: int) -> float:
    """Return the HR@10 of `scores(user (u, 1), item (u, 1000))`."""
    data = NCFData(
        synthetic.settings(folder), load_dataset_info(folder), synthetic.place(0, range(1), 1), seed
    )
    found = []
    for (batch,) in data.evaluation():
        user, item = batch.arrays["user"][:, None], batch.arrays["item"]
        found.append(
            hits(np.broadcast_to(scores(user, item), item.shape), item)[batch.arrays["valid"]]
        )
    return hit_rate(np.concatenate(found))


def test_size_and_layout(folder):
    dataset_info = load_dataset_info(folder)
    assert dataset_info.sizes["users"] >= 2000
    assert dataset_info.sizes["items"] >= 1500
    assert 75_000 < dataset_info.train_samples < 90_000
    text = (folder / "raw" / "ratings.csv").read_text()
    assert text.startswith("userId,movieId,rating,timestamp\n1,")
    per_user = np.bincount(np.load(folder / "train_user.npy"))
    assert per_user.min() == 19
    assert 36 < np.median(per_user) < 45
    assert dataset_info.notes == ()
    assert MLDemo().verify(folder)[-1].startswith("ml-demo: sound")
    assert MLDemo().make_demo(folder) == [f"ml-demo: already generated in {folder}"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_trivial_rankings_stay_far_below_the_target(folder, seed):
    popularity = np.bincount(np.load(folder / "train_item.npy"), minlength=2000).astype(np.float32)
    assert 0.05 < hr_at_10(folder, lambda user, item: popularity[item], seed) < 0.20
    assert hr_at_10(folder, lambda user, item: np.zeros(item.shape, np.float32), seed) == 0.0
    chance = np.random.default_rng(seed).random((2000, 2000), np.float32)
    assert hr_at_10(folder, lambda user, item: chance[user, item], seed) < 0.03
