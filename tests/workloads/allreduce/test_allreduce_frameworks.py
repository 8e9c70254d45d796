"""All-reduce over two devices in each framework: exact sums, detected errors, and step times."""

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
            times = arrays[f"times/{precision}"]
            wrong_values, wrong_values_without_sum = arrays[f"wrong/{precision}"]
            assert len(times) == (WARMUPS + TIMED) * len(sizes(LARGEST))
            assert (times > 0).all()
            assert wrong_values == 0
            assert wrong_values_without_sum > 0, "a missing sum is detected"
