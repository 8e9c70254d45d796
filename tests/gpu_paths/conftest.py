"""The null device, built once in a session, and commands that see it."""

import pytest

from tests.gpu_paths.null.build import build, missing
from tests.helpers import run_suite, suite


class Null:
    """Commands on machines with null devices."""

    def __init__(self, env, folder):
        self.env, self.folder = env, folder

    def _variables(self, cards, **more):
        """`cards`: names of cards.h, one for each device."""
        return {**self.env, "NULL_GPU": ",".join(cards), "NULL_GPU_COUNT": str(len(cards)), **more}

    def run(self, *words, cards=("h100",), **more):
        return run_suite(self.folder, *words, "device=cuda", **self._variables(cards, **more))

    def suite(self, *words, cards=("h100",), **more):
        return suite(self.folder, *words, **self._variables(cards, **more))


@pytest.fixture(scope="session")
def null_variables(tmp_path_factory):
    """What puts the null device before CUDA's libraries."""
    if why := missing():
        pytest.skip(f"no null device: {why}")
    return build(tmp_path_factory.mktemp("null_device"))


@pytest.fixture
def null(null_variables, tmp_path, monkeypatch):
    """Commands that see null devices, in a folder of the test's own."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return Null(null_variables, tmp_path)
