"""The end of a command, after its last run."""

import os
import signal

import pytest

from suite.results.report import report
from tests.helpers import TOY_RUN, only, run_suite_here, status


def interrupt(_):
    os.kill(os.getpid(), signal.SIGTERM)


def no_space(_):
    raise OSError(28, "No space left on device")


def unreadable(_):
    raise ValueError("result_0.txt: not a log")


@pytest.mark.parametrize(
    ("report_text", "code", "said"),
    [
        (interrupt, 130, "interrupted after the runs, which are kept"),
        (no_space, 0, "run_suite.py: no table: No space left on device; the runs are kept"),
        (unreadable, 0, "run_suite.py: no table: result_0.txt: not a log; the runs are kept"),
    ],
)
def test_runs_without_a_table_are_named_and_kept(tmp_path, monkeypatch, report_text, code, said):
    monkeypatch.setattr(report, "report_text", report_text)
    output = tmp_path / "my runs"
    done = run_suite_here(tmp_path, *TOY_RUN, "stop=steps:2", f"output={output}", toy=True)
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == code
    (line,) = [
        line for line in (done.stdout + done.stderr).splitlines() if "which are kept" in line or "no table" in line
    ]
    assert line == f"{said}; for their table type: suite report '{output}'"
    folder = only(output.glob("*/run_0"))
    assert f"Logs:\n  {folder}\n" in done.stdout
    assert status(folder)["status"] == "success"
