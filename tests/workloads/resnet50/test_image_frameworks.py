"""Images are the same in every framework's environment, and evaluation pixels are those of the reference's TensorFlow."""

import json
import os
import subprocess

import pytest

from suite.common import registry
from suite.environments.environment import resolve
from tests.helpers import PROJECT


def output(framework, script):
    """What a script prints in a framework's environment."""
    try:
        environment = resolve({"name": "auto"}, registry.load_framework(framework).environments["cpu"])
    except ValueError as error:
        pytest.skip(f"no environment with {framework}: {error}")
    command = environment.command(str(PROJECT / script))
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, env={**os.environ, "PYTHONPATH": str(PROJECT)}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "mxnet"])
def test_crops_flips_and_pixels_are_the_same_in_every_environment(framework):
    found, said = output(framework, "tests/golden/images.py")
    assert found == json.loads((PROJECT / "tests/golden/images.json").read_text())
    assert "no libturbojpeg" not in said


def test_evaluation_pixels_are_tensorflows_within_one_level_on_the_mean():
    rows, _ = output("tensorflow", "tests/probes/image_resize_tensorflow.py")
    assert len(rows) == 7
    for row in rows:
        assert row["mean"] < 0.3  # rounding to integers alone gives 0.25; the bound asked for is 1
        assert row["largest"] < 1.0
        assert row["decoding_differs"] == 0
