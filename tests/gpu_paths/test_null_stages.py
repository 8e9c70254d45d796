"""The benchmark stages for GPUs run on a null device, whose results are never as expected."""

import json
import os
import subprocess
import sys

import pytest

from tests.helpers import PROJECT


@pytest.mark.full
def test_a_completed_stage_is_not_repeated(null_variables, tmp_path):
    env = {**os.environ, **null_variables, "NULL_GPU": "h200"}
    command = [
        sys.executable,
        "-m",
        "benchmarks.gpu",
        "right",
        "--workloads",
        "ncf",
        "--out",
        str(tmp_path),
    ]
    streams = {"capture_output": True, "text": True, "timeout": 300}
    done = [subprocess.run(command, env=env, cwd=PROJECT, check=False, **streams) for _ in range(2)]
    assert [process.returncode for process in done] == [1, 1], done[0].stderr
    found = json.loads((tmp_path / "results.json").read_text())["right"]
    assert set(found) == {"kernels", "ncf"}
    assert set(found["ncf"]) == {"fp32", "tf32", "bf16", "took_seconds"}
    assert all(
        part["waits"] == "" and part["finite"]
        for name, part in found["ncf"].items()
        if name != "took_seconds"
    )
    assert found["kernels"]["usable"]
    assert "right ncf:" in done[0].stdout
    assert "right ncf:" not in done[1].stdout
    assert "NVIDIA H200 (null device)" in (tmp_path / "report.md").read_text()
