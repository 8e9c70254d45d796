"""GPU kernels without a GPU: Triton's interpreter runs them, and its compiler compiles them."""

import json
import os
import subprocess

import pytest

from suite.environments.venvs import status
from tests.helpers import PROJECT, full_but

KERNELS = ("draw", "drop", "suppress", "rated", "entropy", "entropy_gradient", "pool", "draw_masks",
           "statistics", "joined", "applied", "slopes", "returned")  # fmt: skip


def run_probe(tmp_path, *arguments, **env):
    variables = {"PYTHONPATH": str(PROJECT), "TRITON_CACHE_DIR": str(tmp_path), **env}
    done = subprocess.run(
        [str(status("torch").python), "-m", "tests.probes.pytorch_kernels", *map(str, arguments)],
        env={**os.environ, **variables}, cwd=PROJECT, capture_output=True, text=True,
        timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_kernels_equal_the_host_bit_for_bit(tmp_path):
    found = run_probe(tmp_path, "agree", TRITON_INTERPRET="1")
    assert len(found) == 48 + 3 + 8 + 2
    assert all(found.values()), [name for name, agrees in found.items() if not agrees]


@pytest.mark.full
def test_every_mask_equals_cocos(tmp_path):
    found = run_probe(tmp_path, "every_mask", TRITON_INTERPRET="1")
    assert len(found) == 10
    assert all(found.values()), [name for name, agrees in found.items() if not agrees]


@pytest.mark.parametrize("capability", full_but((75, 80, 90, 100), 90))
def test_kernels_compile(tmp_path, capability):
    sizes = run_probe(tmp_path, "compiled", capability)
    assert {name for name, size in sizes.items() if size > 1_000} == set(KERNELS)
