"""Tables of hyperparameter sets in docs/ match the files of the sets."""

import re

from suite.common.conf import CONF
from tests.docs.set_tables import DOCS, MARKED, page

WITHOUT_SETS = {"allreduce"}
PAGE = DOCS / "reference" / "hyperparameter_sets.md"


def test_the_page_has_the_sets_of_every_workload():
    text = PAGE.read_text(encoding="utf-8")
    shipped = {folder.name for folder in (CONF / "hyperparameters").iterdir()} - WITHOUT_SETS
    assert sorted(mark[1] for mark in MARKED.finditer(text)) == sorted(shipped)
    assert text == page(text), "run: python -m tests.docs.set_tables"


def test_a_value_that_differs_from_its_file_is_detected():
    text = PAGE.read_text(encoding="utf-8")
    wrong = re.sub(r"98,304", "98,305", text)
    assert wrong not in (text, page(wrong))
