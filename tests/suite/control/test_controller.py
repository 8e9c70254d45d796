"""The folder names of jobs, and the end of a command, after its last run."""

import os
import shutil
import signal
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.common.job_name import NAME_BYTES
from suite.config.compose import Request, compose
from suite.control import controller
from suite.control.controller import job_name
from suite.control.interrupts import WholeLines
from suite.control.watch import RunStatus
from suite.plan.jobs import Plan
from suite.plan.settings import Impossible
from suite.results.views import report
from tests.helpers import TOY_RUN, examples, refusal, run_suite_here
from tests.suite.control.test_interrupts import listening  # noqa: F401, a fixture


def one(*words):
    (job,) = compose(["workload=ncf", "profile=demo", "device=cpu", "gpus=1", *words]).jobs
    return job


BASE = one()


def test_what_is_typed_stands_in_the_name_but_how_caches_are_cleared():
    words = ("seed=3", "lr_scaling=none", "system.cache_clear_command=[sudo,drop-caches]")
    assert job_name(one(*words)) == "ncf-pytorch-demo-1dev-cpu-lr_scaling=none-seed=3"


@pytest.mark.parametrize("long", ["a" * 300, "字" * 100], ids=["ascii", "wide"])
def test_jobs_that_differ_behind_the_cut_have_names_of_their_own(long):
    words = [(f"workload.dataset={long}", f"workload.embedding={number}") for number in (1, 2)]
    names = [job_name(replace(one(), typed=pair)) for pair in words]
    assert len(set(names)) == 2
    assert all(len(name.encode()) <= NAME_BYTES and name.startswith("ncf-pytorch-demo-1dev-cpu-wo") for name in names)
    assert job_name(replace(one(), typed=words[0])) == names[0]


TEXT = st.text(st.sampled_from("ab_. -/:=,é字\u0301ÅK"), min_size=1, max_size=12)


@examples(300)
@given(TEXT, TEXT)
def test_settings_that_differ_have_folders_that_differ(first, second):
    """Characters that no folder name can hold, dashes and `=` that separate settings, and letters with accents."""
    pairs = [(f"system.name={text}",) for text in (first, second)]
    pairs += [(f"system.name={first}-seed=1",), (f"system.name={first}", "seed=1")]
    names = {words: job_name(replace(BASE, typed=words)) for words in pairs}
    assert len(set(names.values())) == len(names)
    assert not any(set(name) & set("/:, ") for name in names.values())


def test_usual_settings_are_named_without_a_hash():
    words = ("batch=per_device:8", "stop=epochs:3", "workload.target=0.5", "system.name=DGX-1_v2", "rules=v0.7")
    name = (
        "ncf-pytorch-demo-1dev-cpu-batch=per_device_8-rules=v0.7-stop=epochs_3-system.name=DGX-1_v2-workload.target=0.5"
    )
    assert job_name(replace(BASE, typed=words)) == name


def test_names_with_and_without_a_space_are_two_jobs(tmp_path):
    done = run_suite_here(
        tmp_path, "-m", *TOY_RUN, "system.name=x y,x_y,x/y", f"output={tmp_path / 'out'}", toy=True, exits=0
    )
    assert len(list((tmp_path / "out").glob("*/run_0/result_0.txt"))) == 3
    assert done.stdout.count("target reached") == 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("gpus=1,1", "two jobs of this sweep have the same settings; leave one out"),
        ("watchdog_seconds=50,60", "differ in watchdog_seconds alone, which is not part of a job's folder name"),
        ("runs=1,2", "differ in runs alone"),
    ],
)
def test_jobs_of_one_folder_are_refused_with_the_reason(tmp_path, words, told):
    assert told in refusal(run_suite_here(tmp_path, "-m", *TOY_RUN, words, toy=True))
    assert told in run_suite_here(tmp_path, "-m", *TOY_RUN, words, "dry_run=true", toy=True, exits=2).stderr


def test_names_that_a_file_system_takes_for_the_same_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(controller, "folds_names", lambda folder: True)
    done = run_suite_here(tmp_path, "-m", *TOY_RUN, "system.name=Lab,lab", toy=True)
    assert "takes these folders for the same" in refusal(done)
    run_suite_here(tmp_path, "-m", *TOY_RUN, "system.name=lab1,lab2", toy=True, exits=0)


