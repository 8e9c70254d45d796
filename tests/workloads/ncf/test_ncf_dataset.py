import hashlib
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import examples, written
from workloads.api.fingerprints import FINGERPRINTS, NOT_VERIFIED
from workloads.common.data.published import COUNTS
from workloads.ncf.dataset import ML1M, ML20M, ML100K, split
from workloads.ncf.dataset_info import load_dataset_info
from workloads.ncf.ratings import Ratings

HEADER = "userId,movieId,rating,timestamp\n"


def table(rows: list[tuple[int, int, int]]) -> Ratings:
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return Ratings(columns[:, 0], columns[:, 1], columns[:, 2], "synthetic", 0, "")


def slow_split(rows: list[tuple[int, int, int]], minimum: int) -> dict[str, list[int]]:
    """Return the split by its definition, computed with dictionaries."""
    latest: dict[tuple[int, int], tuple[int, int]] = {}
    for place, (user, item, time) in enumerate(rows):
        if (user, item) not in latest or (time, place) > latest[user, item]:
            latest[user, item] = (time, place)
    kept = sorted((place, user, item, time) for (user, item), (time, place) in latest.items())
    counts: dict[int, int] = defaultdict(int)
    for _, user, _, _ in kept:
        counts[user] += 1
    kept = [row for row in kept if counts[row[1]] >= minimum]
    users: dict[int, int] = {}
    items: dict[int, int] = {}
    histories: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for place, user, item, time in kept:
        number = users.setdefault(user, len(users))
        histories[number].append((time, place, items.setdefault(item, len(items))))
    found: dict[str, list[int]] = {"train_user": [], "train_item": [], "test_item": []}
    for user in range(len(users)):
        test = max(histories[user])
        found["test_item"].append(test[2])
        for row in histories[user]:
            if row is not test:
                found["train_user"].append(user)
                found["train_item"].append(row[2])
    return found


