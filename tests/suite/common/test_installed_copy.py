"""A copy of a checkout in site-packages says what it is, where it looks, and how to use the
checkout itself.
"""

import json
import sys
from pathlib import Path

import pytest

from suite.common import installed_copy
from tests.helpers import PROJECT, run_suite_here, suite_here

NOTICE = f"-m pip install --no-deps -e {PROJECT}"


class Installed:
    """Stands for the metadata that pip leaves of a package."""

    def __init__(self, url):
        self.url = url

    def read_text(self, name):
        return None if self.url is None else json.dumps({"url": self.url, "dir_info": {}})


@pytest.fixture
def copied(monkeypatch):
    """From now on the suite takes itself for a copy, installed from a URL."""

    def install(url):
        monkeypatch.setattr(installed_copy, "IN_CHECKOUT", False)
        monkeypatch.setattr(installed_copy, "distribution", lambda name: Installed(url))

    return install


def test_a_checkout_says_nothing(tmp_path):
    assert installed_copy.copy_notice() == ""
    assert "this is a copy" not in suite_here(tmp_path, "env", "list").stderr


@pytest.mark.parametrize(
    ("url", "where", "is_told"),
    [
        (PROJECT.as_uri(), ".", True),
        (None, PROJECT / "docs", True),
        (None, ".", False),
        ("https://example.org/suite.whl", ".", False),
        ("file:///no/such/folder", ".", False),
        ("file:///tmp", ".", False),
    ],
)
def test_a_copy_is_told_from_a_package_without_a_checkout(
    tmp_path, monkeypatch, copied, url, where, is_told
):
    copied(url)
    monkeypatch.chdir(tmp_path / where)
    assert installed_copy.copy_notice().endswith(NOTICE) is is_told


def test_every_command_says_where_it_looks_and_how_to_use_the_checkout(tmp_path, copied):
    copied(PROJECT.as_uri())
    for call, words in (
        (suite_here, ["env", "list"]),
        (suite_here, ["published", "list"]),
        (run_suite_here, ["--version"]),
    ):
        line = call(tmp_path, *words).stderr.splitlines()[0]
        assert f"this is a copy of {PROJECT} in " in line
        assert f"logs in {tmp_path / 'logs'}" in line
        assert line.endswith(f"{sys.executable} {NOTICE}")


def test_json_and_csv_stay_whole(tmp_path, copied):
    copied(PROJECT.as_uri())
    done = suite_here(tmp_path, "published", "list", "--format", "csv")
    assert "this is a copy" not in done.stdout
    assert Path(installed_copy.PROJECT) == PROJECT
