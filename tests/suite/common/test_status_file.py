"""`status.json`: reading returns the written values, and any content raises at most ValueError."""

import contextlib
import json

import pytest

from suite.common.logged_end import read_filed_end
from suite.common.run_end import EndCode, EndStatus
from suite.common.status_file import StatusFile
from suite.results.logs.collect import filed_end

WHOLE = StatusFile(
    *(
        "failed",
        "process 3: é",
        3,
        "node1",
        "diverged",
        "2026-01-01T00:00:00.000+00:00",
        "2026-01-01T00:00:02.500+00:00",
    ),
    *({"pid": 1}, 2, "ncf", "pytorch", "demo", 4, ("data changed",)),
)


def test_a_status_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "status.json"
    for status in (WHOLE, StatusFile("running")):
        status.write(path)
        assert StatusFile.read(path) == status
    assert WHOLE.seconds == 2.5


def test_the_file_has_the_documented_keys(tmp_path):
    """Keep the keys, because external programs read them; empty node and reasons are omitted."""
    path = tmp_path / "status.json"
    WHOLE.write(path)
    keys = [
        *(
            "status",
            "reason",
            "process",
            "node",
            "code",
            "started",
            "ended",
            "controller",
            "run_index",
            "workload",
        ),
        *("framework", "profile", "devices", "open_reasons"),
    ]
    assert list(json.loads(path.read_text())) == keys
    StatusFile("running").write(path)
    assert list(json.loads(path.read_text())) == [
        key for key in keys if key not in ("node", "open_reasons")
    ]


def test_a_file_of_an_older_version_is_read(tmp_path):
    path = tmp_path / "status.json"
    path.write_text(
        '{"status": "failed", "reason": "process 0: NonFiniteLossError: nan", "ended": null,'
        ' "new": {}}'
    )
    found = StatusFile.read(path)
    assert (found.end.status, found.end.code, found.controller, found.open_reasons) == (
        EndStatus.FAILED, EndCode.DIVERGED, None, (),
    )  # fmt: skip
    with pytest.raises(ValueError, match="no start or no end"):
        _ = found.seconds


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"7",
        b"[" * 100_000,
        b"9" * 5000,
        b"\xff\xfe",
        b'"\xff"',
        b"{}" + b" " * (1 << 20),
    ],
)
def test_a_damaged_file_has_no_end(tmp_path, content):
    path = tmp_path / "status.json"
    path.write_bytes(content)
    with pytest.raises((ValueError, OSError)):
        StatusFile.read(path)
    assert filed_end(path) is None
    assert read_filed_end(tmp_path) is None


@pytest.mark.parametrize("value", [None, True, 7, -1.5, "x", [], [[1]], {}, {"a": 1}])
def test_values_of_wrong_types_are_ignored(tmp_path, value):
    path = tmp_path / "status.json"
    names = StatusFile.__dataclass_fields__
    path.write_text(json.dumps({**dict.fromkeys(names, value), "status": "oom"}))
    found = StatusFile.read(path)
    assert found.end.status is EndStatus.OOM
    hash(found.open_reasons)
    with contextlib.suppress(ValueError):
        assert found.seconds >= 0
    path.write_text(json.dumps({"status": value}))
    assert filed_end(path) is None if not value else filed_end(path).status is EndStatus.FAILED
