"""Chromium for tests of HTML pages."""

import contextlib
import shutil

import pytest

PROGRAM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    PROGRAM is None, reason="chromium is not installed: apt-get install chromium"
)


@contextlib.contextmanager
def chromium():
    """Yield a headless browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        yield browser
        browser.close()


def visited(browser, address, **options):
    """Return the page at an address, and a list that collects its messages, errors and requests.

    Requests for local files and data URLs are not in the list.
    """
    page, noticed = browser.new_context(**options).new_page(), []
    page.on("console", lambda message: noticed.append(message.text))
    page.on("pageerror", lambda error: noticed.append(str(error)))
    page.on("dialog", lambda dialog: noticed.append(dialog.message))
    page.on(
        "request",
        lambda request: (
            None if request.url[:5] in ("file:", "data:") else noticed.append(request.url)
        ),
    )
    page.set_default_timeout(120_000)  # long enough for a busy machine
    page.goto(address)
    return page, noticed
