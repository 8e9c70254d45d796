"""Uv installs packages from the sources that pip is configured to use."""

import os

import pytest

from suite.environments import installer

CONFIGURED = """[global]
index-url = https://c/simple
extra-index-url = https://a/simple https://b/simple
find-links =
    /wheels
    /more
cert = /certificates.pem
[install]
trusted-host = a b
"""


@pytest.fixture(autouse=True)
def configured(tmp_path, monkeypatch):
    """Configure pip by a file, and remove all variables of pip and uv."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))] + [
        *installer.VARIABLES.values()
    ]:
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "pip.conf"
    file.write_text(CONFIGURED)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))


def test_settings_of_pip_are_passed_to_uv():
    command, found = installer.install("python", "x==1")
    assert command[1:] == ["pip", "install", "--python", "python", "--quiet", "--no-deps", "x==1"]
    assert found == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_DEFAULT_INDEX": "https://c/simple",
        "UV_INDEX": "https://a/simple https://b/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "SSL_CERT_FILE": "/certificates.pem",
        "UV_INSECURE_HOST": "a b",
    }


def test_variables_override_files_and_variables_of_uv_override_both(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://d/simple")
    monkeypatch.setenv("UV_FIND_LINKS", "/uvs")
    _, found = installer.install("python", "x==1")
    assert found["UV_DEFAULT_INDEX"] == "https://d/simple"
    assert "UV_FIND_LINKS" not in found


def test_without_an_index_no_index_is_used(monkeypatch):
    """Check an option without a corresponding variable of uv."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    command, found = installer.install("python", "x==1")
    assert "--no-index" in command
    assert not found.keys() & installer.INDEXES.values()
