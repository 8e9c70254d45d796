"""Errors in a plugin: one line with the file, the line number, and the file with the traceback."""

import os
import re
import shutil
from pathlib import Path

import pytest

from suite.common.plugin_errors import describe_plugin_error, location_of
from suite.results.scores import find_published
from tests.helpers import PROJECT, TOY, TOY_RUN, only, refusal, run_suite, status


@pytest.fixture
def run_changed_toy(tmp_path):
    """Return a function that replaces text in the toy plugin's source and runs the plugin.

    The function returns the completed command, and the file and number of the changed line.
    """

    def run(old, new):
        folder = tmp_path / "plugin"
        shutil.copytree(TOY, folder)
        source = (folder / "toy.py").read_text()
        assert source.count(old) == 1, old
        changed = source.replace(old, new)
        (folder / "toy.py").write_text(changed)
        line = changed[: changed.index(new)].count("\n") + 1 + new.count("\n")
        done = run_suite(
            tmp_path, *TOY_RUN, toy=True, PYTHONPATH=os.pathsep.join([str(folder), str(PROJECT)])
        )
        return done, f"{folder}/toy.py:{line}"

    return run


TRAINER = "class ToyTrainer(Trainer):"


@pytest.mark.parametrize(
    ("old", "new", "error", "function"),
    [
        (
            TRAINER,
            f"{TRAINER}\n    def __init__(self, *a):\n        self.nothing",
            "AttributeError",
            "__init__",
        ),
        ("self.slope = dict(weights)", "self.slope = dictt(weights)", "NameError", "setup"),
        ("self.slope -= self", "self.sloppe -= self", "AttributeError", "train"),
        (
            'yield batch, {"y": self.slope',
            'yield batch, {"y": self.sloppe',
            "AttributeError",
            "predict",
        ),
        ('np.abs(outputs["y"]', 'np.abs(outputs["z"]', "KeyError", "eval_batch_metrics"),
        ('return {"opt_name": "sgd"}', "return 1 / 0", "ZeroDivisionError", "log_keys"),
        (
            'yield "slope", np.zeros(1, np.float32)',
            'raise ValueError("no weights")',
            "ValueError",
            "initial_weights",
        ),
    ],
)
def test_an_error_in_a_run_names_the_line_and_the_log_with_the_traceback(
    run_changed_toy, tmp_path, old, new, error, function
):
    """Report the error with the worker's log, because the log of results has no traceback."""
    done, location = run_changed_toy(old, new)
    assert done.returncode == 1
    folder = only(tmp_path.glob("**/run_0"))
    reason = status(folder)["reason"]
    assert f"process 0: {error}" in reason
    assert f", at {location} in {function}; traceback in worker-0.log" in reason
    assert f"{folder.relative_to(tmp_path)}/worker-0.log" in " ".join(done.stdout.split())
    assert "Traceback (most recent call last):" in (folder / "worker-0.log").read_text()
    assert "no run_start" not in done.stdout
    assert "cut off" not in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (TRAINER, "class ToyTrainer(Trainer:", "SyntaxError"),
        (TRAINER, "class ToyTrainer(Trainr):", "NameError"),
        (
            "SAMPLES = 1000",
            "import nothing_of_that_name",
            "ModuleNotFoundError: No module named 'nothing_of_that_name'",
        ),
        ('return Defaults("toy-demo"', 'return Defaultts("toy-demo"', "NameError"),
        (
            'return DatasetInfo(manifest["samples"]',
            'return DatasetInfo(manifest["sample"]',
            "KeyError: 'sample'",
        ),
        ('"max_epochs": 5,', '"max_epochs": five,', "NameError: name 'five' is not defined"),
    ],
)
def test_an_error_before_the_run_is_one_line(run_changed_toy, old, new, error):
    """Refuse the run in one line; the traceback is in a file, not in the output."""
    done, location = run_changed_toy(old, new)
    line = refusal(done)
    assert f"run_suite.py: error in a plugin: {error}" in line
    assert f", at {location}" in line
    path = Path(re.search(r"; traceback in (\S+)$", line)[1])
    assert "Traceback (most recent call last):" in path.read_text()
    path.unlink()


def test_an_error_of_the_suite_is_not_attributed_to_a_plugin():
    with pytest.raises(AttributeError) as raised:
        describe_plugin_error(None)
    assert describe_plugin_error(raised.value) is None
    assert "plugin_errors.py:" in location_of(raised.value, {"toy"})


def test_a_message_for_users_has_no_location():
    with pytest.raises(ValueError, match="no such published") as raised:
        find_published("nothing")
    assert location_of(raised.value, {"workloads"}) == ""
