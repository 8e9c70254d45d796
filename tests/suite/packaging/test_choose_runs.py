"""Which runs make a result, and what is typed for those that it lacks."""

import shlex

import pytest

from suite.config.compose import compose
from suite.control.command import job_name
from suite.packaging.choose_runs import choose_runs
from suite.packaging.write import PackageOptions, package
from suite.results.logs.collect import collect
from tests.suite.packaging.package_logs import log_set, our_run

TYPED = (
    (),
    ("device=cuda",),
    ("batch=global:1048576", "environment=torch", "workload.learning_rate=0.0045"),
    ("workload.dataset=ml-20m", "seed=3"),
)


@pytest.mark.parametrize(
    "typed", TYPED, ids=["nothing", "device", "settings", "a setting that is not known"]
)
def test_missing_runs_come_into_the_folder_that_is_there(tmp_path, typed):
    """By the settings in its name; where that says more than is known, by all settings that are."""
    folder = tmp_path / "two words"
    (job,) = compose(["workload=ncf", "gpus=2", *typed]).jobs
    our_run(folder / job_name(job), 0)
    with pytest.raises(
        ValueError, match=r"ncf: 1 of 100 runs, 99 are missing. Run: python run_suite\.py "
    ) as error:
        choose_runs(collect([folder]))
    text = str(error.value)
    words = shlex.split(text[text.index("python run_suite.py") :])[2:]
    (again,) = compose(words).jobs
    assert (again.config.output, again.config.resume) == (str(folder), True)
    assert (again.config.runs, again.config.gpus) == ("official", 2)
    if "seed=3" not in typed:
        assert job_name(again) == job_name(job)
    else:
        assert {"batch=global:1048576", "device=cuda", "workload.learning_rate=0.0045"} <= set(
            words
        )


@pytest.mark.parametrize(
    ("there", "without_log", "missing"),
    [
        ((0, 2, 4, 6, 8), (), "runs 1, 3, 5, 7"),
        ((0, 2, 4, 6, 8), (3,), "runs 1, 5, 7"),
        ((1, 2, 3, 4, 5), (), "run 0"),
    ],
)
def test_runs_that_are_missing_among_others_are_explained_or_refused(
    tmp_path, there, without_log, missing
):
    """Nine runs, of which the slow ones were deleted."""
    for index in there:
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
    said = f"job: {missing} missing: the disk was lost"
    assert said in packaged.notes
    (readme,) = (packaged.folder / "benchmarks").rglob("implementations/*/README.md")
    assert said in readme.read_text(encoding="utf-8")


def test_an_explanation_of_nothing_is_refused(tmp_path):
    log_set(tmp_path / "logs", "ssd")
    with pytest.raises(ValueError, match=r"no run is missing .*Leave --explain out"):
        package(
            [tmp_path / "logs"], tmp_path / "out", PackageOptions(system="box", explanation="why")
        )
