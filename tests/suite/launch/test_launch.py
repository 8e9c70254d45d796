"""What launchers give the environment of workers."""

from types import SimpleNamespace

import pytest

from suite.launch.mxnet import MXNET
from suite.launch.pytorch import PYTORCH
from suite.launch.tensorflow import TENSORFLOW


def variables(framework, **changes):
    settings = {"device": "cpu", "devices": 1, "cores_per_device": 3, "precision": "fp32"}
    (command,) = framework.commands(SimpleNamespace(settings=SimpleNamespace(**{**settings, **changes})), "run.json")
    return command.variables


@pytest.mark.parametrize("framework", [PYTORCH, TENSORFLOW, MXNET], ids=lambda framework: framework.name)
def test_numerical_libraries_get_the_cores_of_a_device(framework):
    assert variables(framework)["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize("framework", [PYTORCH, MXNET], ids=lambda framework: framework.name)
def test_malloc_takes_huge_pages_on_cpu_cores_unless_the_user_says_otherwise(framework, monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert "glibc.malloc.hugetlb=1" in variables(framework)["GLIBC_TUNABLES"].split(":")
    assert "GLIBC_TUNABLES" not in variables(framework, device="cuda")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=2")
    assert "GLIBC_TUNABLES" not in variables(framework)
