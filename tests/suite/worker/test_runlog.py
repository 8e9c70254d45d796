"""The log writer: its format, the order of times, and write errors that end the run."""

import json
import subprocess
import sys

import pytest

from suite.worker.runlog import JsonLines, RunLog
from tests.helpers import events


def test_lines_are_mllog_and_flushed_one_at_a_time(tmp_path):
    path = tmp_path / "result_0.txt"
    log = RunLog(path)
    log.event("seed", 5)
    record = json.loads(path.read_text().partition(":::MLLOG ")[2])
    assert record["event_type"] == "POINT_IN_TIME"
    assert record["metadata"]["file"].endswith("test_runlog.py")
    log.start("epoch_start", epoch_num=1)
    log.end("epoch_stop", epoch_num=1)
    log.close()
    of_epochs = [(key, metadata.get("epoch_num")) for key, _, metadata in events(path)[1:]]
    assert of_epochs == [("epoch_start", 1), ("epoch_stop", 1)]


def test_time_stamps_do_not_decrease_if_the_clock_is_set_back(tmp_path, monkeypatch):
    log = RunLog(tmp_path / "log")
    log.event("a")
    monkeypatch.setattr("time.time", lambda: 0.0)
    log.event("b")
    log.close()
    with RunLog(tmp_path / "log", append=True) as after:
        after.event("c")
    records = [
        line.partition(":::MLLOG ")[2] for line in (tmp_path / "log").read_text().splitlines()
    ]
    times = [json.loads(record)["time_ms"] for record in records]
    assert times[0] <= times[1] <= times[2] < times[0] + 10_000


def test_an_existing_log_is_never_opened(tmp_path):
    (tmp_path / "log").write_text("earlier")
    with pytest.raises(FileExistsError):
        RunLog(tmp_path / "log")
    assert (tmp_path / "log").read_text() == "earlier"


LIMITED = """
import resource, signal, sys
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
from suite.worker.runlog import JsonLines, RunLog
log = RunLog(Path(sys.argv[1])) if sys.argv[2] == "log" else JsonLines(Path(sys.argv[1]))
count = 0
try:
    while True:
        log.event("step", count) if sys.argv[2] == "log" else log.write({"step": count})
        count += 1
except OSError as error:
    print(count, error)
"""


@pytest.mark.parametrize("kind", ["log", "lines"])
def test_a_write_error_is_raised_and_earlier_lines_are_whole(tmp_path, kind):
    path = tmp_path / "file"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path), kind], capture_output=True, text=True, timeout=60
    )
    count = int(done.stdout.split()[0])
    assert count > 5, done.stderr
    lines = path.read_text().splitlines()
    assert len([line for line in lines if line.endswith("}")]) >= count


def test_json_lines_append_and_numbers_that_json_lacks_become_null(tmp_path):
    rows = JsonLines(tmp_path / "metrics.jsonl")
    rows.write({"block": 1, "loss": float("nan"), "all": [float("inf"), 1.5]})
    rows.write({"block": 2})
    written = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert written == [{"block": 1, "loss": None, "all": [None, 1.5]}, {"block": 2}]


def test_seconds_since_a_line_of_an_earlier_process(tmp_path):
    """Check that a resumed run counts from the `run_start` in its log, here an hour ago."""
    path = tmp_path / "result_0.txt"
    with RunLog(path) as log:
        log.event("suite_run", {"text": "run_start"})
        log.start("run_start")
        assert log.seconds_since("run_start") < 60
    lines = path.read_text().splitlines()
    moment = json.loads(lines[1].removeprefix(":::MLLOG "))
    moment["time_ms"] -= 3_600_000
    path.write_text(f"{lines[0]}\n:::MLLOG {json.dumps(moment)}\n")
    with RunLog(path, append=True) as log:
        assert 3600 <= log.seconds_since("run_start") < 3660
        assert log.seconds_since("run_stop") == 0.0
    with RunLog(None) as log:
        assert log.seconds_since("run_start") == 0.0
