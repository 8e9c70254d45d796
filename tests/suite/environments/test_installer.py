"""uv looks for packages where pip is told to."""

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


NAMES = {**installer.INDEXES, **installer.VARIABLES}


def told(tmp_path, monkeypatch):
    """Of uv, with that file and no variables: what follows from the settings."""
    for name, variable in {**NAMES, "no-index": "UV_INDEX_STRATEGY"}.items():
        monkeypatch.delenv(f"PIP_{name.upper().replace('-', '_')}", raising=False)
        monkeypatch.delenv(variable, raising=False)
    file = tmp_path / "pip.conf"
    file.write_text(CONFIGURED)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))


def test_settings_of_pip_are_handed_on(tmp_path, monkeypatch):
    told(tmp_path, monkeypatch)
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


def test_variables_come_before_files_and_uvs_own_before_both(tmp_path, monkeypatch):
    told(tmp_path, monkeypatch)
    monkeypatch.setenv("PIP_INDEX_URL", "https://d/simple")
    monkeypatch.setenv("UV_FIND_LINKS", "/uvs")
    _, found = installer.install("python", "x==1")
    assert found["UV_DEFAULT_INDEX"] == "https://d/simple"
    assert "UV_FIND_LINKS" not in found


def test_without_an_index_none_is_asked(tmp_path, monkeypatch):
    """Whatever else is told: uv knows no variable for it."""
    told(tmp_path, monkeypatch)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    command, found = installer.install("python", "x==1")
    assert "--no-index" in command
    assert not found.keys() & installer.INDEXES.values()
