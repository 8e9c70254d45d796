"""Contenders of `benchmarks.busy_machine` have the environment variables of a real worker."""

import pytest

from benchmarks import busy_machine


@pytest.mark.framework
def test_a_contender_gets_the_variables_of_a_worker(tmp_path):
    overrides = [
        "workload=ncf",
        "framework=pytorch",
        "profile=demo",
        "device=cpu",
        "seed=1",
        "cpu.cores_per_device=1",
    ]
    found = busy_machine.planned(overrides, tmp_path)
    assert found["OMP_NUM_THREADS"] == "1"
    assert (tmp_path / "run.json").exists()
