"""docs/rules.md shows the tables that decide."""

import pytest

from tests.workloads import rules_page
from tests.workloads.rules_page import BEGIN, END, PAGE, WORKLOADS
from workloads.resnet50.workload import ResNet50


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
