"""Jobs: what makes a division open beside the settings, and which runs are taken up again."""

import json
from dataclasses import replace

import pytest

from suite.common.run_folder import SUPERSEDED
from suite.common.source_code import expected_digest
from suite.plan import jobs
from suite.plan.jobs import plan
from suite.plan.resume import FINISHED, finished_status, set_aside
from tests.helpers import composed
from workloads.ncf.facts import published_facts
from workloads.ncf.workload import NCF


@pytest.fixture
def job(monkeypatch, tmp_path):
    """Makes a job of NCF over ML-20M, which need not be there, on whatever Python runs this."""
    monkeypatch.setattr(NCF, "read_facts", classmethod(lambda cls, settings: published_facts()))
    monkeypatch.setattr(jobs, "files_unlike_commit", lambda workload, framework: [])  # tests run before a commit too

    def made(*overrides):
        words = ("workload=ncf", "device=cpu", "profile=reference", "environment=current", *overrides)
        return plan(composed(*words), "job", tmp_path).job

    return made


@pytest.mark.parametrize(
    ("words", "cleared", "deviations"),
    [
        ((), True, ()),
        (("workload.epsilon=1e-8", "workload.max_epochs=5"), True, ()),
        ((), False, ("cache_clear false, not true",)),
        (("seed=1",), True, ("seed from user, not system",)),
        # runs of an open job stay alike, whatever became of their caches: they share a row
        (("workload.epsilon=1e-6",), False, ("epsilon 1e-06, not 1e-08 or 1.45439e-07",)),
    ],
)
def test_what_makes_a_run_open(job, words, cleared, deviations):
    run = job(*words).run(0, cache_cleared=cleared)
    assert (run.division, run.deviations) == ("open" if deviations else "closed", deviations)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (["suite/worker/loop.py"], "code unlike its commit: suite/worker/loop.py"),
        (["suite/a.py", "suite/b.py", "suite/c.py"], "code unlike its commit: suite/a.py and 2 more"),
    ],
)
def test_code_that_is_not_that_of_its_commit_makes_a_run_open(job, monkeypatch, changed, reason):
    monkeypatch.setattr(jobs, "files_unlike_commit", lambda workload, framework: changed)
    run = job().run(0, cache_cleared=True)
    assert (run.division, run.deviations) == ("open", (reason,))
    assert job("workload.epsilon=1e-6").run(0, cache_cleared=True).deviations == (
        "epsilon 1e-06, not 1e-08 or 1.45439e-07",
    )
    assert run.code_digest == expected_digest("ncf", run.settings.framework)


def test_each_run_of_a_job_has_a_seed_of_its_own(job):
    made = job()
    assert made.run(0, cache_cleared=True).settings.seed != made.run(1, cache_cleared=True).settings.seed
    assert [job("seed=5").run(index, cache_cleared=True).settings.seed for index in (0, 2)] == [5, 7]


def test_a_finished_run_is_taken_up_by_one_of_equal_settings_and_data_alone(job, tmp_path):
    made = job()
    run, again = made.run(0, cache_cleared=True), made.run(1, cache_cleared=False)
    run.write(tmp_path / "run.json")
    assert finished_status(tmp_path, again) == ""  # its controller was killed
    (tmp_path / "status.json").write_text('{"status": "success"}')
    assert finished_status(tmp_path, again) == ""  # somebody deleted its log
    (tmp_path / "result_1.txt").touch()
    of_other_data = replace(run, facts=replace(run.facts, fingerprint="of other data"))
    for status in ("success", "target_missed", "interrupted"):
        (tmp_path / "status.json").write_text(json.dumps({"status": status}))
        assert finished_status(tmp_path, again) == (status if status in FINISHED else "")
        for other in (of_other_data, replace(run, settings=replace(run.settings, batch_size_global=4096))):
            with pytest.raises(ValueError, match="holds a run of other settings or data"):
                finished_status(tmp_path, other)


def test_what_only_looks_like_a_run_is_named(job, tmp_path):
    run = job().run(0, cache_cleared=True)
    run.write(tmp_path / "run.json")
    (tmp_path / "status.json").write_text('{"status": "success"}')
    whole = json.loads((tmp_path / "run.json").read_text())
    wrong = ({"facts": []}, {"settings": []}, {"schema": [[[]]]}, {"settings": {**whole["settings"], "options": "x"}})
    for other in ({"schema": whole["schema"]}, *({**whole, **one} for one in wrong), int("1" * 4000)):
        (tmp_path / "run.json").write_text(json.dumps(other))
        with pytest.raises(ValueError, match=r"^\S*run\.json\b[^\n]*$"):
            finished_status(tmp_path, run)


@pytest.mark.parametrize("content", ["[]", "null", "3", '"x"', "{}", "[" * 100_000])
def test_what_is_no_run_is_named_and_no_status_is_none(job, tmp_path, content):
    run = job().run(0, cache_cleared=True)
    run.write(tmp_path / "run.json")
    (tmp_path / "status.json").write_text(content)
    if content.count("[") > 1:
        with pytest.raises(ValueError, match=r"^\S*status\.json: JSON nested too deeply$"):
            finished_status(tmp_path, run)
    else:
        assert finished_status(tmp_path, run) == ""
    (tmp_path / "run.json").write_text(content)
    (tmp_path / "status.json").write_text('{"status": "success"}')
    with pytest.raises(ValueError, match=r"^\S*run\.json"):
        finished_status(tmp_path, run)


def test_every_unfinished_attempt_is_kept(tmp_path):
    for attempt in range(3):
        (tmp_path / "run_0").mkdir()
        (tmp_path / "run_0" / "log").write_text(str(attempt))
        set_aside(tmp_path / "run_0")
    kept = {path.name: (path / "log").read_text() for path in (tmp_path / SUPERSEDED).iterdir()}
    assert kept == {"run_0-1": "0", "run_0-2": "1", "run_0-3": "2"}
