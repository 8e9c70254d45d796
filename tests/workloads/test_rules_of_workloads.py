"""Tables of rules: what was wrongly closed or open, and the stock checker on settings around their
edges.
"""

import pytest

from suite.catalog.division import find_deviations
from tests.workloads.closed_logs import assert_agreement
from tests.workloads.rules_page import RULES


def rows(name):
    """Each workload with the rows that its module has of a name: settings and phrases."""
    found = [
        (workload, *row) for workload, module in RULES.items() for row in getattr(module, name, ())
    ]
    return pytest.mark.parametrize(("workload", "settings", "phrases"), found)


@rows("CLOSED")
def test_what_is_closed(workload, settings, phrases):
    assert [deviation.text for deviation in find_deviations(workload, settings)] == phrases


@rows("OPEN")
def test_what_is_open_for_these_reasons_among_others(workload, settings, phrases):
    assert phrases <= {deviation.text for deviation in find_deviations(workload, settings)}


@pytest.mark.parametrize("workload", RULES)
def test_the_stock_checker_agrees_on_settings_around_the_edges(tmp_path, workload):
    """NCF's is the suite's own rule file: mlperf-logging has none."""
    module = RULES[workload]
    assert_agreement(tmp_path, module.around_the_edges(), module.LAXER, module.LEAST)
