"""Planning of all jobs of a command."""

from suite.config.compose import Request
from suite.control import planning
from suite.plan.job import Plan
from suite.plan.unsupported import UnsupportedError
from tests.suite.control.test_command import composed_job


def test_notes_are_printed_once_and_only_jobs_that_wait_for_data_are_planned_again(
    tmp_path, monkeypatch, capsys
):
    outdated, ready, waiting = (
        "environment torch is outdated",
        Plan(object(), (), None),
        Plan(None, (), None),
    )
    impossible, planned = Plan(None, (UnsupportedError("gpus=4"),), None), []

    def plan(config, *_):
        planned.append(config)
        return waiting._replace(notes=(outdated,))

    monkeypatch.setattr(planning, "plan", plan)
    request = Request(tuple(composed_job(f"seed={seed}") for seed in range(3)))
    planning.plan_all(request, tmp_path)
    assert capsys.readouterr().err == f"{outdated}\n"
    planned.clear()
    plans = planning.plan_all(
        request, tmp_path, (), [ready, waiting._replace(notes=(outdated,)), impossible]
    )
    assert (plans[::2], [config.seed for config in planned]) == ([ready, impossible], [1])
    assert capsys.readouterr().err == ""
