"""The built documentation, opened from a disk: it asks nobody for anything, and its search finds
pages.
"""

import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest

from tests.browser import chromium, needs_chromium, visited
from tests.helpers import PROJECT

pytestmark = pytest.mark.slow

SCRIPTS_ASK_FOR = {
    "https://unpkg.com/mermaid@11/dist/mermaid.min.js": r'class="[^"]*\bmermaid\b',
    "https://api.github.com/": r'data-md-component="source"',
    "https://${e}/api/v4/projects/": r'data-md-component="source"',  # GitLab
    "https://unpkg.com/resize-observer-polyfill": None,
}
"""What the theme's scripts may ask for, and what a page has on it if they do; the last, browsers of
before 2020 alone.
"""


class Addresses(HTMLParser):
    """What a page or figure asks for by itself: all its addresses but those that a reader clicks
    on.
    """

    def __init__(self, text):
        super().__init__()
        self.found = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        names = {"src", "srcset", "data", "poster", "action", "manifest", "href", "xlink:href"}
        self.found.update(
            value for name, value in attrs if name in names and (tag != "a" or "href" not in name)
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, timeout=300)
    return folder


def texts(site, *patterns):
    """The text of each file of the site that fits one of the patterns, by name."""
    files = [
        path
        for pattern in patterns
        for path in site.rglob(pattern)
        if path.name != "search_index.js"
    ]  # data
    assert files
    return {path.name: path.read_text(encoding="utf-8") for path in files}


def test_no_page_and_no_figure_asks_for_anything_from_elsewhere(site):
    found = {name: Addresses(text).found for name, text in texts(site, "*.html", "*.svg").items()}
    asked = {(name, address) for name, addresses in found.items() for address in addresses}
    assert ("index.html", "figures/six_demos.svg") in asked
    assert {(name, address) for name, address in asked if urlsplit(address).netloc} == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<script async src=//a.org/x.js>", {"//a.org/x.js"}),
        ('<link rel="stylesheet" href="http://a.org/x.css">', {"http://a.org/x.css"}),
        ('<svg><image xlink:href="http://a.org/x.png"/></svg>', {"http://a.org/x.png"}),
        ('<svg><a xlink:href="https://a.org">', set()),
        ('<a href="https://a.org">', set()),
    ],
)
def test_what_counts_as_asked_for(text, found):
    assert Addresses(text).found == found


def test_no_style_asks_for_anything_from_elsewhere(site):
    for name, text in texts(site, "*.css", "*.html", "*.svg").items():
        assert not re.search(r"""(@import|url\()\s*(url\()?["']?(https?:)?//""", text), name


def test_scripts_ask_elsewhere_only_for_what_no_page_has(site):
    for text in texts(site, "*.js").values():
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        for address in re.findall(r"""["'`](https?://[^"'`\s]+)""", code):
            assert address.startswith(tuple(SCRIPTS_ASK_FOR))
    for name, text in texts(site, "*.html").items():
        assert not any(re.search(mark, text) for mark in SCRIPTS_ASK_FOR.values() if mark), name


@needs_chromium
def test_search_finds_a_word_on_pages_opened_from_disk(site):
    with chromium() as browser:
        page, noticed = visited(browser, f"file://{site}/index.html")
        for _ in range(2):  # from the first page, and from the one found
            page.locator("input[name=query]").press_sequentially("hostfile")
            page.locator(".md-search-result__link").first.click()
            page.wait_for_url(f"file://{site}/several_machines.html*")
        assert noticed == []
