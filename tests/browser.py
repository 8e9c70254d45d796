"""Chromium, in which tests look at pages as a reader does."""

import contextlib
import shutil

import pytest

PROGRAM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(
    PROGRAM is None, reason="chromium is not installed: apt-get install chromium"
)


@contextlib.contextmanager
def chromium():
    """A browser without a window, closed at the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        yield browser
        browser.close()


def visited(browser, address, **options):
    """The page at an address, and a list of what went wrong on it or left it so far: messages,
    errors, requests.
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
    page.set_default_timeout(120_000)  # a busy machine
    page.goto(address)
    return page, noticed
