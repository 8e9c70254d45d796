"""`resume=true`: forgotten settings, a command with only the output folder, and finished runs."""

import json
import shutil

import pytest

from tests.helpers import TOY_RUN, only, refusal, run_suite_here, status, suite_here, written
from tests.suite.control.test_runs import cut_before_its_end

SEED = ("seed=0", "workload.learning_rate=0.3")
JOB = "toy-plain-demo-1dev-seed=0-workload.learning_rate=0.3"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the output folder of a finished command, with its data next to it."""
    folder = tmp_path_factory.mktemp("whole")
    run_suite_here(folder, *TOY_RUN, *SEED, "runs=2", "output=out", toy=True, exits=0)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    """Return a copy of the finished folder in which the second run was killed."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    cut_before_its_end(tmp_path / "out" / JOB / "run_1")
    filed = tmp_path / "out" / JOB / "run_1" / "status.json"
    filed.write_text(json.dumps({**json.loads(filed.read_text()), "status": "interrupted"}))
    return tmp_path


def resume(folder, *words, **extra):
    return run_suite_here(folder, *words, "output=out", "resume=true", toy=True, **extra)


FORGOTTEN = {
    "a seed": (
        [*TOY_RUN, SEED[1], "runs=2"],
        ["with seed=0, but this command has no seed. To resume it, set", "set seed=0"],
    ),
    "another seed": (
        [*TOY_RUN, "seed=5", SEED[1], "runs=2"],
        ["with seed=0, but this command has seed=5. To resume it, set", "set seed=0"],
    ),
    "two settings": (
        [*TOY_RUN, "runs=2"],
        ["no seed no workload.learning_rate", "set seed=0, set workload.learning_rate=0.3"],
    ),
    "one too many": (
        [*TOY_RUN, *SEED, "batch=global:32", "runs=2"],
        ["with no batch, but this command has batch=global:32", "leave batch out"],
    ),
    "devices": (
        [*TOY_RUN, *SEED, "runs=2", "gpus=2", "oversubscribe=true"],
        [
            "with gpus=1 no oversubscribe, but this command has gpus=2 oversubscribe=true",
            "set gpus=1, leave oversubscribe out",
        ],
    ),
    "the number of runs": (
        [*TOY_RUN, *SEED],
        ["was started with runs=2, but this command has runs=1. Set runs=2"],
    ),
    "a sweep of others": (
        ["-m", *TOY_RUN, "seed=3,4", SEED[1]],
        ["this command has seed=3", "set seed=0"],
    ),
}


@pytest.mark.parametrize(("words", "texts"), FORGOTTEN.values(), ids=FORGOTTEN)
def test_a_setting_that_differs_from_the_unfinished_run_is_named(folder, words, texts):
    before = written(folder / "out")
    for more in ([], ["dry_run=true"]):
        done = resume(folder, *words, *more, exits=2)
        line = done.stderr.splitlines()[-1]
        assert all(text in line for text in texts), line
        assert len(line.splitlines()) == 1
    assert written(folder / "out") == before, "nothing was started or moved"


def test_the_folder_alone_gives_the_settings(folder):
    done = resume(folder, exits=0)
    assert done.stdout.count("finished earlier") == 1
    assert status(folder / "out" / JOB / "run_1")["status"] == "success"
    assert [path.name for path in (folder / "out").iterdir() if path.is_dir()] == [JOB]
    assert resume(folder, exits=0).stdout.count("finished earlier") == 2


def test_the_folder_alone_works_from_another_working_directory_and_with_overrides(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    words, data = [f"output={folder / 'out'}", "resume=true"], str(folder / "data")
    done = run_suite_here(
        tmp_path / "elsewhere", *words, "dry_run=true", toy=True, exits=0, SUITE_DATA_DIR=data
    )
    assert "(finished earlier: success)" in done.stdout
    assert JOB in done.stdout
    done = run_suite_here(
        tmp_path / "elsewhere", *words, "seed=4", toy=True, exits=2, SUITE_DATA_DIR=data
    )
    assert "set seed=0" in done.stderr


def test_a_folder_without_a_list_of_commands_gives_the_settings_of_its_runs(folder):
    (folder / "out" / "commands.json").unlink()
    assert resume(folder, exits=0).stdout.count("finished earlier") == 1
    (folder / "out" / "commands.json").write_text("{")
    assert resume(folder, exits=0).stdout.count("finished earlier") == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["resume=true"], "resume=true: no output folder is set. Set output=FOLDER"),
        (["resume=true", "output=none"], "the folder does not exist. Set output=FOLDER"),
        (["resume=true", "output=empty"], "has no runs with recorded settings. Set workload=NAME"),
    ],
)
def test_a_folder_without_settings_is_refused(tmp_path, words, message):
    (tmp_path / "empty").mkdir()
    assert message in refusal(run_suite_here(tmp_path, *words, toy=True))


