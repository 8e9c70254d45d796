"""docs/reference/closed_rules.md shows the tables of the code."""

import dataclasses

import pytest

from suite.catalog.division import effective_settings
from suite.catalog.rounds import RULE_INPUTS, get_round, workload_rounds
from tests.workloads import rules_page
from tests.workloads.rules_page import BEGIN, END, PAGE, ROUNDS, WORKLOADS
from workloads.api import Settings, hyperparameter, option
from workloads.resnet50.workload import ResNet50


def differences(workload):
    """Map each round to differences between settings and rows.

    A setting without a row would make every run open. A row may not have a name that is not a
    setting.
    """
    found = {}
    for name, closed in workload_rounds(workload).items():
        mentioned = {setting for row in closed.rows for setting in (*row.names, *row.when)} - set(
            RULE_INPUTS
        )
        settings = set(effective_settings(workload, Settings(workload=workload.name, rules=name)))
        found[name] = sorted(settings ^ mentioned)
    return found


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_setting_has_a_row_in_the_rules_and_every_row_a_setting(workload):
    assert differences(workload) == {name: [] for name in workload_rounds(workload)}, (
        "give these settings a row in conf/rounds"
    )


def test_a_setting_without_a_row_is_named():
    fields = [("warp", float, hyperparameter("a new one")), ("speed", int, option(1, "another"))]
    options = dataclasses.make_dataclass(
        "Options", fields, bases=(ResNet50.Options,), frozen=True, kw_only=True
    )
    found = differences(type("More", (ResNet50,), {"Options": options}))
    assert found == {name: ["speed", "warp"] for name in ROUNDS}


def test_the_page_has_the_tables_of_the_code():
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert text == rules_page.page(text), "run: python -m tests.workloads.rules_page"


def test_the_page_depends_on_the_rows(monkeypatch):
    text, v07 = PAGE.read_text(encoding="utf-8"), get_round("v0.7", ResNet50)
    every = rules_page.workload_rounds
    only_v07 = {"v0.7": v07}
    monkeypatch.setattr(
        rules_page, "workload_rounds", lambda kind: only_v07 if kind is ResNet50 else every(kind)
    )
    assert text != rules_page.page(text)
