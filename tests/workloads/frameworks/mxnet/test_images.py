"""What MXNet has beyond the other frameworks: variances that it moves in another way, threads that
it must not start.
"""

import json
import os
import subprocess

import numpy as np
import pytest

from suite.common import registry
from suite.common.run_config import EnvironmentConfig
from suite.environments.environment import resolve
from tests.frameworks_probe import below, probe, relative
from tests.helpers import PROJECT
from tests.workloads.frameworks.mxnet.pictures import CHANNELS, Pictures, moved


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("devices", [1, 2])
def test_running_variances_are_unbiased_by_each_steps_own_size(devices, pieces):
    """After two segments of steps with images of two sizes, at whose ends the replicas' statistics
    are averaged.
    """
    found, workload = (
        probe("mxnet", "probes.mxnet_images.statistics", devices, pieces),
        Pictures(devices, pieces),
    )
    weight = np.float64(dict(workload.initial_weights(3))["conv.weight"])
    mean, steps = [np.zeros(CHANNELS), np.ones(CHANNELS)], workload.steps(range(devices))
    for first, stop in ((0, 5), (5, 6)):
        local = [mean] * devices
        for batches in steps[first:stop]:
            local = [
                moved(weight, one, batch, pieces) for one, batch in zip(local, batches, strict=True)
            ]
        mean = [np.mean([one[kind] for one in local], axis=0) for kind in range(2)]
        for name, wanted in zip(("mean", "var"), mean, strict=True):
            assert relative(found[f"after {stop}/norm.running_{name}"], wanted) < 2e-6
    for name, value in below(found, "cold/").items():
        np.testing.assert_array_equal(found[f"warm/{name}"], value)


@pytest.mark.parametrize(("words", "added"), [((), [1, 1, 0]), (("trainer",), [0, 1, 0])])
def test_only_the_contexts_worker_has_threads_of_openmp(words, added):
    """Without a trainer the calling thread gets one for a copy: the first case shows that the
    second can fail.
    """
    environment = resolve(EnvironmentConfig(), registry.load_framework("mxnet").environments["cpu"])
    command = environment.command("-m", "tests.probes.mxnet_threads", *words)
    variables = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.strip().splitlines()[-1]) == added
