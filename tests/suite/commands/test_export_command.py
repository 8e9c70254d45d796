"""`suite export`: its command line, what it says, and how it follows a sweep, up to the call into a
tracker's library.
"""

import contextlib
import sys

import pytest

from suite.commands import export
from suite.common.output_lock import output_locked
from testing.fake_logs import demo_log, write, write_run
from tests.helpers import PROJECT, suite_here

LINES = demo_log()
EVALUATED = [at for at, text in enumerate(LINES, start=1) if '"block_stop"' in text]


class Recorder:
    """A tracker that keeps what it is given."""

    def __init__(self):
        self.given = []

    def add(self, run):
        known = {
            one for given in self.given if given.identity == run.identity for one in given.scalars
        }
        self.given.append(run)
        return len(set(run.scalars) - known)


@pytest.fixture
def tracker(monkeypatch):
    """In place of every tracker's library."""
    recorder = Recorder()
    monkeypatch.setattr(export, "_tracker", lambda name, output, setting: recorder)
    return recorder


@pytest.mark.parametrize(
    ("name", "extra", "output"),
    [
        ("tensorboard", {}, "tensorboard"),
        ("mlflow", {}, "sqlite:///mlflow.db"),
        ("mlflow", {"MLFLOW_TRACKING_URI": "http://127.0.0.1:1"}, "http://127.0.0.1:1"),
        ("wandb", {}, "."),
        ("wandb", {"WANDB_DIR": "offline"}, "offline"),
    ],
)
def test_it_says_what_was_new_and_where_it_is(tmp_path, tracker, name, extra, output):
    write_run(tmp_path / "logs", "ncf")
    write_run(tmp_path / "logs", "ncf", index=1, start=9, qualities=(0.1,))
    write_run(tmp_path / "logs", "gone", status={"status": "oom"}, log=False)
    done = suite_here(tmp_path, "export", name, "logs", exits=0, **extra)
    first, second = (len(run.scalars) for run in tracker.given)
    assert done.stdout.splitlines() == [
        f"ncf/run_0: {first} scalars (success)",
        f"ncf/run_1: {second} scalars (aborted)",
        f"{output}: 2 runs, {first + second} new scalars, 1 skipped (not evaluated yet, or copies)",
    ]
    again = suite_here(tmp_path, "export", name, "logs", "--output", "x", exits=0, **extra)
    assert again.stdout == "x: 2 runs, 0 new scalars, 1 skipped (not evaluated yet, or copies)\n"


WRONG = {
    "no tracker": (["logs"], "invalid choice: 'logs'"),
    "no logs": (["tensorboard"], "the following arguments are required: DIR"),
    "a folder that is not there": (
        ["tensorboard", "nothing"],
        "nothing does not exist. Give a folder that holds logs",
    ),
    "a folder without logs": (["tensorboard", "empty", "--follow"], "empty holds no log"),
}


@pytest.mark.usefixtures("tracker")
@pytest.mark.parametrize(("words", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_command_line_is_one_line(tmp_path, words, message):
    (tmp_path / "empty").mkdir()
    done = suite_here(tmp_path, "export", *words, exits=2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_without_its_library_the_line_says_what_to_type(tmp_path, monkeypatch, name):
    write_run(tmp_path / "logs", "ncf")
    monkeypatch.delitem(sys.modules, f"suite.trackers.{name}", raising=False)
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not there
    done = suite_here(tmp_path, "export", name, "logs", exits=2)
    typed = f"{sys.executable} -m pip install -r {PROJECT / 'environments' / name}.txt"
    assert done.stderr == f"suite export: {name} is not installed. Run: {typed}\n"


def test_a_sweep_is_followed_to_its_end(tmp_path, tracker, monkeypatch):
    """A sweep that has begun, its first run evaluation by evaluation, nothing between two runs, the
    second run.
    """
    log, sweep = tmp_path / "logs" / "ncf" / "run_0" / "result_0.txt", contextlib.ExitStack()
    status = log.with_name("status.json")

    def begun():
        write(log, LINES[: EVALUATED[0]])
        write(status, ['{"status": "running"}'])

    def ended():
        write(log, LINES)
        write(status, ['{"status": "success"}'])

    def last():
        write_run(tmp_path / "logs", "ncf", index=1, start=9)
        sweep.close()

    steps = iter([begun, lambda: write(log, LINES[: EVALUATED[1]]), ended, last])
    monkeypatch.setattr(export.time, "sleep", lambda seconds: next(steps)())
    sweep.enter_context(output_locked(tmp_path / "logs"))
    with sweep:
        done = suite_here(tmp_path, "export", "tensorboard", "logs", "--follow", exits=0)
    assert next(steps, None) is None
    told = [
        line.partition(":")[0] + line[line.index("(") :] for line in done.stdout.splitlines()[:-1]
    ]
    assert told == [
        "ncf/run_0(running)",
        "ncf/run_0(running)",
        "ncf/run_0(success)",
        "ncf/run_1(success)",
    ]
    evaluations = [
        sum(one.name == "epoch/hr_at_10" for one in run.scalars) for run in tracker.given
    ]
    assert evaluations == [1, 2, 3, 3, 3]


def test_a_run_whose_sweep_cannot_be_seen_is_followed_by_its_status(tmp_path, tracker, monkeypatch):
    folder = write_run(tmp_path / "logs", "ncf", status={"status": "running"})
    write(folder / "result_0.txt", LINES[: EVALUATED[0]])
    monkeypatch.setattr(export.time, "sleep", lambda seconds: write(folder / "result_0.txt", LINES))
    suite_here(tmp_path, "export", "tensorboard", "logs", "--follow", exits=0)
    assert [run.end_ms is None for run in tracker.given] == [True, False]


def test_ctrl_c_ends_following(tmp_path, tracker, monkeypatch):
    folder = write_run(tmp_path / "logs", "ncf", status={"status": "running"})
    write(folder / "result_0.txt", LINES[: EVALUATED[0]])

    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(export.time, "sleep", interrupted)
    done = suite_here(tmp_path, "export", "tensorboard", "logs", "--follow", exits=0)
    assert len(tracker.given) == 1
    assert done.stdout.endswith("new scalars\n")
