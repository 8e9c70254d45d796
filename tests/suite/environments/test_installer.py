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


def test_settings_of_pip_are_handed_on(tmp_path, monkeypatch):
    for name in installer.VARIABLES:
        monkeypatch.delenv(f"PIP_{name.upper().replace('-', '_')}", raising=False)
        monkeypatch.delenv(installer.VARIABLES[name], raising=False)
    file = tmp_path / "pip.conf"
    file.write_text(CONFIGURED)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    found = installer.variables()
    assert {name: value for name, value in found.items() if name != "UV_INDEX_STRATEGY"} == {
        "UV_DEFAULT_INDEX": "https://c/simple",
        "UV_INDEX": "https://a/simple https://b/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "SSL_CERT_FILE": "/certificates.pem",
        "UV_INSECURE_HOST": "a b",
    }
    monkeypatch.setenv("PIP_INDEX_URL", "https://d/simple")  # pip's own order: variables before files
    monkeypatch.setenv("UV_FIND_LINKS", "/uvs")
    found = installer.variables()
    assert found["UV_DEFAULT_INDEX"] == "https://d/simple"
    assert "UV_FIND_LINKS" not in found
