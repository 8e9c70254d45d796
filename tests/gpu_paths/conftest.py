"""Fixtures for the null device, which is built once per session, and for commands that use it."""

import pytest

from tests.gpu_paths.null.build import build, missing
from tests.helpers import run_suite, suite


class Null:
    """Commands on machines with null devices."""

    def __init__(self, env, folder):
        self.env, self.folder = env, folder

    def _variables(self, cards, **more):
        """Return the environment variables; `cards` are names of cards.h, one per device."""
        return {**self.env, "NULL_GPU": ",".join(cards), "NULL_GPU_COUNT": str(len(cards)), **more}

    def run(self, *overrides, cards=("h100",), **more):
        return run_suite(self.folder, *overrides, "device=cuda", **self._variables(cards, **more))

    def suite(self, *arguments, cards=("h100",), **more):
        return suite(self.folder, *arguments, **self._variables(cards, **more))


@pytest.fixture(scope="session")
def null_variables(tmp_path_factory):
    """Build the null device and return the variables that load it instead of CUDA's libraries."""
    if why := missing():
        pytest.skip(f"no null device: {why}")
    return build(tmp_path_factory.mktemp("null_device"))


@pytest.fixture
def null(null_variables, tmp_path, monkeypatch):
    """Return commands that use null devices, in the folder of the test."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return Null(null_variables, tmp_path)
