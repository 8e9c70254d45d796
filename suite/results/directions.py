"""Direction of improvement of each metric.

Errors, losses, and distances improve as they fall. All other metrics improve as they rise.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Collection, Mapping

_EVERY_METRIC: frozenset[str] = frozenset()
FALLING_METRICS: Mapping[str, frozenset[str]] = {
    "rnnt": _EVERY_METRIC,  # The metric is the word error rate.
    # CLIP, the second metric of this benchmark, improves as it rises
    "stable_diffusion": frozenset({"FID"}),
    **dict.fromkeys(
        ("gpt3", "llama2_70b_lora", "llama31_405b", "llama31_8b", "gpt_oss_20b"), _EVERY_METRIC
    ),
    **dict.fromkeys(("deepseekv3_671b", "flux1"), _EVERY_METRIC),
    **dict.fromkeys(("cosmoflow", "oc20"), _EVERY_METRIC),  # MLPerf HPC
}
"""Metrics that improve as they fall, by benchmark.

An empty set stands for all metrics of the benchmark. Metrics of benchmarks that are not listed
improve as they rise.

Source: the checks of `eval_accuracy` in compliance_checker/*/closed_*.yaml of mlperf-logging
4.1.68.
"""


def improves_as_it_falls(metric: str, benchmark: str, declared: Collection[str] = ()) -> bool:
    """Check whether the metric improves as it falls.

    Args:
        metric: Name of the metric in the log.
        benchmark: Name of the benchmark in the MLPerf rules.
        declared: Metrics that a log of this suite declares as falling
            (`LoggedSettings.falling_metrics`).
    """
    falling = FALLING_METRICS.get(benchmark.strip().lower())
    return metric in declared or (falling is not None and (not falling or metric in falling))


def meets(value: float, target: float, falls: bool) -> bool:
    """Check whether a metric reaches its target.

    The target is also reached if the metric equals the target rounded to float32.

    Args:
        value: Value of a metric. NaN and infinite values never reach a target.
        target: Target of the same metric.
        falls: True if lower values of the metric are better.
    """
    if not math.isfinite(value):
        return False
    rounded = ctypes.c_float(
        target
    ).value  # Programs that compute in float32 log 0.63499999 for a target of 0.635.
    return value <= max(target, rounded) if falls else value >= min(target, rounded)
