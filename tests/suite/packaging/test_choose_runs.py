"""Selection of the runs of a result, and the command that adds the missing runs."""

import shlex

import pytest

from suite.config.compose import compose
from suite.control.command import job_name
from suite.packaging.choose_runs import choose_runs
from suite.packaging.write import PackageOptions, package
from suite.results.logs.collect import collect
from tests.suite.packaging.package_logs import log_set, our_run

OVERRIDES = (
    (),
    ("device=cuda",),
    ("batch=global:1048576", "environment=torch", "workload.learning_rate=0.0045"),
    ("workload.dataset=ml-20m", "seed=3"),
)


@pytest.mark.parametrize(
    "overrides", OVERRIDES, ids=["nothing", "device", "settings", "an unrecorded setting"]
)
def test_the_command_for_missing_runs_writes_into_the_existing_folder(tmp_path, overrides):
    """Repeat the settings in the folder's name, or all recorded settings if the log lacks some."""
    folder = tmp_path / "two words"
    (job,) = compose(["workload=ncf", "gpus=2", *overrides]).jobs
    our_run(folder / job_name(job), 0)
    with pytest.raises(
        ValueError, match=r"ncf: 1 of 100 runs, 99 are missing. Run: python run_suite\.py "
    ) as error:
        choose_runs(collect([folder]))
    text = str(error.value)
    arguments = shlex.split(text[text.index("python run_suite.py") :])[2:]
    (again,) = compose(arguments).jobs
    assert (again.config.output, again.config.resume) == (str(folder), True)
    assert (again.config.runs, again.config.gpus) == ("official", 2)
    if "seed=3" not in overrides:
        assert job_name(again) == job_name(job)
    else:
        assert {"batch=global:1048576", "device=cuda", "workload.learning_rate=0.0045"} <= set(
            arguments
        )


@pytest.mark.parametrize(
    ("present", "without_log", "missing"),
    [
        ((0, 2, 4, 6, 8), (), "runs 1, 3, 5, 7"),
        ((0, 2, 4, 6, 8), (3,), "runs 1, 5, 7"),
        ((1, 2, 3, 4, 5), (), "run 0"),
    ],
)
def test_gaps_in_the_run_numbers_need_an_explanation(tmp_path, present, without_log, missing):
    """Refuse to package the remaining runs if some runs, perhaps the slow ones, were deleted."""
    for index in present:
        our_run(tmp_path / "logs" / "job", index, "resnet50")
    for index in without_log:
        folder = tmp_path / "logs" / "job" / f"run_{index}"
        folder.mkdir()
        (folder / "status.json").write_text('{"status": "oom", "reason": "out of memory"}')
    with pytest.raises(ValueError, match=rf'^job: {missing} missing: .* --explain "…"'):
        package([tmp_path / "logs"], tmp_path / "out", PackageOptions())
    packaged = package(
        [tmp_path / "logs"], tmp_path / "out", PackageOptions(explanation="the disk was lost")
    )
    explanation = f"job: {missing} missing: the disk was lost"
    assert explanation in packaged.notes
    (readme,) = (packaged.folder / "benchmarks").rglob("implementations/*/README.md")
    assert explanation in readme.read_text(encoding="utf-8")


def test_an_explanation_without_missing_runs_is_refused(tmp_path):
    log_set(tmp_path / "logs", "ssd")
    with pytest.raises(ValueError, match=r"no run is missing .*Leave --explain out"):
        package(
            [tmp_path / "logs"], tmp_path / "out", PackageOptions(system="box", explanation="why")
        )
