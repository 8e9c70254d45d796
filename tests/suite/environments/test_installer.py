"""uv looks for packages where pip is told to."""

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
    """Pip has that file, and neither it nor uv a variable."""
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))] + [
        *installer.VARIABLES.values()
    ]:
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "pip.conf"
    file.write_text(CONFIGURED)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))


def test_settings_of_pip_are_handed_on():
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


def test_variables_come_before_files_and_uvs_own_before_both(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://d/simple")
    monkeypatch.setenv("UV_FIND_LINKS", "/uvs")
    _, found = installer.install("python", "x==1")
    assert found["UV_DEFAULT_INDEX"] == "https://d/simple"
    assert "UV_FIND_LINKS" not in found


def test_without_an_index_none_is_asked(monkeypatch):
    """Whatever else is told: uv knows no variable for it."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    command, found = installer.install("python", "x==1")
    assert "--no-index" in command
    assert not found.keys() & installer.INDEXES.values()