@examples(300)
@given(
    st.lists(
        st.tuples(st.integers(3, 7), st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=60
    ),
    st.integers(2, 5),
)
def test_split_equals_the_slow_version(rows, minimum):
    expected = slow_split(rows, minimum)
    if not expected["test_item"]:
        with pytest.raises(ValueError, match="no user has"):
            split(table(rows), minimum, require_two=False)
        return
    found = split(table(rows), minimum, require_two=False)
    for name, values in expected.items():
        array = getattr(found, name)
        assert array.dtype == np.int32
        assert array.tolist() == values
    assert found.items == max(expected["train_item"] + expected["test_item"]) + 1
    assert found.duplicates == len(rows) - len({row[:2] for row in rows})


@pytest.mark.parametrize(
    ("rows", "test", "train", "duplicates"),
    [
        (
            [(1, 5, 7), (1, 6, 7), (1, 4, 7), (1, 3, 2)],
            [2],
            [0, 1, 3],
            0,
        ),  # among equal times, the last line of the file counts
        (
            [(1, 5, 9), (1, 6, 3), (1, 5, 1), (1, 7, 4)],
            [0],
            [1, 2],
            1,
        ),  # of repeated ratings, only the latest counts
    ],
)
def test_which_rating_is_the_test_item(rows, test, train, duplicates):
    found = split(table(rows), 2)
    assert (found.test_item.tolist(), found.train_item.tolist(), found.duplicates) == (
        test,
        train,
        duplicates,
    )


def test_a_single_rating_is_an_error_naming_the_user():
    rows = [(1, item, item) for item in range(30)] + [(77, 3, 4), (77, 3, 9)]
    with pytest.raises(
        ValueError, match=r"synthetic: user 77 has 1 rating, .* set --min-ratings 20"
    ):
        split(table(rows))
    found = split(table(rows), 20, require_two=False)
    assert (found.users_dropped, found.counts["users"]) == (1, 1)


def write_source(
    folder: Path, users: int = 5, ratings: int = 25, name: str = "ratings.csv"
) -> Path:
    path = folder / name
    path.write_text(
        HEADER
        + "".join(
            f"{u},{i},4.0,{i * 10}\n" for u in range(1, users + 1) for i in range(u, u + ratings)
        )
    )
    return path


def test_prepare_writes_arrays_and_manifest(tmp_path):
    source, destination = write_source(tmp_path), tmp_path / "data" / "ml-1m"
    lines = ML1M().prepare(source, destination)
    assert "5 users, 29 items, 120 training positives" in lines[0]
    user, item, test = (
        np.load(destination / f"{name}.npy") for name in ("train_user", "train_item", "test_item")
    )
    assert user.tolist() == np.repeat(np.arange(5), 24).tolist()
    assert (item.shape, test.tolist()) == ((120,), [24, 25, 26, 27, 28])
    manifest = json.loads((destination / "manifest.json").read_text())
    assert manifest["options"] == {"minimum_ratings": 20}
    assert manifest["source"]["sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert manifest["source"]["name"] == "ratings.csv"
    assert manifest["counts"]["train"] == 120
    assert manifest["matches_published"] is False
    assert ML1M().verify(destination)[-2].startswith("ml-1m: sound")
    dataset_info = load_dataset_info(destination)
    assert (dataset_info.train_samples, dataset_info.evaluation_samples) == (120, 5)
    assert dataset_info.sizes == {"users": 5, "items": 29, "min_ratings": 20}
    assert dataset_info.fingerprint == manifest["fingerprint"]
    assert "counts differ from the published ml-1m" in dataset_info.notes[0]


def test_the_published_file_is_recognized_by_its_counts_and_digest(tmp_path, monkeypatch):
    source = write_source(tmp_path)
    monkeypatch.setitem(COUNTS, "ml-100k", {"ratings": 125, "users": 5, "items": 29})
    lines = ML100K().prepare(source, tmp_path / "invented")
    assert lines[1:] == [
        "notice: content not known to be the published ml-100k's: prepare it from ml-100k.zip, "
        "MD5 0e33842e24a9c977be4e0107933c0723"
    ]
    assert len(load_dataset_info(tmp_path / "invented").notes) == 1
    monkeypatch.setattr(ML100K, "archive_md5", hashlib.md5(source.read_bytes()).hexdigest())
    lines = ML100K().prepare(source, tmp_path / "published")
    assert lines[1:] == [
        "notice: data set fingerprint not verified, so runs are open"
        " (docs/explanation/open_and_closed_division.md)"
    ]
    assert ML100K().verify(tmp_path / "published")[-1] == lines[1]
    manifest = json.loads((tmp_path / "published" / "manifest.json").read_text())
    assert (manifest["matches_published"], manifest["compared"]) == (True, "ml-100k.zip by MD5")
    assert load_dataset_info(tmp_path / "published").notes == (NOT_VERIFIED,)
    monkeypatch.setitem(FINGERPRINTS, "ml-100k", {manifest["fingerprint"]: "small"})
    assert load_dataset_info(tmp_path / "published").notes == ()


def test_data_prepared_before_contents_were_compared_are_open(tmp_path, monkeypatch):
    monkeypatch.setitem(COUNTS, "ml-1m", {"ratings": 125, "users": 5, "items": 29})
    ML1M().prepare(write_source(tmp_path), tmp_path / "p")
    change_manifest(tmp_path / "p", compared=None, notes=[], matches_published=True)
    assert load_dataset_info(tmp_path / "p").notes == (
        "prepared before ml-1m's content was compared",
    )


def test_the_manifest_of_other_data_is_rejected(tmp_path):
    ML1M().prepare(write_source(tmp_path), tmp_path / "p")
    change_manifest(tmp_path / "p", counts={"images": 3})
    with pytest.raises(ValueError, match="expected the manifest of a MovieLens data set"):
        load_dataset_info(tmp_path / "p")


def change_manifest(folder: Path, **changes) -> None:
    """Change values of the manifest. None removes an entry."""
    path = folder / "manifest.json"
    values = {**json.loads(path.read_text()), **changes}
    path.write_text(
        json.dumps(
            {name: value for name, value in values.items() if changes.get(name, "") is not None}
        )
    )


def test_published_counts():
    """Compare with the README files of the data sets."""
    found = {
        kind.name: [COUNTS[kind.name][key] for key in ("ratings", "users", "items")]
        for kind in (ML20M, ML1M, ML100K)
    }
    published = {"ml-20m": [20_000_263, 138_493, 26_744], "ml-1m": [1_000_209, 6_040, 3_706]}
    assert found == {**published, "ml-100k": [100_000, 943, 1_682]}


def test_dropped_ratings_are_reported(tmp_path):
    source = write_source(tmp_path)
    with source.open("a") as file:
        file.writelines(f"9,{i},3.0,5\n" for i in range(1, 8))
        file.write("1,1,5.0,99999\n")
    dataset = ML1M()
    dataset.min_ratings = 9
    lines = dataset.prepare(source, tmp_path / "x")
    assert load_dataset_info(tmp_path / "x").sizes["min_ratings"] == 9
    assert "notice: dropped 1 users with fewer than 9 ratings" in lines
    assert "notice: dropped 1 repeated ratings and kept the latest of each" in lines


def test_the_same_source_is_skipped_and_a_different_source_is_rejected(tmp_path):
    source, destination = write_source(tmp_path), tmp_path / "x"
    ML1M().prepare(source, destination)
    before = written(destination)
    assert ML1M().prepare(source, destination) == [f"ml-1m: already prepared in {destination}"]
    different = write_source(tmp_path, users=6, name="other.csv")
    stricter = ML1M()
    stricter.min_ratings = 21
    for dataset, file in ((ML1M(), different), (stricter, source), (ML100K(), source)):
        with pytest.raises(ValueError, match=r"holds ml-1m .* --to, or remove this folder"):
            dataset.prepare(file, destination)
    assert written(destination) == before


def test_a_failed_preparation_leaves_nothing(tmp_path):
    source = write_source(tmp_path)
    source.write_text(source.read_text() + "1,2\n")
    with pytest.raises(ValueError, match="line 127"):
        ML1M().prepare(source, tmp_path / "data" / "x")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("minimum", "message"),
    [
        *((minimum, f"--min-ratings {minimum}: ") for minimum in (1, 0, -5)),
        (26, r"no user has 26 ratings \(the maximum is 25\)\. Set a smaller --min-ratings"),
    ],
)
def test_invalid_minimum_ratings_are_rejected(tmp_path, minimum, message):
    dataset = ML1M()
    dataset.min_ratings = minimum
    with pytest.raises(ValueError, match=message):
        dataset.prepare(write_source(tmp_path), tmp_path / "x")


def test_verify_reports_the_problem(tmp_path):
    with pytest.raises(ValueError, match="suite data prepare ml-1m --from FILE_OR_ZIP"):
        ML1M().verify(tmp_path / "x")
    ML1M().prepare(write_source(tmp_path), tmp_path / "x")
    with pytest.raises(ValueError, match="holds ml-1m, not ml-20m"):
        ML20M().verify(tmp_path / "x")
    data = bytearray((tmp_path / "x" / "train_item.npy").read_bytes())
    data[-1] ^= 1
    (tmp_path / "x" / "train_item.npy").write_bytes(data)
    with pytest.raises(ValueError, match=r"train_item\.npy: content differs"):
        ML1M().verify(tmp_path / "x")
