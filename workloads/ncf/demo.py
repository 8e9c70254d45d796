"""Generated data set of the NCF demo, written as a MovieLens ratings file.

Users and items are vectors in a latent space. Users belong to taste clusters. The score of an item
is its similarity to the user, minus the logarithm of its popularity rank, plus noise. Each user
rates the items with the highest scores. A factor model can learn this data set. Ranking by
popularity cannot reach the target: HR@10 is about 0.79 for the true score (the maximum), 0.15 for
popularity, and 0.01 for random scores.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from workloads.common.arrays import Float64s, Int64s
from workloads.common.data.generated import Generated
from workloads.common.manifest import Manifest
from workloads.common.quantiles import log
from workloads.common.randomness import Permutation, bits, integers, normal, stream, uniform
from workloads.ncf import ratings as files
from workloads.ncf.dataset import MINIMUM_RATINGS, MovieLens, split, write

SEED = 1
"""Seed of the generated data set. The seeds of runs do not change the data set."""
USERS, ITEMS = 2000, 1600
"""Number of users and number of generated items. About 1,530 items have a rating, and all other
items are dropped.
"""
FACTORS, CLUSTERS = 8, 16
CLUSTER_WEIGHT, OWN_WEIGHT = 0.7, 0.7
MATCH_WEIGHT = 4.0
NOISE = 0.8
"""Scale of the Gumbel noise in the scores. With this scale, the maximum HR@10 is near 0.79."""
RATINGS_MEDIAN, RATINGS_SPREAD = 41, 0.3
"""Median and log-standard deviation of the number of ratings per user.

A user has at least MINIMUM_RATINGS ratings.
"""
FIRST_SECOND = 1_400_000_000
"""Unix time of the first rating (May 2014)."""


def _normals(label: str, rows: int, columns: int) -> Float64s:
    index = np.arange(rows * columns)
    return np.asarray(
        normal(bits(stream(SEED, label), index), np.float64).reshape(rows, columns), np.float64
    )


def true_scores() -> Float64s:
    """Return the noise-free score of each item for each user, (USERS, ITEMS)."""
    cluster = integers(bits(stream(SEED, "cluster of user"), np.arange(USERS)), CLUSTERS)
    centres = _normals("cluster centres", CLUSTERS, FACTORS)
    users = CLUSTER_WEIGHT * centres[cluster] + OWN_WEIGHT * _normals("users", USERS, FACTORS)
    items = _normals("items", ITEMS, FACTORS) * math.sqrt(1 / FACTORS)
    rank = Permutation(stream(SEED, "popularity rank"), ITEMS)(np.arange(ITEMS)) + 1
    match = np.zeros((USERS, ITEMS))
    # The factors are summed in a fixed order. A library's matrix product may sum the factors in any
    # order, so the rounding would differ between machines.
    for factor in range(FACTORS):
        match += users[:, factor, None] * items[None, :, factor]
    return MATCH_WEIGHT * match - log(rank)


def generate() -> tuple[Int64s, Int64s, Int64s]:
    """Return user, item, and position in the user's history of each rating.

    All three arrays (n,) are sorted by user and item.
    """
    draws = uniform(bits(stream(SEED, "gumbel"), np.arange(USERS * ITEMS))).reshape(USERS, ITEMS)
    scores = true_scores() - NOISE * log(-log(draws + 2.0**-54))
    spread = normal(bits(stream(SEED, "ratings of user"), np.arange(USERS)), np.float64)
    counts = [
        max(MINIMUM_RATINGS, round(RATINGS_MEDIAN * math.exp(RATINGS_SPREAD * z)))
        for z in spread.tolist()
    ]
    best = np.argsort(-scores, axis=1, kind="stable")
    chosen = np.zeros((USERS, ITEMS), bool)
    np.put_along_axis(chosen, best, np.arange(ITEMS) < np.array(counts)[:, None], axis=1)
    user, item = np.nonzero(chosen)
    # The position of an item in a user's history is the rank of the item's hash among the user's
    # hashes.
    order = np.lexsort((bits(stream(SEED, "history"), user, item), user))
    position = np.empty(len(user), np.int64)
    position[order] = np.arange(len(user)) - np.searchsorted(user, user)[order]
    return user, item, position


def ratings_csv() -> str:
    """Return the data set as the content of a `ratings.csv` file.

    Ids start at 1, stars are drawn by hash, and the ratings of a user are one hour apart.
    """
    user, item, position = generate()
    stars = (integers(bits(stream(SEED, "stars"), np.arange(len(user))), 10) + 1) / 2
    time = FIRST_SECOND + position * 3600 + user * 7
    rows = zip((user + 1).tolist(), (item + 1).tolist(), stars.tolist(), time.tolist(), strict=True)
    return files.HEADER.decode() + "\n" + "".join(f"{u},{i},{s},{t}\n" for u, i, s, t in rows)


class MLDemo(Generated, MovieLens):
    """Generated data set with the same file layout and preparation as MovieLens."""

    name = "ml-demo"

    def generate(self, folder: Path) -> Manifest:
        """Write `raw/ratings.csv` and the prepared arrays, and return the manifest.

        The generation takes about a second.
        """
        raw = folder / "raw" / "ratings.csv"
        raw.parent.mkdir()
        raw.write_text(ratings_csv(), encoding="ascii")
        ratings = files.read(raw)
        result = split(ratings)
        write(result, folder)
        return self.manifest(ratings, result, MINIMUM_RATINGS)
