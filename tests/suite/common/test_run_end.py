"""The end of a run: codes in files, and codes derived from the sentences of older versions."""

import pytest

from suite.common.logged_end import read_logged_end
from suite.common.run_end import EndCode, EndStatus, RunEnd
from suite.common.status_file import StatusFile
from testing.fake_logs import demo_log, write


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        ({"status": "success", "reason": ""}, EndStatus.SUCCESS, EndCode.NONE),
        ({"status": "running", "reason": ""}, EndStatus.RUNNING, EndCode.NOT_ENDED),
        (
            {"status": "target_missed", "reason": "after 10 steps"},
            EndStatus.TARGET_MISSED,
            EndCode.TARGET_MISSED,
        ),
        (
            {"status": "oom", "reason": "process 0: out of memory"},
            EndStatus.OOM,
            EndCode.OUT_OF_MEMORY,
        ),
        (
            {"status": "failed", "reason": "process 0: NonFiniteLossError: nan"},
            EndStatus.FAILED,
            EndCode.DIVERGED,
        ),
        (
            {"status": "failed", "reason": "process 3 on n-1: NonFiniteLossError: nan"},
            EndStatus.FAILED,
            EndCode.DIVERGED,
        ),
        (
            {"status": "rank_died", "reason": "killed; no space left in /"},
            EndStatus.RANK_DIED,
            EndCode.DISK_FULL,
        ),
        ({"status": "hung", "reason": "no progress"}, EndStatus.HUNG, EndCode.ERROR),
        (
            {"status": "failed", "reason": "NonFiniteLossError: nan", "code": "error"},
            EndStatus.FAILED,
            EndCode.ERROR,
        ),
        (
            {"status": "failed", "reason": "any words", "code": "diverged"},
            EndStatus.FAILED,
            EndCode.DIVERGED,
        ),
        (
            {"status": "failed", "reason": "NonFiniteLossError: nan", "code": "of a later version"},
            EndStatus.FAILED,
            EndCode.DIVERGED,
        ),
        (
            {"status": "failed", "reason": "", "code": ["no", "code"]},
            EndStatus.FAILED,
            EndCode.NONE,
        ),
        ({"status": "of a later version", "reason": "why"}, EndStatus.FAILED, EndCode.ERROR),
    ],
)
def test_status_files_of_all_versions_are_read(content, status, code):
    assert StatusFile.from_json(content).end == RunEnd(status, code, content["reason"])


def test_an_object_without_a_status_has_no_end():
    assert StatusFile.from_json({}).end is None
    assert StatusFile.from_json({"status": ""}).end is None


@pytest.mark.parametrize(
    ("options", "status", "code", "is_finished"),
    [
        ({}, EndStatus.SUCCESS, EndCode.NONE, True),
        ({"qualities": (0.1,)}, EndStatus.ABORTED, EndCode.NONE, True),
        (
            {"reason": "NonFiniteLossError: the loss is nan", "status": "aborted"},
            EndStatus.ABORTED,
            EndCode.DIVERGED,
            False,
        ),
        ({"reason": "OSError: gone", "status": "aborted"}, EndStatus.ABORTED, EndCode.ERROR, False),
        ({"reason": "OSError: gone", "status": "success"}, EndStatus.SUCCESS, EndCode.ERROR, False),
    ],
)
def test_the_end_of_a_log_is_read(tmp_path, options, status, code, is_finished):
    end = read_logged_end(write(tmp_path / "result_0.txt", demo_log(**options)))
    assert (end.status, end.code, end.is_finished) == (status, code, is_finished)
    assert end.detail == options.get("reason", "")


def test_documented_codes_never_change():
    """Keep the names of codes, because external programs read them."""
    assert {code.value for code in EndCode} >= {
        "",
        "diverged",
        "disk_full",
        "out_of_memory",
        "error",
        "target_missed",
    }
