import hashlib
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from workloads.ncf import ratings

HEADER = "userId,movieId,rating,timestamp\n"
ROWS = [(user, item, 100 + item) for user in range(1, 4) for item in range(1, 30)]
CSV = HEADER + "".join(f"{u},{i},3.5,{t}\n" for u, i, t in ROWS)
DAT = "".join(f"{u}::{i}::3::{t}\n" for u, i, t in ROWS)
TAB = "".join(f"{u}\t{i}\t3\t{t}\n" for u, i, t in ROWS)


def write(folder: Path, text: str | bytes, name: str = "ratings.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def write_zip(folder: Path, members: dict[str, str], name: str = "ml.zip") -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in members.items():
            archive.writestr(member, text)
    return path


NO_ZIPS = (b"", b"PK\3\4" + b"x" * 100, b"not a zip\n")


def wrong_sum() -> bytes:
    """Return a zip whose content was changed to a different valid line.

    Only the checksum reveals the change.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("ml/ratings.csv", HEADER + CSV.removeprefix(HEADER) * 400)
    return packed.getvalue().replace(b"\n1,9,3.5,", b"\n2,9,3.5,", 1)


def refused(path: Path) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        ratings.read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message or str(path) in message
    return message


def test_a_zip_that_unpacks_to_too_much_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = write_zip(tmp_path, {"ratings.csv": CSV})
    assert len(ratings.read(path).user) == len(ROWS)
    monkeypatch.setattr(ratings, "MAX_BYTES", len(CSV) - 1)
    assert (
        f"ratings.csv unpacks to {len(CSV):,} bytes, allowed: at most {len(CSV) - 1:,}. "
        in refused(path)
    )


@pytest.mark.parametrize("text", [CSV, CSV.replace("\n", "\r\n"), DAT, TAB])
@pytest.mark.parametrize("rows_per_chunk", [3, 10, 1000])
def test_three_layouts_are_recognized_by_content(tmp_path, text, rows_per_chunk, monkeypatch):
    monkeypatch.setattr(ratings, "ROWS_PER_CHUNK", rows_per_chunk)
    found = ratings.read(write(tmp_path, text, "whatever.txt"))
    assert (
        list(zip(found.user.tolist(), found.item.tolist(), found.time.tolist(), strict=True))
        == ROWS
    )
    assert found.user.dtype == found.item.dtype == found.time.dtype == np.int64
    assert (found.bytes, found.sha256) == (len(text), hashlib.sha256(text.encode()).hexdigest())
    assert ratings.digest(tmp_path / "whatever.txt") == found.sha256


@pytest.mark.parametrize(
    ("member", "text"), [("ratings.csv", CSV), ("ratings.dat", DAT), ("u.data", TAB)]
)
def test_a_zip_is_read_without_extracting_it(tmp_path, member, text):
    path = write_zip(
        tmp_path, {"ml/README": "x", f"ml/{member}": text, "ml/deeper/u.data": "1\t2\t3\t4\n"}
    )
    found = ratings.read(path)
    assert len(found.user) == len(ROWS)
    assert found.name == f"ml.zip:ml/{member}"
    assert found.sha256 == ratings.digest(path) == hashlib.sha256(text.encode()).hexdigest()
    assert [file.name for file in tmp_path.iterdir()] == ["ml.zip"]


@pytest.mark.parametrize("hidden", ["__MACOSX/ml", ".cache", "__MACOSX"])
def test_hidden_members_of_a_zip_are_skipped(tmp_path, hidden):
    path = write_zip(
        tmp_path,
        {f"{hidden}/ratings.csv": "x", f"{hidden}/._ratings.csv": "x", "ml/a/ratings.csv": CSV},
    )
    assert ratings.read(path).name == "ml.zip:ml/a/ratings.csv"


@pytest.mark.parametrize("text", [CSV, DAT, TAB], ids=["csv", "dat", "tab"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "mark"])
@pytest.mark.parametrize("packed", [False, True], ids=["file", "zip"])
def test_a_byte_order_mark_and_any_line_end(tmp_path, text, end, mark, packed):
    content = (mark + text).replace("\n", end)
    path = write_zip(tmp_path, {"ml/ratings.csv": content}) if packed else write(tmp_path, content)
    found = ratings.read(path)
    assert list(zip(found.user, found.item, found.time, strict=True)) == ROWS
    assert found.sha256 == ratings.digest(path)


def test_ratings_in_utf16_are_refused(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"^ratings\.csv: expected UTF-8 text, got UTF-16\. Save the file as UTF-8$",
    ):
        ratings.read(write(tmp_path, CSV.encode("utf-16")))


def test_paths_in_a_zip_are_not_used(tmp_path):
    (tmp_path / "inner").mkdir()
    path = write_zip(tmp_path / "inner", {"../../ratings.csv": CSV})
    assert len(ratings.read(path).user) == len(ROWS)
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["inner", "ml.zip"]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (CSV + "3,4\n", 89, "expected 4 fields (user, item, rating, timestamp), got 2"),
        (
            CSV + "3,4,3.5\n4,1,2,3\n",
            89,
            "expected 4 fields (user, item, rating, timestamp), got 3",
        ),
        (
            HEADER + "1,2,3,4,5\n1,2,3,4\n",
            2,
            "expected 4 fields (user, item, rating, timestamp), got 5",
        ),
        (CSV[:-1], 88, "truncated"),
        (CSV + "3,4,3.5,12", 89, "truncated"),
        (CSV + "nan,3,4,5\n", 89, "user id: expected an integer ≥ 0, got 'nan'"),
        (CSV + "1.5,3,4,5\n", 89, "user id: expected an integer ≥ 0, got '1.5'"),
        (CSV + "1,-3,4,5\n", 89, "item id: expected an integer ≥ 0, got '-3'"),
        (CSV + "1,0x3,4,5\n", 89, "item id: expected an integer ≥ 0, got '0x3'"),
        (CSV + '"1",3,4,5\n', 89, "user id"),
        (CSV + "1,3,4,\n", 89, "timestamp: expected an integer ≥ 0, got ''"),
        (CSV + "1,3,4,-5\n", 89, "timestamp: expected an integer ≥ 0, got '-5'"),
        (
            CSV + "99999999999999999999,3,4,5\n",
            89,
            "user id: expected an integer ≥ 0, got '99999999999999999999'",
        ),
        (CSV + "1,2,good,4\n", 89, "rating: expected a number"),
        (CSV + "1,2,inf,4\n", 89, "rating: expected a number"),
        (CSV + "\n", 89, "empty line"),
        (HEADER + "\n" + CSV[len(HEADER) :], 2, "empty line"),
        (CSV + "1,2\0,3,4\n", 89, "item id"),
        (CSV.encode() + b"1,2\xff,3,4\n", 89, "item id"),
        (DAT + "1::2::3\n", 88, "expected 4 fields (user, item, rating, timestamp), got 3"),
        (DAT + "1:5:2::3::4\n", 88, "expected 4 fields (user, item, rating, timestamp), got 3"),
        (TAB + "1\t2\t3\t4\t5\n", 88, "expected 4 fields (user, item, rating, timestamp), got 5"),
        ("hello world\n", 1, "got 'hello world'"),
        ("userId,movieId,tag,timestamp\n1,2,x,3\n", 1, "not a MovieLens ratings file"),
        (bytes(range(256)) * 50, 1, "not a MovieLens ratings file"),
        (b"\x80\x04\x95pickle", 1, "not a MovieLens ratings file"),
    ],
)
def test_the_message_on_a_bad_line_has_its_number(tmp_path, text, line, what):
    message = refused(write(tmp_path, text))
    assert message.startswith(f"ratings.csv, line {line}: ")
    assert what in message


@pytest.mark.parametrize("rows_per_chunk", [2, 10, 87])
@pytest.mark.parametrize("line", ["3,4", "1,2,3,4,5", "1,2,3,4,", "", "1,2,3,-4"])
def test_a_bad_line_beyond_the_first_chunk_has_its_number(
    tmp_path, monkeypatch, rows_per_chunk, line
):
    monkeypatch.setattr(ratings, "ROWS_PER_CHUNK", rows_per_chunk)
    assert "ratings.csv, line 89: " in refused(write(tmp_path, CSV + line + "\n"))
    assert "ratings.csv, line 89: " in refused(write(tmp_path, CSV + line + "\n" + "1,2,3,4\n" * 5))


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda folder: write(folder, ""), "is empty"),
        (lambda folder: write(folder, HEADER), "no ratings"),
        (lambda folder: write(folder, HEADER[:-1]), "no ratings"),
        (lambda folder: folder / "nowhere.csv", "no such file"),
        (lambda folder: folder, "is a folder"),
        (
            lambda folder: pipe(folder / "ratings.csv"),
            "not a regular file). Set --from to the ratings file, or to the zip",
        ),
        (
            lambda folder: write_zip(folder, {"a.csv": CSV}),
            "contains no ratings file, expected ratings.csv",
        ),
        (
            lambda folder: write_zip(folder, {"ml/ratings.csv": CSV + "1,2\n"}),
            "ml.zip:ml/ratings.csv, line 89: ",
        ),
        *(
            (lambda folder, data=data: write(folder, data, "ml.zip"), "the zip file is damaged")
            for data in (wrong_sum(), *NO_ZIPS)
        ),
    ],
)
def test_sources_without_ratings_are_rejected(tmp_path, make, what):
    assert what in refused(make(tmp_path))


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path
