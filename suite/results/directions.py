"""Which metrics improve as they fall: errors, losses, and distances."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping

_EVERY_METRIC: frozenset[str] = frozenset()
FALLING_METRICS: Mapping[str, frozenset[str]] = {
    "rnnt": _EVERY_METRIC,  # word error rate
    "stable_diffusion": frozenset({"FID"}),  # its other metric, CLIP, rises
    **dict.fromkeys(("gpt3", "llama2_70b_lora", "llama31_405b", "llama31_8b", "gpt_oss_20b"), _EVERY_METRIC),
    **dict.fromkeys(("deepseekv3_671b", "flux1"), _EVERY_METRIC),
    **dict.fromkeys(("cosmoflow", "oc20"), _EVERY_METRIC),  # MLPerf HPC
}
"""Benchmark to the metrics that improve as they fall; an empty set: all of its metrics.

Source: mlperf-logging 4.1.68, compliance_checker/*/closed_*.yaml: the checks of `eval_accuracy`. A benchmark that is not
listed is reached from below.
"""


def improves_as_it_falls(metric: str, benchmark: str) -> bool:
    """Return True if a lower value of the metric is better.

    Args:
        metric: Name of the metric, as the log has it.
        benchmark: Name of the benchmark, as the rules have it.
    """
    falling = FALLING_METRICS.get(benchmark.strip().lower())
    return falling is not None and (not falling or metric in falling)


def meets(value: float, target: float, falls: bool) -> bool:
    """Return True if a value reaches a target, or is the target rounded to float32.

    Args:
        value: Value of a metric. A value that is not finite meets no target.
        target: Target of the same metric.
        falls: The metric improves as it falls.
    """
    if not math.isfinite(value):
        return False
    rounded = ctypes.c_float(target).value  # programs that compute in float32 log 0.63499999 for 0.635
    return value <= max(target, rounded) if falls else value >= min(target, rounded)
