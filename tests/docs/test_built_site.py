"""The built documentation, opened from a disk: it asks nobody for anything, and its search finds pages."""

import os
import re
import subprocess
import sys

import pytest

from tests.helpers import PROJECT, wait_until
from tests.suite.results.render.test_browser import CHROMIUM, browser  # noqa: F401 - a fixture

pytestmark = pytest.mark.slow
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed|object|input)\b[^>]*?\s(?:src|srcset|data|poster)=[\"']?(https?:|//)"
    r"|<link\b(?![^>]*rel=[\"']?(?:canonical|prev|next))[^>]*\shref=[\"']?(https?:|//)"
)
"""What a browser loads by itself; a link that somebody follows is none."""
IN_STYLES = re.compile(r"(?:url\(|@import )\s*[\"']?(https?:|//)")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_no_page_loads_anything_from_elsewhere(site):
    pages, styles = sorted(site.rglob("*.html")), sorted(site.rglob("*.css"))
    assert len(pages) > 30
    assert styles
    for pattern, paths in ((LOADED, pages), (IN_STYLES, [*styles, *pages])):
        for path in paths:
            assert not (found := pattern.search(path.read_text(encoding="utf-8"))), (path, found)


@pytest.mark.parametrize(
    ("text", "is_loaded"),
    [
        ('<script src="https://a.org/x.js">', True),
        ("<script async src=//a.org/x.js>", True),
        ('<link rel="stylesheet" href="http://a.org/x.css">', True),
        ('<link rel="canonical" href="http://a.org/">', False),
        ('<a href="https://a.org">', False),
        ('<script src="assets/x.js">', False),
    ],
)
def test_what_counts_as_loaded(text, is_loaded):
    assert bool(LOADED.search(text)) == is_loaded


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium")
@pytest.mark.parametrize("name", ["index.html", "robustness.html"])
def test_the_search_works_from_a_disk(site, browser, name):  # noqa: F811 - the fixture
    page, noticed = browser.new_context().new_page(), []
    page.on("console", lambda message: noticed.append(message.text))
    page.on("pageerror", lambda error: noticed.append(str(error)))
    page.on("request", lambda request: None if request.url[:5] in ("file:", "data:") else noticed.append(request.url))
    page.goto(f"file://{site / name}")
    page.locator("input.md-search__input").click()
    results = page.locator("a.md-search-result__link")

    def found():  # typed again: what comes before the page's script is not heard
        page.locator("input.md-search__input").fill("")
        page.locator("input.md-search__input").press_sequentially("seek points", delay=20)
        page.wait_for_timeout(500)
        return [results.nth(number).get_attribute("href") for number in range(results.count())]

    wait_until("a result", lambda: any("images.html" in href for href in found()))
    assert not noticed
