"""Planning of all jobs of a command."""

from suite.config.compose import Request
from suite.control import planning
from suite.plan.job import Plan
from suite.plan.unsupported import UnsupportedError
from tests.suite.control.test_command import one


def test_what_planning_notes_is_said_once_and_only_what_waits_for_data_is_planned_again(
    tmp_path, monkeypatch, capsys
):
    outdated, ready, waiting = (
        "environment torch is outdated",
        Plan(object(), (), None),
        Plan(None, (), None),
    )
    impossible, made = Plan(None, (UnsupportedError("gpus=4"),), None), []

    def plan(config, *_):
        made.append(config)
        return waiting._replace(notes=(outdated,))

    monkeypatch.setattr(planning, "plan", plan)
    request = Request(tuple(one(f"seed={seed}") for seed in range(3)))
    planning.plan_all(request, tmp_path)
    assert capsys.readouterr().err == f"{outdated}\n"
    made.clear()
    plans = planning.plan_all(
        request, tmp_path, (), [ready, waiting._replace(notes=(outdated,)), impossible]
    )
    assert (plans[::2], [config.seed for config in made]) == ([ready, impossible], [1])
    assert capsys.readouterr().err == ""
