"""Jobs: what makes a division open beside the settings, and runs that would end before their first evaluation."""

import itertools

import pytest

from suite.common import registry
from suite.config.compose import compose
from suite.plan.jobs import plan
from tests.helpers import TOY, TOY_RUN, run_suite_here
from workloads.ncf.data import published_facts
from workloads.ncf.workload import NCF


@pytest.fixture
def job(monkeypatch, tmp_path):
    """Makes a job of NCF over ML-20M, which need not be there, on whatever Python runs this."""
    monkeypatch.setattr(NCF, "read_facts", classmethod(lambda cls, settings: published_facts()))

    def made(*overrides):
        words = ("workload=ncf", "device=cpu", "profile=reference", "environment=current", *overrides)
        config = compose(words).jobs[0].config
        return plan(config, "job", tmp_path).job

    return made


def test_a_run_is_closed_with_its_own_seed_and_cleared_caches(job):
    made = job()
    run = made.run(0, cache_cleared=True)
    assert (run.division, run.deviations) == ("closed", ())
    assert run.settings.seed != made.run(1, cache_cleared=True).settings.seed


def test_a_run_whose_caches_were_not_cleared_is_open(job):
    run = job().run(0, cache_cleared=False)
    assert (run.division, run.deviations) == ("open", ("cache_clear false, not true",))
    assert job().run(1, cache_cleared=True).division == "closed"


def test_a_seed_of_the_users_is_open(job):
    run = job("seed=1").run(0, cache_cleared=True)
    assert (run.division, run.deviations) == ("open", ("seed from user, not system",))


def test_runs_of_an_open_job_stay_alike(job):
    """Whatever became of their caches: `cache_clear` in the log tells, and they share a row."""
    found = job("workload.epsilon=1e-6")
    assert found.run(0, True).deviations == found.run(1, False).deviations
    assert found.run(0, True).deviations == ("epsilon 1e-06, not 1e-08 or 1.45439e-07",)


def test_a_value_of_the_users_that_the_rules_allow_is_closed(job):
    assert job("workload.epsilon=1e-8", "workload.max_epochs=5").run(0, True).division == "closed"


@pytest.fixture
def late(monkeypatch):
    """The toy, evaluated after step 40, which is in its third epoch, and every 40 from there on."""
    monkeypatch.syspath_prepend(TOY)
    import toy

    monkeypatch.setattr(toy.Toy, "evaluation_steps", lambda self: itertools.count(40, 40))
    registry.refresh()
    yield
    registry.refresh()


def test_a_run_that_gives_up_before_its_first_evaluation_is_refused(late, tmp_path):
    done = run_suite_here(tmp_path, *TOY_RUN, "workload.max_epochs=2", toy=True)
    assert done.returncode == 2
    assert done.stderr == (
        "run_suite.py: workload.max_epochs=2: toy is first evaluated in epoch 3; "
        "type workload.max_epochs=3 or more, or stop=epochs:2 to train without a target\n"
    )
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("words", [("workload.max_epochs=3",), ("workload.max_epochs=2", "stop=epochs:2")])
def test_what_the_refusal_says_to_type_is_accepted(late, monkeypatch, tmp_path, words):
    monkeypatch.setenv("SUITE_DATA_DIR", str(tmp_path))
    registry.load_dataset("toy-demo").make_demo(tmp_path / "toy-demo")
    config = compose((*TOY_RUN, "device=cpu", *words)).jobs[0].config
    assert plan(config, "job", tmp_path).job.run_count == 1
