"""Untrusted files with random damage are refused in plain lines, within ten seconds.

Logs must not give implausible numbers.
"""

import contextlib
import random
import shutil
import signal

import pandas as pd
import pytest

from suite.results import table
from tests.helpers import PROJECT, suite_here
from tests.suite.commands.test_special_files import bounded  # noqa: F401 - a fixture
from tests.workloads.common.coco import synthetic_coco
from tests.workloads.common.text import synthetic_text
from workloads.common.coco.dataset import Coco2017
from workloads.common.text.dataset import WMT16EnDe
from workloads.ncf.dataset import ML20M

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("bounded")]

LOGS = sorted((PROJECT / "tests" / "data" / "logs").rglob("*.txt"))
LONGEST_SECONDS = 10
NUMBERS = b'1e400 -1 0 NaN -Infinity 99999999999999999999 1e-320 true null "7" [[]]'.split()
TEXTS = [
    *b'\0 \xff\xfe \r " } <script>alert(1)</script> ::'.split(b" "),
    *("\u202e\u2028".encode(), b"{" * 500, b"a" * 100_000),
]


def damaged(data, rng):
    data = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        first = rng.randrange(len(data) + 1)
        length = rng.choice((1, 1, 8, 60, 2_000))
        kind = rng.randrange(6)
        if kind == 0 and data:
            data[first % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[first : first + length]
        elif kind == 2:
            data[first:first] = data[first : first + length] * rng.choice((1, 3))
        elif kind == 3:
            data[first:first] = rng.choice(TEXTS)
        elif kind == 4:
            del data[first:]
        else:
            digits = [
                offset
                for offset in range(first, min(first + 400, len(data)))
                if chr(data[offset]).isdigit()
            ]
            if digits:
                stop = digits[0]
                while stop < len(data) and chr(data[stop]).isdigit():
                    stop += 1
                data[digits[0] : stop] = rng.choice(NUMBERS)
    return bytes(data)


@contextlib.contextmanager
def within(seconds):
    """Raise TimeoutError if the block uses more than this CPU time."""

    def late(number, frame):
        raise TimeoutError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def is_plain(text):
    """Return whether the text of an error is empty or consists of a few short lines.

    Data sets of images list the unusable files, one per line.
    """
    lines = text.splitlines()
    return len(lines) <= 30 and all(10 < len(line) < 2_000 and line.isprintable() for line in lines)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_logs_give_plausible_numbers_and_no_traceback(tmp_path, seed):
    """Read 100 of 2,000 damaged logs, in folders of 25."""
    rng = random.Random(seed)
    for number in range(100):
        name = f"{number // 25}/job{number}/run_0/result_0.txt"
        write(tmp_path / "logs" / name, damaged(rng.choice(LOGS).read_bytes(), rng))
    successes = 0
    for folder in sorted((tmp_path / "logs").iterdir()):
        with within(LONGEST_SECONDS):
            rows = table(folder)
        assert len(rows) == 25
        good = rows[rows.status == "success"]
        successes += len(good)
        for name in ("seconds", "train_seconds", "evaluation_seconds", "epochs", "samples"):
            values = pd.to_numeric(good[name]).dropna()
            assert ((values >= 0) & (values < 1e15)).all(), values
        for arguments in (
            ("report", folder, "--html", tmp_path / "page.html"),
            ("check", folder),
            ("tables", folder),
        ):
            with within(LONGEST_SECONDS):
                done = suite_here(tmp_path, *arguments)
            assert done.returncode in (0, 1, 2), done.stderr
            assert "Traceback" not in done.stdout + done.stderr
            assert arguments[0] != "report" or (tmp_path / "page.html").exists(), done.stderr
        assert "<script>alert" not in (tmp_path / "page.html").read_text()
    assert 5 < successes < 95


def prepared(dataset, source, destination):
    """Prepare and verify a data set, or check that the error is plain."""
    try:
        with within(LONGEST_SECONDS):
            dataset.prepare(source, destination)
            dataset.verify(destination)
    except ValueError as error:
        message = str(error)
    else:
        message = ""
    assert is_plain(message), message
    shutil.rmtree(destination, ignore_errors=True)


@pytest.mark.parametrize("seed", range(10))
def test_damaged_annotations_are_refused_in_plain_lines(tmp_path, seed):
    """Prepare 50 of 500 damaged annotation files."""
    rng, root = random.Random(seed), synthetic_coco.write(tmp_path / "coco")
    path = synthetic_coco.path(root)
    whole = path.read_bytes()
    for _ in range(50):
        path.write_bytes(damaged(whole, rng))
        prepared(Coco2017(), root, tmp_path / "prepared")


@pytest.mark.parametrize("seed", range(5))
def test_damaged_ratings_are_refused_in_plain_lines(tmp_path, seed):
    """Prepare 50 of 250 damaged files of ratings."""
    rng = random.Random(seed)
    rows = [
        f"{user},{item},3.5,{1_000 + item}"
        for user in range(1, 30)
        for item in rng.sample(range(1, 99), 25)
    ]
    whole = "\n".join(["userId,movieId,rating,timestamp", *rows, ""]).encode()
    for _ in range(50):
        write(tmp_path / "ratings.csv", damaged(whole, rng))
        prepared(ML20M(), tmp_path / "ratings.csv", tmp_path / "prepared")


@pytest.mark.parametrize("seed", range(5))
def test_damaged_text_is_refused_in_plain_lines(tmp_path, seed):
    """Prepare 50 of 250 processed texts with a damaged file."""
    rng, root = random.Random(seed), tmp_path / "text"
    synthetic_text.write_processed(root)
    files = sorted(root.iterdir())
    for _ in range(50):
        path = rng.choice(files)
        whole = path.read_bytes()
        path.write_bytes(damaged(whole, rng))
        prepared(WMT16EnDe(), root, tmp_path / "prepared")
        path.write_bytes(whole)