def test_new_points_may_join_unfinished_ones_that_the_command_names(folder):
    done = resume(folder, "-m", *TOY_RUN, "seed=0,7", SEED[1], "runs=2", exits=0)
    assert done.stdout.count("finished earlier") == 1
    assert len(list((folder / "out").glob("*/run_*/result_*.txt"))) == 4


def test_a_finished_folder_takes_further_jobs_and_both_commands_resume(whole, tmp_path):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    resume(tmp_path, *TOY_RUN, "seed=9", exits=0)
    assert resume(tmp_path, exits=0).stdout.count("finished earlier") == 3
    cut_before_its_end(tmp_path / "out" / "toy-plain-demo-1dev-seed=9" / "run_0")
    assert (
        resume(tmp_path, *TOY_RUN, *SEED, "runs=2", exits=0).stdout.count("finished earlier") == 2
    ), "a recorded command"
    run_suite_here(tmp_path, *TOY_RUN, "seed=11", "output=out", toy=True, exits=0)


def test_the_report_prints_the_command_that_resumes(folder):
    command = f"resume=true output={folder / 'out'}"
    shown = " ".join(suite_here(folder, "report", "out", exits=0).stdout.split())
    assert "To resume the interrupted runs, run:" in shown
    assert command in shown
    run_suite_here(folder, *command.split(), toy=True, exits=0)
    assert "To resume" not in suite_here(folder, "report", "out", exits=0).stdout


LOST = {
    "status.json is gone": lambda run: (run / "status.json").unlink(),
    "status.json contains interrupted": lambda run: (run / "status.json").write_text(
        '{"status": "interrupted"}'
    ),
    "status.json is not JSON": lambda run: (run / "status.json").write_text("{"),
    "status.json contains running": lambda run: (run / "status.json").write_text(
        '{"status": "running"}'
    ),
    "status.json contains failed": lambda run: (run / "status.json").write_text(
        '{"status": "failed", "reason": "no"}'
    ),
}


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
def test_a_log_with_its_end_is_finished_whatever_status_json_contains(folder, lose):
    run = folder / "out" / JOB / "run_0"
    lose(run)
    log = written(run)[run / "result_0.txt"]
    assert resume(folder, exits=0).stdout.count("finished earlier") == 1
    assert written(run)[run / "result_0.txt"] == log
    assert not list((folder / "out" / JOB).glob("superseded/run_0*"))
    filed = status(run)
    assert filed["status"] in ("success", "failed"), "a failure that the controller saw stays"
    if filed["status"] == "success":
        assert filed["ended"]
        assert {"run_index", "workload", "devices"} <= filed.keys()


def test_missing_final_weights_are_reported(tmp_path):
    words = [*TOY_RUN, "checkpoint.final=true", "output=out"]
    run_suite_here(tmp_path, *words, toy=True, exits=0)
    assert (
        "finished earlier\n"
        in run_suite_here(tmp_path, *words, "resume=true", toy=True, exits=0).stdout
    )
    only((tmp_path / "out").glob("*/run_0/weights.npz")).unlink()
    done = run_suite_here(tmp_path, *words, "resume=true", toy=True, exits=0)
    assert "finished earlier, but it was ended before weights.npz was written" in done.stdout


def test_a_finished_log_without_its_run_json_is_refused(folder):
    for change in (lambda path: path.write_text("{"), lambda path: path.unlink()):
        change(folder / "out" / JOB / "run_0" / "run.json")
        done = resume(folder, *TOY_RUN, *SEED, "runs=2")
        assert (
            "holds a finished run, but its run.json is missing or damaged. Restore run.json"
            in refusal(done)
        )


def test_a_missed_target_is_finished_and_a_failure_after_the_start_is_not(tmp_path):
    for words, again in (
        (["workload.learning_rate=0.0001"], 0),
        (["workload.misbehave=diverge"], 1),
    ):
        output = [f"output={words[0]}", "seed=1"]
        run_suite_here(tmp_path, *TOY_RUN, *words, *output, toy=True, exits=1)
        (folder,) = (tmp_path / words[0]).glob("*/run_0")
        (folder / "status.json").unlink()
        done = run_suite_here(tmp_path, *TOY_RUN, *words, *output, "resume=true", toy=True, exits=1)
        assert done.stdout.count("unfinished attempt kept in") == again


def test_other_settings_in_the_same_folder_are_named(folder):
    path = folder / "out" / JOB / "run_0" / "run.json"
    value = json.loads(path.read_text())
    value["settings"]["hyperparameters"]["max_epochs"] = 9
    value["settings"]["precision"] = "bf16"
    path.write_text(json.dumps(value))
    line = refusal(resume(folder, *TOY_RUN, *SEED, "runs=2"))
    assert 'precision is "bf16" in that run and "fp32" in this command' in line
    assert "hyperparameters.max_epochs is 9 in that run and 5 in this command" in line
