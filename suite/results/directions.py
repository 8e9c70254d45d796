"""Directions of metrics.

Errors, losses, and distances improve as they fall. All further metrics improve as they rise.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping

_EVERY_METRIC: frozenset[str] = frozenset()
FALLING_METRICS: Mapping[str, frozenset[str]] = {
    "rnnt": _EVERY_METRIC,  # word error rate
    "stable_diffusion": frozenset({"FID"}),  # its other metric, CLIP, rises
    **dict.fromkeys(
        ("gpt3", "llama2_70b_lora", "llama31_405b", "llama31_8b", "gpt_oss_20b"), _EVERY_METRIC
    ),
    **dict.fromkeys(("deepseekv3_671b", "flux1"), _EVERY_METRIC),
    **dict.fromkeys(("cosmoflow", "oc20"), _EVERY_METRIC),  # MLPerf HPC
}
"""Benchmark to its metrics that improve as they fall.

An empty set stands for all metrics of the benchmark.

Source: the checks of `eval_accuracy` in compliance_checker/*/closed_*.yaml of mlperf-logging
4.1.68. The metrics of benchmarks that are not listed improve as they rise.
"""


def improves_as_it_falls(metric: str, benchmark: str) -> bool:
    """Check whether a lower value of the metric is better.

    Args:
        metric: Name of the metric in the log.
        benchmark: Name of the benchmark in the rules.
    """
    falling = FALLING_METRICS.get(benchmark.strip().lower())
    return falling is not None and (not falling or metric in falling)


def meets(value: float, target: float, falls: bool) -> bool:
    """Check whether a value reaches a target, or is the target rounded to float32.

    Args:
        value: Value of a metric. NaN and infinite values do not reach any target.
        target: Target of the same metric.
        falls: Whether the metric improves as it falls.
    """
    if not math.isfinite(value):
        return False
    rounded = ctypes.c_float(
        target
    ).value  # programs that compute in float32 log 0.63499999 for 0.635
    return value <= max(target, rounded) if falls else value >= min(target, rounded)
