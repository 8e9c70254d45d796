"""The generated pages of docs/reference have the current content."""

import pytest

from suite.common import conf
from tests.docs.reference_pages import PAGES


@pytest.fixture
def without_user_folders(monkeypatch):
    """Hide the folders of `--config-dir` that earlier tests used in this process."""
    monkeypatch.setattr(conf, "_user_folders", [])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
@pytest.mark.usefixtures("without_user_folders")
def test_page_is_up_to_date(path):
    text = path.read_text(encoding="utf-8")
    assert text == PAGES[path](), "run: python -m tests.docs.reference_pages"
