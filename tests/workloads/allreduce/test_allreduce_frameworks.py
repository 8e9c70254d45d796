"""Sums of each framework over two devices: every value is right, a wrong one is seen, and each step
has a time.
"""

import pytest

from tests.frameworks_probe import probe_together
from workloads.allreduce.workload import TIMED, WARMUPS, sizes

PROBE = "probes.allreduce_trainers.timed"
LARGEST = 1 << 14
PRECISIONS = {
    "pytorch": ("fp32", "bf16"),
    "tensorflow": ("fp32", "bf16"),
    "jax": ("fp32", "bf16"),
    "mxnet": ("fp32",),
}


@pytest.mark.parametrize("framework", PRECISIONS)
def test_sums_are_right_and_timed(framework):
    precisions, processes = PRECISIONS[framework], 1 if framework == "mxnet" else 2
    for arrays in probe_together(framework, processes, PROBE, framework, precisions):
        for precision in precisions:
            times, (right, other) = arrays[f"times/{precision}"], arrays[f"wrong/{precision}"]
            assert len(times) == (WARMUPS + TIMED) * len(sizes(LARGEST))
            assert (times > 0).all()
            assert right == 0
            assert other > 0, "sums of numbers are no zeros"
