"""Speed of negative sampling on one core, with ML-20M's counts; prints JSON.

    python benchmarks/negative_sampling.py [--draws 20000000]

`training` draws in the shuffled order of an epoch, `evaluation` user by user with the sorting of each user's 999;
`batches` makes whole training batches (order, positives, negatives, labels; one sample in five needs no draw). The
yardstick is NumPy's own generator filling an int32 array, measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workloads.api import Place
from workloads.common.randomness import Permutation, bits, stream, uniform
from workloads.ncf.data import NCFData, published_facts
from workloads.ncf.sampling import EVALUATION_NEGATIVES, Positives, draw, evaluation_negatives, training_key

TARGET_DRAWS_PER_SECOND = 5e6


def synthetic_positives() -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Pairs with ML-20M's counts: skewed users (19 … 9,253 ratings) and skewed items; sorted by user."""
    facts = published_facts()
    users, items, total = facts.sizes["users"], facts.sizes["items"], facts.train_samples
    weight = 1 / (uniform(bits(stream(0, "activity"), np.arange(users))) + 0.02)
    counts = np.clip(weight * (total / weight.sum()), 19, 9253).astype(np.int64)
    counts[np.argsort(-counts)[:1000]] += 1
    while (short := total - int(counts.sum())) != 0:
        counts[: abs(short)] += int(np.sign(short))
    user = np.repeat(np.arange(users, dtype=np.int32), counts)
    item = (uniform(bits(stream(0, "items"), np.arange(total))) ** 3 * items).astype(np.int32)
    return user, item


def best_rate(work: Callable[[], int], repeats: int = 3) -> float:
    """Largest number of draws per second over some repeats."""
    rates = []
    for _ in range(repeats):
        start = time.perf_counter()
        done = work()
        rates.append(done / (time.perf_counter() - start))
    return max(rates)


def measure(draws: int) -> dict[str, object]:
    """All figures."""
    facts = published_facts()
    users, items, total = facts.sizes["users"], facts.sizes["items"], facts.train_samples
    user, item = synthetic_positives()
    start = time.perf_counter()
    positives = Positives(user, item, users, items)
    bitmap_seconds = time.perf_counter() - start

    generator = np.random.Generator(np.random.PCG64(0))
    plain = best_rate(lambda: generator.integers(0, items, draws, dtype=np.int32).size)

    order = Permutation(stream(0, "shuffled draws"), 4 * total)(np.arange(draws))
    order_users, out = user[order // 4], np.empty(draws, np.int32)

    def training() -> int:
        draw(training_key(0, 0), order, order_users, positives, out)
        return draws

    some = np.arange(draws // EVALUATION_NEGATIVES)
    table = np.empty((some.size, EVALUATION_NEGATIVES), np.int32)

    def evaluation() -> int:
        evaluation_negatives(0, some, positives, table)
        return table.size

    figures = {"training": best_rate(training), "evaluation": best_rate(evaluation)}
    assert not positives.contains(order_users, out).any()
    return {
        "numpy": np.__version__,
        "draws": draws,
        "bitmap_bytes": positives.bitmap.nbytes,
        "bitmap_seconds": round(bitmap_seconds, 3),
        "generator_draws_per_second": round(plain),
        **{f"{name}_draws_per_second": round(rate) for name, rate in figures.items()},
        **{f"{name}_ratio_to_generator": round(rate / plain, 3) for name, rate in figures.items()},
        "batch_samples_per_second": round(batches(user, item, positives)),
        "target_draws_per_second": TARGET_DRAWS_PER_SECOND,
        "met": min(figures.values()) >= TARGET_DRAWS_PER_SECOND,
    }


def batches(user: npt.NDArray[np.int32], item: npt.NDArray[np.int32], positives: Positives) -> float:
    """Training samples per second of `NCFData` at batch 65,536 on its background thread."""
    facts = published_facts()
    with tempfile.TemporaryDirectory() as folder:
        arrays = {"train_user": user, "train_item": item, "test_item": np.zeros(facts.sizes["users"], np.int32)}
        for name, array in arrays.items():
            np.save(Path(folder) / f"{name}.npy", array)
        settings = SimpleNamespace(data_dir=folder, batch_size_global=65536, options={}, device="cpu")
        data = NCFData(settings, facts, Place(0, 1, range(1), 1, ("cpu",)), 0)  # type: ignore[arg-type]
        data._positives = positives
        return best_rate(lambda: sum(batch[0].samples_global for batch in data.train(0, 200)))


def main() -> None:
    """Pin to one core, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=20_000_000)
    draws = parser.parse_args().draws
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(json.dumps(measure(draws), indent=1))


if __name__ == "__main__":
    main()
