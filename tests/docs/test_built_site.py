"""The built documentation, opened from a disk, sends no requests, and its search finds pages."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest

from tests.browser import chromium, needs_chromium, visited
from tests.helpers import PROJECT

pytestmark = pytest.mark.slow

ADDRESSES_IN_SCRIPTS = {
    "https://unpkg.com/mermaid@11/dist/mermaid.min.js": r'class="[^"]*\bmermaid\b',
    "https://api.github.com/": r'data-md-component="source"',
    "https://${e}/api/v4/projects/": r'data-md-component="source"',  # GitLab
    "https://unpkg.com/resize-observer-polyfill": None,
}
"""Addresses in the theme's scripts, and a pattern of the element that causes the request.

Only browsers released before 2020 request the last address.
"""


class Addresses(HTMLParser):
    """Parser that collects all addresses a page requests by itself, without links."""

    def __init__(self, text):
        super().__init__()
        self.addresses = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        names = {"src", "srcset", "data", "poster", "action", "manifest", "href", "xlink:href"}
        self.addresses.update(
            value for name, value in attrs if name in names and (tag != "a" or "href" not in name)
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, timeout=300)
    return folder


def read_texts(site, *patterns):
    """Return the text of each file of the site that matches a pattern, by name."""
    paths = [path for pattern in patterns for path in site.rglob(pattern)]
    files = [path for path in paths if path.name != "search_index.js"]
    assert files
    return {path.name: path.read_text(encoding="utf-8") for path in files}


def test_no_page_or_figure_requests_a_foreign_address(site):
    requested = {
        (name, address)
        for name, text in read_texts(site, "*.html", "*.svg").items()
        for address in Addresses(text).addresses
    }
    assert ("index.html", "figures/six_demos.svg") in requested
    assert {(name, address) for name, address in requested if urlsplit(address).netloc} == set()


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("<script async src=//a.org/x.js>", {"//a.org/x.js"}),
        ('<link rel="stylesheet" href="http://a.org/x.css">', {"http://a.org/x.css"}),
        ('<svg><image xlink:href="http://a.org/x.png"/></svg>', {"http://a.org/x.png"}),
        ('<svg><a xlink:href="https://a.org">', set()),
        ('<a href="https://a.org">', set()),
    ],
)
def test_requested_addresses_are_found_and_links_are_not(text, addresses):
    assert Addresses(text).addresses == addresses


def test_no_style_requests_a_foreign_address(site):
    for name, text in read_texts(site, "*.css", "*.html", "*.svg").items():
        assert not re.search(r"""(@import|url\()\s*(url\()?["']?(https?:)?//""", text), name


def test_scripts_request_foreign_addresses_only_for_unused_elements(site):
    for text in read_texts(site, "*.js").values():
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        for address in re.findall(r"""["'`](https?://[^"'`\s]+)""", code):
            assert address.startswith(tuple(ADDRESSES_IN_SCRIPTS))
    for name, text in read_texts(site, "*.html").items():
        assert not any(re.search(mark, text) for mark in ADDRESSES_IN_SCRIPTS.values() if mark), (
            name
        )


@needs_chromium
def test_search_finds_a_word_on_pages_opened_from_disk(site):
    with chromium() as browser:
        page, noticed = visited(browser, f"file://{site}/index.html")
        for _ in range(2):  # from the start page, and from the found page
            page.locator("input[name=query]").press_sequentially("kubernetes")
            page.locator(".md-search-result__link").first.click()
            page.wait_for_url(f"file://{site}/how-to/kubernetes.html*")
        assert noticed == []
