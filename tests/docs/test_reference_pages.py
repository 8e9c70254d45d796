"""The generated pages of docs/reference have the current content."""

import pytest

from tests.docs.reference_pages import PAGES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page_is_up_to_date(path):
    text = path.read_text(encoding="utf-8")
    assert text == PAGES[path](), "run: python -m tests.docs.reference_pages"
