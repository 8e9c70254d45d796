import pytest


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Return an empty root for environments, at a path with a space and a letter beyond ASCII."""
    monkeypatch.setenv("SUITE_ENV_DIR", str(tmp_path / "my énvs"))
    return tmp_path / "my énvs"
