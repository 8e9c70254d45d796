"""Jobs: what makes a division open beside the settings."""

import pytest

from suite.config.compose import compose
from suite.plan.jobs import choose, make_job
from workloads.ncf.data import published_facts
from workloads.ncf.workload import NCF


@pytest.fixture
def job(monkeypatch, tmp_path):
    """Makes a job of NCF over ML-20M, which need not be there, on whatever Python runs this."""
    monkeypatch.setattr(NCF, "read_facts", classmethod(lambda cls, settings: published_facts()))

    def made(*overrides):
        words = ("workload=ncf", "device=cpu", "profile=reference", "environment=current", *overrides)
        config = compose(words).jobs[0].config
        return make_job(choose(config), config, "job", tmp_path)

    return made


def test_a_run_is_closed_with_its_own_seed_and_cleared_caches(job):
    run = job().run(0, cache_cleared=True)
    assert (run.division, run.deviations) == ("closed", ())


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
