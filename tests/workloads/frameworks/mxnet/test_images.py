"""Image trainers of MXNet: unbiased running variances, and threads."""

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
def test_running_variances_are_unbiased_for_each_image_size(devices, pieces):
    """Check two segments of steps with images of two sizes.

    The statistics of the replicas are averaged at the end of each segment.
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
                moved(weight, statistics, batch, pieces)
                for statistics, batch in zip(local, batches, strict=True)
            ]
        mean = [np.mean([statistics[kind] for statistics in local], axis=0) for kind in range(2)]
        for name, wanted in zip(("mean", "var"), mean, strict=True):
            assert relative(found[f"after {stop}/norm.running_{name}"], wanted) < 2e-6
    for name, value in below(found, "cold/").items():
        np.testing.assert_array_equal(found[f"warm/{name}"], value)


@pytest.mark.parametrize(("arguments", "added"), [((), [1, 1, 0]), (("trainer",), [0, 1, 0])])
def test_with_a_trainer_only_the_worker_of_the_context_starts_openmp_threads(arguments, added):
    """Count the threads that a copy starts, without and with a trainer.

    Without a trainer, the calling thread starts an OpenMP thread. This case shows that the case
    with a trainer can fail.
    """
    environment = resolve(EnvironmentConfig(), registry.load_framework("mxnet").environments["cpu"])
    command = environment.command("-m", "tests.probes.mxnet_threads", *arguments)
    variables = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(PROJECT)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.strip().splitlines()[-1]) == added
