"""The end of a command, after its last run."""

import os
import signal
from importlib import import_module
from types import SimpleNamespace
from unittest import mock

import pytest

from suite.control.interrupts import WholeLines
from suite.control.run_status import RunStatus
from suite.control.summary import print_summary
from suite.control.sweep import EndedRun
from suite.results.views import report_view
from tests.suite.control.test_interrupts import listening  # noqa: F401 (a fixture)


def interrupt(*_, **__):
    os.kill(os.getpid(), signal.SIGTERM)


NO_SPACE, UNREADABLE = OSError(28, "No space left on device"), ValueError("result_0.txt: not a log")


@pytest.mark.parametrize(
    ("effect", "code", "message"),
    [
        (interrupt, 130, "interrupted after the runs, which are kept"),
        (NO_SPACE, 0, "run_suite.py: no report: No space left on device. The runs are kept"),
        (UNREADABLE, 0, "run_suite.py: no report: result_0.txt: not a log. The runs are kept"),
    ],
)
@pytest.mark.usefixtures("listening")
def test_runs_without_a_table_are_named_and_kept(
    tmp_path, monkeypatch, capsys, effect, code, message
):
    monkeypatch.setattr(report_view, "report", mock.Mock(side_effect=effect))
    monkeypatch.setattr(import_module("suite.results.table"), "table", lambda folders: folders)
    job = SimpleNamespace(name="job", folder=tmp_path / "my runs" / "job")
    (job.folder / "run_0").mkdir(parents=True)
    (job.folder / "run_0" / "result_0.txt").touch()
    ended = [EndedRun(job, 0, RunStatus("success"))]
    assert print_summary(ended, WholeLines(), 0) == code
    printed = "".join(capsys.readouterr())
    (line,) = [
        line for line in printed.splitlines() if "which are kept" in line or "no report" in line
    ]
    assert line == f"{message}. For their report, run: suite report '{tmp_path / 'my runs'}'"
    assert f"Logs  {tmp_path / 'my runs'}\n" in printed
    assert f"suite report '{tmp_path / 'my runs'}' --html report.html\n" in printed
