"""docs/rules.md shows the tables that decide."""

import dataclasses

import pytest

from tests.workloads import rules_page
from tests.workloads.rules_page import BEGIN, END, PAGE, WORKLOADS
from workloads.api import Settings, hyperparameter, option
from workloads.resnet50.workload import ResNet50

OF_A_RUN = (
    *("seed_source", "cache_clear", "repeated_share", "left_out_share"),
    *("warm_up_samples", "first_decay_samples", "run_samples"),
)
"""What rules ask of a run beside its settings."""


def differences(workload):
    """Round to the settings of a workload that no row mentions, which would make every run open, and to names in rows that are
    no setting."""
    found = {}
    for name, closed in workload.rules.items():
        mentioned = {setting for row in closed.rows for setting in (*row.names, *row.when)} - set(OF_A_RUN)
        settings = set(workload.decisive(Settings(workload=workload.name, rules=name)))
        found[name] = sorted(settings ^ mentioned)
    return found


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_setting_has_a_row_in_the_rules_and_every_row_a_setting(workload):
    assert differences(workload) == {name: [] for name in workload.rules}, "give these settings a row in rules.py"


def test_a_setting_without_a_row_is_named():
    fields = [("warp", float, hyperparameter("a new one")), ("speed", int, option(1, "another"))]
    options = dataclasses.make_dataclass("Options", fields, bases=(ResNet50.Options,), frozen=True, kw_only=True)
    assert differences(type("More", (ResNet50,), {"Options": options})) == {
        name: ["speed", "warp"] for name in ResNet50.rules
    }


def test_the_page_has_the_tables_of_the_code():
    text = PAGE.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert text == rules_page.page(text), "type: python -m tests.workloads.rules_page"


def test_a_row_changed_in_the_code_alone_is_seen(monkeypatch):
    text = PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(ResNet50, "rules", {"v0.7": ResNet50.rules["v0.7"]})
    assert text != rules_page.page(text)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_row_names_its_source(workload):
    for found in workload.rules.values():
        assert all(len(row.source) > 10 or row.source in ("has no effect there",) for row in found.rows)
