"""`suite export`: its command line, its output, and following a sweep, without real trackers."""

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
    """Tracker that stores the runs it receives."""

    def __init__(self):
        self.runs = []

    def add(self, run):
        known_scalars = {
            scalar
            for tracked_run in self.runs
            if tracked_run.identity == run.identity
            for scalar in tracked_run.scalars
        }
        self.runs.append(run)
        return len(set(run.scalars) - known_scalars)


@pytest.fixture
def tracker(monkeypatch):
    """Return a recorder that replaces every tracker's library."""
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
def test_the_output_states_the_new_scalars_and_their_location(
    tmp_path, tracker, name, extra, output
):
    write_run(tmp_path / "logs", "ncf")
    write_run(tmp_path / "logs", "ncf", index=1, start=9, qualities=(0.1,))
    write_run(tmp_path / "logs", "gone", status={"status": "oom"}, log=False)
    done = suite_here(tmp_path, "export", name, "logs", exits=0, **extra)
    first, second = (len(run.scalars) for run in tracker.runs)
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
    "a missing folder": (
        ["tensorboard", "nothing"],
        "nothing does not exist. Give a folder that holds logs",
    ),
    "a folder without logs": (["tensorboard", "empty", "--follow"], "empty holds no log"),
}


@pytest.mark.usefixtures("tracker")
@pytest.mark.parametrize(("arguments", "message"), WRONG.values(), ids=WRONG)
def test_an_error_in_the_arguments_is_one_line(tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    done = suite_here(tmp_path, "export", *arguments, exits=2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_library_is_reported_with_the_command_to_install_it(tmp_path, monkeypatch, name):
    write_run(tmp_path / "logs", "ncf")
    monkeypatch.delitem(sys.modules, f"suite.trackers.{name}", raising=False)
    monkeypatch.setitem(sys.modules, name, None)  # the import fails
    done = suite_here(tmp_path, "export", name, "logs", exits=2)
    command = f"{sys.executable} -m pip install -r {PROJECT / 'environments' / name}.txt"
    assert done.stderr == f"suite export: {name} is not installed. Run: {command}\n"


def test_a_sweep_is_followed_to_its_end(tmp_path, tracker, monkeypatch):
    """Follow a sweep whose first run has started: each evaluation, the next run, and the end."""
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
    printed = [
        line.partition(":")[0] + line[line.index("(") :] for line in done.stdout.splitlines()[:-1]
    ]
    assert printed == [
        "ncf/run_0(running)",
        "ncf/run_0(running)",
        "ncf/run_0(success)",
        "ncf/run_1(success)",
    ]
    evaluations = [
        sum(scalar.name == "epoch/hr_at_10" for scalar in run.scalars) for run in tracker.runs
    ]
    assert evaluations == [1, 2, 3, 3, 3]


def test_a_run_whose_sweep_cannot_be_seen_is_followed_by_its_status(tmp_path, tracker, monkeypatch):
    folder = write_run(tmp_path / "logs", "ncf", status={"status": "running"})
    write(folder / "result_0.txt", LINES[: EVALUATED[0]])
    monkeypatch.setattr(export.time, "sleep", lambda seconds: write(folder / "result_0.txt", LINES))
    suite_here(tmp_path, "export", "tensorboard", "logs", "--follow", exits=0)
    assert [run.end_ms is None for run in tracker.runs] == [True, False]


def test_ctrl_c_ends_following(tmp_path, tracker, monkeypatch):
    folder = write_run(tmp_path / "logs", "ncf", status={"status": "running"})
    write(folder / "result_0.txt", LINES[: EVALUATED[0]])

    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(export.time, "sleep", interrupted)
    done = suite_here(tmp_path, "export", "tensorboard", "logs", "--follow", exits=0)
    assert len(tracker.runs) == 1
    assert done.stdout.endswith("new scalars\n")
