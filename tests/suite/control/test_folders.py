"""Jobs whose folders would collide are refused."""

import pytest

from suite.control import folders
from tests.helpers import TOY_RUN, refusal, run_suite_here


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("gpus=1,1", "two jobs of this sweep have the same settings. Remove a duplicate"),
        (
            "watchdog_seconds=50,60",
            "differ only in watchdog_seconds, which is not part of a job's folder name",
        ),
        ("runs=1,2", "differ only in runs, which"),
    ],
)
def test_jobs_of_one_folder_are_refused_with_the_reason(tmp_path, words, message):
    assert message in refusal(run_suite_here(tmp_path, "-m", *TOY_RUN, words, toy=True))
    assert (
        message
        in run_suite_here(tmp_path, "-m", *TOY_RUN, words, "dry_run=true", toy=True, exits=2).stderr
    )


def test_names_that_a_file_system_does_not_distinguish_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "folds_names", lambda folder: True)
    done = run_suite_here(tmp_path, "-m", *TOY_RUN, "system.name=Lab,lab", toy=True)
    assert "does not distinguish these folder names" in refusal(done)
    run_suite_here(tmp_path, "-m", *TOY_RUN, "system.name=lab1,lab2", toy=True, exits=0)
