"""MovieLens preparation: filter users, renumber ids, and hold out one item per user.

The prepared data set consists of memory-mappable arrays: `train_user.npy` and `train_item.npy`,
int32 (P,), sorted by user, then by file order, and `test_item.npy`, int32 (users,). The value of a
rating is ignored, so every rating is a positive sample (reference convert.py). The prepared data do
not include negative items for evaluation, because a run draws these items after its clock has
started.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from workloads.common import manifest as manifests
from workloads.common.arrays import Int32s, Int64s
from workloads.common.data.published import COUNTS
from workloads.common.manifest import Manifest
from workloads.ncf import ratings as files
from workloads.ncf.ratings import Ratings

MINIMUM_RATINGS = 20
"""Minimum number of ratings per user. Users with fewer ratings are dropped (reference convert.py;
logged as preproc_hp_min_ratings).
"""
LEAST_MINIMUM = 2
"""Minimum of the option for the minimum number of ratings per user. The split needs two ratings per
user: a test item and at least one training item.
"""


@dataclass(frozen=True)
class Split:
    """Prepared arrays, with the numbers of dropped duplicates and dropped users."""

    train_user: Int32s
    train_item: Int32s
    test_item: Int32s
    items: int
    duplicates: int
    users_dropped: int

    @property
    def counts(self) -> dict[str, int]:
        """Return the counts for the manifest.

        `ratings` excludes dropped ratings.
        """
        users, train = len(self.test_item), len(self.train_user)
        return {
            "ratings": users + train,
            "users": users,
            "items": self.items,
            "train": train,
            "test": users,
            "duplicates_dropped": self.duplicates,
            "users_dropped": self.users_dropped,
        }


def split(
    ratings: Ratings, minimum_ratings: int = MINIMUM_RATINGS, require_two: bool = True
) -> Split:
    """Return the leave-one-out split, in which each user's latest rating is the test item.

    If several ratings of a user have the latest time, the last of these ratings in the file is the
    test item. A repeated (user, item) pair is used once, with its latest time. Users with fewer
    than `minimum_ratings` items are dropped. Users and items get new ids from 0, in the order of
    their first occurrence in the remaining ratings.

    Raises:
        ValueError: No user has enough items, or `require_two` is set and a user has fewer than two
            items. The error message is one line.
    """
    import pandas

    user, user_ids = pandas.factorize(ratings.user)
    item, item_ids = pandas.factorize(ratings.item)
    time = ratings.time
    keep = _latest(user, item, time, len(item_ids))
    duplicates = len(user) - len(keep)
    if duplicates:
        user, item, time = user[keep], item[keep], time[keep]
    per_user = np.bincount(user, minlength=len(user_ids))
    _check_users(ratings.name, user_ids, per_user, minimum_ratings, require_two)
    poor_users = int(np.count_nonzero(per_user < minimum_ratings))
    if poor_users:
        rich = (per_user >= minimum_ratings)[user]
        user, item, time = user[rich], item[rich], time[rich]
    if poor_users or duplicates:
        user, item = pandas.factorize(user)[0], pandas.factorize(item)[0]
    return _leave_one_out(user, item, time, duplicates, poor_users)


def _check_users(
    name: str, ids: Int64s, per_user: Int64s, minimum_ratings: int, require_two: bool
) -> None:
    """Raise ValueError if no user has enough items, or a user has only one item.

    Users with only one item are an error only with `require_two`.
    """
    if require_two and int(per_user.min()) < LEAST_MINIMUM:
        poor = int(np.argmax(per_user < LEAST_MINIMUM))
        raise ValueError(
            f"{name}: user {ids[poor]} has {per_user[poor]} rating, expected at least"
            f" {LEAST_MINIMUM}. To drop such users, set --min-ratings {minimum_ratings}"
        )
    if int(per_user.max()) < minimum_ratings:
        raise ValueError(
            f"{name}: no user has {minimum_ratings} ratings (the maximum is {per_user.max()}). "
            "Set a smaller --min-ratings"
        )


def _latest(user: Int64s, item: Int64s, time: Int64s, items: int) -> Int64s:
    """Return the ratings to keep, as indices in file order.

    For each repeated (user, item) pair, the latest rating is kept. If the times are equal, the last
    rating in the file is kept.
    """
    pair = user * items + item
    ordered = np.sort(pair)
    if not (ordered[1:] == ordered[:-1]).any():
        return np.arange(len(pair))
    order = np.lexsort((time, pair))
    last = np.append(pair[order][1:] != pair[order][:-1], True)
    return np.sort(order[last])


def _leave_one_out(
    user: Int64s, item: Int64s, time: Int64s, duplicates: int, dropped: int
) -> Split:
    """Sort the ratings by user and hold out the latest rating of each user.

    The ratings of a user keep their order in the file.
    """
    users, items = int(user.max()) + 1, int(item.max()) + 1
    order = np.argsort(user.astype(np.int32), kind="stable")
    user, item, time = user[order], item[order], time[order]
    starts = np.searchsorted(user, np.arange(users))
    latest = np.maximum.reduceat(time, starts)[user] == time
    test = np.maximum.reduceat(np.where(latest, np.arange(len(user)), -1), starts)
    train = np.ones(len(user), bool)
    train[test] = False
    return Split(
        train_user=user[train].astype(np.int32),
        train_item=item[train].astype(np.int32),
        test_item=item[test].astype(np.int32),
        items=items,
        duplicates=duplicates,
        users_dropped=dropped,
    )


def write(result: Split, folder: Path) -> None:
    """Write the arrays of `result` as .npy files."""
    for name in ("train_user", "train_item", "test_item"):
        np.save(folder / f"{name}.npy", getattr(result, name), allow_pickle=False)


class MovieLens(manifests.Prepared):
    """MovieLens data set.

    To change the minimum number of ratings per user, set `min_ratings` before calling `prepare`.
    """

    archive_md5: ClassVar[str] = ""
    """MD5 of the published zip file, from the publisher's NAME.zip.md5."""
    prepare_options = ("min_ratings",)

    def __init__(self) -> None:
        self.min_ratings: int | None = None
        """Minimum number of ratings per user. With None, the minimum is 20 as in the reference,
        and a user with a single rating is an error.
        """

    def prepare(self, source: Path, destination: Path) -> list[str]:
        minimum = MINIMUM_RATINGS if self.min_ratings is None else self.min_ratings
        if minimum < LEAST_MINIMUM:
            raise ValueError(
                f"--min-ratings {minimum}: expected at least {LEAST_MINIMUM}, because each user's"
                " test item is held out"
            )
        origin = {"minimum_ratings": minimum}
        if already_prepared := self.already(
            destination, lambda: Manifest(self.name, {"sha256": files.digest(source)}, origin, {})
        ):
            return already_prepared
        ratings = files.read(source)
        result = split(ratings, minimum, require_two=self.min_ratings is None)
        with manifests.workspace(destination) as folder:
            write(result, folder)
            described = self.manifest(ratings, result, minimum, manifests.sha256(source, "md5"))
            manifest = manifests.publish(folder, destination, described)
        return self.lines(manifest, destination)

    def manifest(self, ratings: Ratings, result: Split, minimum: int, md5: str = "") -> Manifest:
        """Return the manifest without the list of files.

        `md5` is the MD5 of the source file.
        """
        how = f"prepare it from {self.name}.zip, MD5 {self.archive_md5}"
        compared = f"{self.name}.zip by MD5" if md5 == self.archive_md5 and md5 else ""
        notes = manifests.unlike(self.name, result.counts, compared, how)
        return Manifest(
            dataset=self.name,
            source={"name": ratings.name, "bytes": ratings.bytes, "sha256": ratings.sha256},
            options={"minimum_ratings": minimum},
            counts=result.counts,
            notes=notes,
            matches_published=not notes if self.name in COUNTS else None,
            compared=compared,
        )

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        counts = manifest.counts
        lines = [
            f"{self.name}: {counts['users']:,} users, {counts['items']:,} items, "
            f"{counts['train']:,} training positives, one test item per user, in {destination}"
        ]
        if counts["users_dropped"]:
            minimum = manifest.options["minimum_ratings"]
            lines.append(
                f"notice: dropped {counts['users_dropped']:,} users with fewer than {minimum}"
                " ratings"
            )
        if counts["duplicates_dropped"]:
            lines.append(
                f"notice: dropped {counts['duplicates_dropped']:,} repeated ratings and kept the"
                " latest of each"
            )
        return lines + manifest.notices

    def how(self) -> str:
        return f"suite data prepare {self.name} --from FILE_OR_ZIP"


class ML20M(MovieLens):
    """MovieLens 20M (ml-20m.zip), for which the rules define NCF's target of 0.635.

    The numbers of users, items, and ratings are from the data set's README and the reference logs.
    The MD5 digest is also in the reference's verify_dataset.sh.
    """

    name = "ml-20m"
    archive_md5 = "cd245b17a1ae2cc31bb14903e1204af3"


class ML1M(MovieLens):
    """MovieLens 1M (ml-1m.zip).

    The numbers of users, items, and ratings are from the data set's README.
    """

    name = "ml-1m"
    archive_md5 = "c4d9eecfca2ab87c1945afe126590906"


class ML100K(MovieLens):
    """MovieLens 100K (ml-100k.zip).

    The numbers of users, items, and ratings are from the data set's README.
    """

    name = "ml-100k"
    archive_md5 = "0e33842e24a9c977be4e0107933c0723"
