"""On a machine with a GPU: every PyTorch trainer against the CPU, and the kernels.

Elsewhere these skip.
"""

import json

import pytest

from benchmarks.gpu.__main__ import asked
from benchmarks.gpu.trainers import CASES
from suite.common.run_config import EnvironmentConfig
from suite.environments.environment import resolve
from suite.machine import devices
from suite.machine.visible import NULL_DEVICE


@pytest.fixture(scope="module", autouse=True)
def gpu():
    try:
        found = [one.name for one in devices.gpus()]
    except ValueError as error:
        pytest.skip(str(error))
    if not found or NULL_DEVICE in found[0]:
        pytest.skip("no GPU here")


@pytest.mark.parametrize("workload", [*CASES, "kernels"])
def test_a_gpu_computes_what_the_cpu_computes(workload):
    """As far as each precision goes; nothing waits within a step; hashes bit for bit."""
    found = asked(resolve(EnvironmentConfig(), "torch"), "benchmarks.gpu.right", workload)
    parts = [part for part in found.values() if isinstance(part, dict)] or [found]
    assert all(part.get("as_expected") for part in parts), json.dumps(found, indent=1)
