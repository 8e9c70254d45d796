"""Every PyTorch trainer and the kernels on a GPU, compared with the CPU.

The tests are skipped on a machine without a GPU.
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
        found = [device.name for device in devices.gpus()]
    except ValueError as error:
        pytest.skip(str(error))
    if not found or NULL_DEVICE in found[0]:
        pytest.skip("no GPU here")


@pytest.mark.parametrize("workload", [*CASES, "kernels"])
def test_a_gpu_computes_the_results_of_the_cpu(workload):
    """Compare within the tolerance of each precision.

    Hashes must be equal, and a step must not synchronize with the GPU.
    """
    found = asked(resolve(EnvironmentConfig(), "torch"), "benchmarks.gpu.right", workload)
    parts = [part for part in found.values() if isinstance(part, dict)] or [found]
    assert all(part.get("as_expected") for part in parts), json.dumps(found, indent=1)
