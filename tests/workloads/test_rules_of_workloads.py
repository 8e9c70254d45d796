"""Rules of all workloads: closed and open settings, and the stock checker's verdict.

The stock checker gets settings around the limits of the rules.
"""

import pytest

from suite.catalog.division import find_deviations
from tests.workloads.closed_logs import assert_agreement
from tests.workloads.rules_page import RULES


def rows(name):
    """Parametrize by the rows of all workloads' modules with this name: settings and phrases."""
    found = [
        (workload, *row) for workload, module in RULES.items() for row in getattr(module, name, ())
    ]
    return pytest.mark.parametrize(("workload", "settings", "phrases"), found)


@rows("CLOSED")
def test_closed_settings_have_only_these_deviations(workload, settings, phrases):
    assert [deviation.text for deviation in find_deviations(workload, settings)] == phrases


@rows("OPEN")
def test_open_settings_have_these_reasons(workload, settings, phrases):
    assert phrases <= {deviation.text for deviation in find_deviations(workload, settings)}


@pytest.mark.parametrize("workload", RULES)
def test_the_stock_checker_agrees_on_settings_around_the_limits(tmp_path, workload):
    """Compare with mlperf-logging's checker, for NCF with the suite's rule file."""
    module = RULES[workload]
    assert_agreement(tmp_path, module.around_the_edges(), module.LAXER, module.LEAST)
