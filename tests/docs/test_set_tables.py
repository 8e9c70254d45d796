"""Tables of hyperparameter sets in docs/ match the files of the sets."""

import re

import pytest

from suite.common.conf import CONF
from tests.docs.set_tables import DOCS, MARKED, page

SETS = sorted(folder.name for folder in (CONF / "hyperparameters").iterdir())
PAGES = {
    name: DOCS / "reference" / "workloads" / f"{name}.md" for name in SETS if name != "allreduce"
}


@pytest.mark.parametrize("workload", PAGES)
def test_a_page_has_the_sets_of_its_workload(workload):
    text = PAGES[workload].read_text(encoding="utf-8")
    assert [mark[1] for mark in MARKED.finditer(text)] == [workload]
    assert text == page(text), "run: python -m tests.docs.set_tables"


def test_a_value_that_differs_from_its_file_is_detected():
    text = PAGES["ncf"].read_text(encoding="utf-8")
    wrong = re.sub(r"98,304", "98,305", text)
    assert wrong not in (text, page(wrong))
