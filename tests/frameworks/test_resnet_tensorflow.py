"""ResNet in TensorFlow: compiled as plain, 1×1 convolutions as products or not, narrow precisions near fp32."""

import json
import os
import subprocess

import numpy as np
import pytest

from suite.common import registry
from suite.environments.environment import resolve
from tests.helpers import PROJECT

PROBE = str(PROJECT / "tests" / "frameworks" / "resnet_tensorflow_probe.py")


@pytest.fixture(scope="module")
def found():
    environment = resolve({"name": "auto"}, registry.load_framework("tensorflow").environments["cpu"])
    variables = {**os.environ, "PYTHONPATH": str(PROJECT), "RANK": "0", "WORLD_SIZE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(environment.command(PROBE), env=variables, text=True, capture_output=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def difference(one, other, name):
    """Largest difference over the largest value."""
    first, second = np.array(one[name]), np.array(other[name])
    return np.abs(first - second).max() / np.abs(second).max()


@pytest.mark.parametrize("variant", ["fp32 compiled", "convolutions"])
def test_fp32_is_the_same_however_it_is_computed(found, variant):
    one, other = found[variant], found["fp32"]
    assert difference(one, other, "logits") < 1e-5
    assert difference(one, other, "losses") < 1e-3
    assert difference(one, other, "variance") < 1e-3


@pytest.mark.parametrize(("variant", "near"), [("bf16", 2e-2), ("fp16", 4e-3)])
def test_narrow_precisions_compute_narrow_and_keep_weights_in_fp32(found, variant, near):
    assert 1e-5 < difference(found[variant], found["fp32"], "logits") < near
    assert difference(found[variant], found["fp32"], "losses") < 1e-2
    assert found[variant]["dtypes"] == ["float32"]


def test_a_step_is_traced_once(found):
    assert [one["traces"] for one in found.values()] == [1] * len(found)
