"""Runs of a command whose results are deleted while the command is still running."""

import shutil

import pytest

from suite.control.supervise import Supervisor
from tests.helpers import TOY_RUN, run_suite_here


def deleting(monkeypatch, what):
    """Delete the path that `what` returns for a run's folder, after the command's first run."""
    run_supervised = Supervisor.run

    def run(self):
        status = run_supervised(self)
        if self.run_spec.run_index == 0:
            shutil.rmtree(what(self.folder)) if what(self.folder).is_dir() else what(
                self.folder
            ).unlink()
        return status

    monkeypatch.setattr(Supervisor, "run", run)


@pytest.mark.slow
def test_an_output_folder_that_is_deleted_is_not_created_again(tmp_path, monkeypatch):
    deleting(monkeypatch, lambda folder: folder.parents[1])
    done = run_suite_here(
        tmp_path, *TOY_RUN, "runs=3", f"output={tmp_path / 'out'}", toy=True, exits=2
    )
    assert f"{tmp_path / 'out'}: deleted while the suite wrote into it" in done.stderr
    assert "run_1" not in done.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", [lambda folder: folder, lambda folder: folder / "result_0.txt"], ids=["folder", "log"]
)
def test_a_run_whose_log_is_deleted_is_not_a_success_and_is_run_again(tmp_path, monkeypatch, what):
    words = (*TOY_RUN, "runs=2", f"output={tmp_path / 'out'}")
    with monkeypatch.context() as patch:
        deleting(patch, what)
        done = run_suite_here(tmp_path, *words, toy=True)
    assert done.returncode == 1
    assert "success, but its log was deleted" in done.stdout
    assert "run_0: its log was deleted during the command\n" in done.stdout
    assert "/run_1, target" in done.stdout
    run = tmp_path / "out" / "toy-plain-demo-1dev" / "run_0"
    # A status.json without a log: repeating the run could replace a result, so it is refused.
    if run.exists():
        refused = run_suite_here(tmp_path, *words, "resume=true", toy=True, exits=2)
        assert (
            "run_0 holds a finished run according to its status.json, but its log is missing"
            in refused.stderr
        )
        run.rename(tmp_path / "moved")
    again = run_suite_here(tmp_path, *words, "resume=true", toy=True, exits=0)
    assert (tmp_path / "out" / "toy-plain-demo-1dev" / "run_0" / "result_0.txt").exists()
    assert again.stdout.count("finished earlier") == 1
