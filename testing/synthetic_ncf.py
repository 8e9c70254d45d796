"""Small synthetic data set for tests of NCF, with 501 users and 333 items.

Each user has rated so many items that many sampled negatives are rejected.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from testing import synthetic
from testing.synthetic import place
from workloads.api import DatasetInfo, Settings
from workloads.common.randomness import bits, stream, uniform
from workloads.ncf.settings import DEMO_MODEL
from workloads.ncf.workload import NCF

__all__ = ["place"]
USERS, ITEMS = 501, 333
ADAM = {"learning_rate": 0.003, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8, "max_epochs": 1}


def pairs() -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the training pairs (user, item), which are unique and sorted by user.

    The number of items per user ranges from a few to half of all items.
    """
    chance = 0.02 + 0.5 * uniform(bits(stream(9, "chance"), np.arange(USERS)))
    user, item = np.nonzero(
        uniform(bits(9, np.arange(USERS)[:, None], np.arange(ITEMS))) < chance[:, None]
    )
    return user.astype(np.int32), item.astype(np.int32)


def write(folder: Path) -> DatasetInfo:
    """Write the prepared arrays without a manifest, and return the `DatasetInfo`."""
    user, item = pairs()
    test = np.arange(USERS, dtype=np.int32) % ITEMS
    for name, array in (("train_user", user), ("train_item", item), ("test_item", test)):
        np.save(folder / f"{name}.npy", array)
    return DatasetInfo(
        len(user), USERS, {"users": USERS, "items": ITEMS, "min_ratings": 2}, "synthetic"
    )


def settings(
    folder: Path | str,
    global_batch_size: int = 4001,
    changes: Mapping[str, object] | None = None,
    **options: object,
) -> Settings:
    """Return the settings that NCF's data pipeline reads.

    `changes` maps setting names to values that replace the defaults.
    """
    return synthetic.settings(
        "ncf", rules="v0.5", devices=2, global_batch_size=global_batch_size, dataset="ml-demo",
        data_dir=str(folder), options=options, **(changes or {}),
    )  # fmt: skip


def workload(
    folder: Path,
    framework: str = "pytorch",
    devices: int = 1,
    precision: str = "fp32",
    **changes: object,
) -> NCF:
    """Return the demo workload of NCF on the synthetic data set.

    The data set is written to `folder`. The last step of an epoch has a single sample.
    """
    folder.mkdir(exist_ok=True)
    dataset_info = write(folder)
    samples = 5 * dataset_info.train_samples
    batch = next(size for size in range(samples // 12, samples) if samples % size == 1)
    values = {
        "framework": framework,
        "devices": devices,
        "precision": precision,
        "model": DEMO_MODEL,
        **changes,
    }
    return NCF(
        dataclasses.replace(settings(folder, batch), hyperparameters=ADAM, **values), dataset_info
    )
