"""Scoring rules of the benchmarks in each round.

A rule defines the number of required runs, the number of dropped runs, and the number of allowed
failures.

The numbers are from mlperf-logging 4.1.68: `_ALL_RESULT_FILE_COUNTS` in benchmark_meta.py, and
`max_dropped_scores` in result_summarizer/result_summarizer.py. Only the rule for NCF differs
between rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from suite.results.names import workload_name


@dataclass(frozen=True)
class ScoringRule:
    """Rule for the score of a complete result.

    The score is the mean time of the successful runs without the `dropped_runs` fastest and the
    `dropped_runs` slowest runs. A failed run counts as slower than every successful run, so it is
    the first of the slowest runs to be dropped.
    """

    runs_required: int
    dropped_runs: int = 1
    """Number of fastest runs that are dropped (`max_dropped_scores`). The same number of slowest
    runs is dropped.
    """
    first_converged: int | None = None
    """Number of successful runs in the score. The runs with the earliest start times are scored.

    If None, all successful runs are scored.
    """

    @property
    def allowed_failures(self) -> int:
        """Return the number of failed runs that a complete result may contain.

        If more runs failed, the result_summarizer computes no score.
        """
        if self.first_converged is not None:
            return self.runs_required - self.first_converged
        return self.dropped_runs


FIRST_CONVERGED = 50
"""Number of runs in the v0.5 score of NCF. The score uses the first 50 of 100 runs, in order of
start time, that reach the target (v0.5 rules).
"""

_RULE_BY_BENCHMARK: Mapping[str, ScoringRule] = {
    # Sources: `_ALL_RESULT_FILE_COUNTS["training"]` in benchmark_meta.py for the required runs.
    # result_summarizer.py for the dropped runs (one, but four for unet3d).
    "resnet50": ScoringRule(5),
    "ssd": ScoringRule(5),
    "retinanet": ScoringRule(5),
    "maskrcnn": ScoringRule(5),
    "dlrm": ScoringRule(5),
    "gnmt": ScoringRule(10),
    "transformer": ScoringRule(10),
    "minigo": ScoringRule(10),
    "bert": ScoringRule(10),
    "rnnt": ScoringRule(10),
    "unet3d": ScoringRule(40, dropped_runs=4),
    "dlrm_dcnv2": ScoringRule(10),
    "dlrmv4": ScoringRule(10),
    "stable_diffusion": ScoringRule(10),
    "flux1": ScoringRule(10),
    "rgat": ScoringRule(10),
    "llama2_70b_lora": ScoringRule(10),
    "llama31_8b": ScoringRule(10),
    "gpt_oss_20b": ScoringRule(10),
    "gpt3": ScoringRule(3),
    "llama31_405b": ScoringRule(3),
    "deepseekv3_671b": ScoringRule(3),
    "qwen35_397b_grpo": ScoringRule(3),
    # The v0.5 rules, section "Benchmark results", require 100 runs of NCF. NCF results were
    # published only in v0.5.
    "ncf": ScoringRule(100, first_converged=FIRST_CONVERGED),
}
_RULE_BY_ROUND: Mapping[tuple[str, str], ScoringRule] = {
    ("v0.6", "ncf"): ScoringRule(
        10
    ),  # Source: benchmark_meta.py. NCF was dropped from v0.6 before the results were published.
}
"""Rules that replace the general rule of a benchmark in a round."""

RUNS_REQUIRED: Mapping[str, int] = {
    name: rule.runs_required for name, rule in _RULE_BY_BENCHMARK.items()
}
"""Number of runs that a result requires, by the suite's workload name."""


def find_scoring_rule(benchmark: str, round_name: str = "") -> ScoringRule | None:
    """Return the scoring rule of a benchmark in a round, or None if no rule is defined.

    Args:
        benchmark: Name of the benchmark in logs of the rounds, or the suite's workload name.
        round_name: Round such as `v4.0`. The general rule of the benchmark applies to a round
            without a special rule.
    """
    workload = workload_name(benchmark)
    return _RULE_BY_ROUND.get((round_name, workload), _RULE_BY_BENCHMARK.get(workload))