def test_what_planning_notes_is_said_once_and_only_what_waits_for_data_is_planned_again(tmp_path, monkeypatch, capsys):
    outdated, ready, waiting = "environment torch is outdated", Plan(object(), (), None), Plan(None, (), None)
    impossible, made = Plan(None, (Impossible("gpus=4"),), None), []

    def plan(config, *_):
        made.append(config)
        return waiting._replace(notes=(outdated,))

    monkeypatch.setattr(controller, "plan", plan)
    request = Request(tuple(one(f"seed={seed}") for seed in range(3)))
    controller.planned(request, tmp_path, None)
    assert capsys.readouterr().err == f"{outdated}\n"
    made.clear()
    plans = controller.planned(request, tmp_path, None, [ready, waiting._replace(notes=(outdated,)), impossible])
    assert (plans[::2], [config.seed for config in made]) == ([ready, impossible], [1])
    assert capsys.readouterr().err == ""


def interrupt(*_, **__):
    os.kill(os.getpid(), signal.SIGTERM)


NO_SPACE, UNREADABLE = OSError(28, "No space left on device"), ValueError("result_0.txt: not a log")


@pytest.mark.parametrize(
    ("made", "code", "said"),
    [
        (interrupt, 130, "interrupted after the runs, which are kept"),
        (NO_SPACE, 0, "run_suite.py: no report: No space left on device; the runs are kept"),
        (UNREADABLE, 0, "run_suite.py: no report: result_0.txt: not a log; the runs are kept"),
    ],
)
def test_runs_without_a_table_are_named_and_kept(tmp_path, monkeypatch, capsys, listening, made, code, said):  # noqa: F811
    monkeypatch.setattr(report, "report", mock.Mock(side_effect=made))
    monkeypatch.setattr(import_module("suite.results.table"), "table", lambda folders: folders)
    job = SimpleNamespace(name="job", folder=tmp_path / "my runs" / "job")
    (job.folder / "run_0").mkdir(parents=True)
    (job.folder / "run_0" / "result_0.txt").touch()
    ended = [controller.Ended(job, 0, RunStatus("success"))]
    assert controller.print_summary(ended, WholeLines(), 0) == code
    printed = "".join(capsys.readouterr())
    (line,) = [line for line in printed.splitlines() if "which are kept" in line or "no report" in line]
    assert line == f"{said}; for their report, run: suite report '{tmp_path / 'my runs'}'"
    assert f"Logs  {tmp_path / 'my runs'}\n" in printed
    assert f"suite report '{tmp_path / 'my runs'}' --html report.html\n" in printed


def deleting(monkeypatch, what):
    """After its first run a command finds that somebody has deleted `what(the run's folder)`."""
    known = controller.Supervisor.run

    def run(self):
        status = known(self)
        if self.run_spec.run_index == 0:
            shutil.rmtree(what(self.folder)) if what(self.folder).is_dir() else what(self.folder).unlink()
        return status

    monkeypatch.setattr(controller.Supervisor, "run", run)


@pytest.mark.slow
def test_an_output_that_is_deleted_is_not_made_again(tmp_path, monkeypatch):
    deleting(monkeypatch, lambda folder: folder.parents[1])
    done = run_suite_here(tmp_path, *TOY_RUN, "runs=3", f"output={tmp_path / 'out'}", toy=True, exits=2)
    assert f"{tmp_path / 'out'}: deleted while the suite wrote into it" in done.stderr
    assert "run_1" not in done.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("what", [lambda folder: folder, lambda folder: folder / "result_0.txt"], ids=["folder", "log"])
def test_a_run_whose_log_is_deleted_is_no_success_and_is_run_again(tmp_path, monkeypatch, what):
    words = (*TOY_RUN, "runs=2", f"output={tmp_path / 'out'}")
    with monkeypatch.context() as patch:
        deleting(patch, what)
        done = run_suite_here(tmp_path, *words, toy=True)
    assert done.returncode == 1
    assert "success, but its log was deleted" in done.stdout
    assert "run_0: its log was deleted during the command\n" in done.stdout
    assert "/run_1, target" in done.stdout
    again = run_suite_here(tmp_path, *words, "resume=true", toy=True, exits=0)
    assert (tmp_path / "out" / "toy-plain-demo-1dev" / "run_0" / "result_0.txt").exists()
    assert again.stdout.count("finished earlier") == 1
