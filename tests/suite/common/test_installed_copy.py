"""A copy of a checkout in site-packages prints a notice: its paths and how to use the checkout."""

import json
import sys
from pathlib import Path

import pytest

from suite.common import installed_copy
from tests.helpers import PROJECT, run_suite_here, suite_here

NOTICE = f"-m pip install --no-deps -e {PROJECT}"


class Installed:
    """Stub of the metadata that pip stores for a package."""

    def __init__(self, url):
        self.url = url

    def read_text(self, name):
        return None if self.url is None else json.dumps({"url": self.url, "dir_info": {}})


@pytest.fixture
def copied(monkeypatch):
    """Return a function that makes the suite appear to be a copy, installed from a URL."""

    def install(url):
        monkeypatch.setattr(installed_copy, "IN_CHECKOUT", False)
        monkeypatch.setattr(installed_copy, "distribution", lambda name: Installed(url))

    return install


def test_a_checkout_prints_no_notice(tmp_path):
    assert installed_copy.copy_notice() == ""
    assert "this is a copy" not in suite_here(tmp_path, "env", "list").stderr


@pytest.mark.parametrize(
    ("url", "folder", "has_notice"),
    [
        (PROJECT.as_uri(), ".", True),
        (None, PROJECT / "docs", True),
        (None, ".", False),
        ("https://example.org/suite.whl", ".", False),
        ("file:///no/such/folder", ".", False),
        ("file:///tmp", ".", False),
    ],
)
def test_a_package_without_a_checkout_prints_no_notice(
    tmp_path, monkeypatch, copied, url, folder, has_notice
):
    copied(url)
    monkeypatch.chdir(tmp_path / folder)
    assert installed_copy.copy_notice().endswith(NOTICE) is has_notice


def test_every_command_of_a_copy_prints_its_paths_and_the_install_command(tmp_path, copied):
    copied(PROJECT.as_uri())
    for call, arguments in (
        (suite_here, ["env", "list"]),
        (suite_here, ["published", "list"]),
        (run_suite_here, ["--version"]),
    ):
        line = call(tmp_path, *arguments).stderr.splitlines()[0]
        assert f"this is a copy of {PROJECT} in " in line
        assert f"logs in {tmp_path / 'logs'}" in line
        assert line.endswith(f"{sys.executable} {NOTICE}")


def test_the_notice_is_not_part_of_csv_output(tmp_path, copied):
    copied(PROJECT.as_uri())
    done = suite_here(tmp_path, "published", "list", "--format", "csv")
    assert "this is a copy" not in done.stdout
    assert Path(installed_copy.PROJECT) == PROJECT
