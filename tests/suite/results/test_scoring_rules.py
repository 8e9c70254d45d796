"""Scoring rules, compared with the installed mlperf-logging for all its rounds and benchmarks."""

import pytest

from suite.common.registry import load_workload
from suite.packaging.layout import failed_allowed
from suite.results.columns import Run
from suite.results.names import WORKLOADS
from suite.results.scores import score
from suite.results.scoring_rules import RUNS_REQUIRED, find_scoring_rule


def test_required_runs_agree_with_the_workload_definitions():
    """Scores, convergence, and packages use the table; the workloads must agree with it."""
    assert {name: load_workload(name).runs_required for name in WORKLOADS} == {
        name: RUNS_REQUIRED[name] for name in WORKLOADS
    }


def official_benchmarks():
    """Return every (round, benchmark) of the installed mlperf-logging."""
    from mlperf_logging import benchmark_meta

    rounds = benchmark_meta._ALL_ALLOWED_BENCHMARKS["training"]
    return sorted(
        {(name, benchmark) for name, benchmarks in rounds.items() for benchmark in benchmarks}
    )


@pytest.mark.parametrize(("round_name", "benchmark"), official_benchmarks())
def test_the_rule_of_every_round_and_benchmark_agrees_with_mlperf_logging(round_name, benchmark):
    from mlperf_logging.benchmark_meta import get_result_file_counts

    rule = find_scoring_rule(benchmark, f"v{round_name}")
    assert rule is not None
    assert rule.runs_required == get_result_file_counts("training")[benchmark]


@pytest.mark.parametrize("benchmark", sorted({benchmark for _, benchmark in official_benchmarks()}))
def test_scores_and_allowed_failures_agree_with_the_summarizer(
    benchmark, tmp_path, monkeypatch, capsys
):
    """Score a folder with mlperf-logging's function, of which only the log reader is stubbed."""
    from mlperf_logging.result_summarizer import result_summarizer as summarizer

    rule = find_scoring_rule(benchmark, "v0.6" if benchmark == "ncf" else "v5.1")
    seconds = [100.0 + (37 * index) % 41 for index in range(rule.runs_required)]
    (tmp_path / "scaling.json").write_text('{"scaling_factor": 1.05}')
    for failed in range(rule.dropped_runs + 2):
        succeeded = seconds[failed:]
        for index in range(rule.runs_required):
            (tmp_path / f"result_{index}.txt").write_text(
                str(succeeded[index] if index < len(succeeded) else "")
            )

        def read(path, usage, ruleset):
            with open(path) as file:
                text = file.read()
            if not text:
                raise ValueError("run failed")
            return float(text)

        monkeypatch.setattr(summarizer, "_read_result_file", read)
        monkeypatch.setattr(
            summarizer, "_query_run_start_stop", lambda length: (0.0, 1000.0 * length)
        )
        official, *_ = summarizer._compute_strong_score_standalone(
            benchmark, "system", False, str(tmp_path), "training", "5.1.0"
        )
        found = score([Run(seconds=value) for value in succeeded], failed, rule, 1.05)
        if failed > rule.allowed_failures:
            assert official is None
            assert f"no official score: {failed} runs failed" in found["score_notes"]
        else:
            assert found["seconds"] == pytest.approx(60 * official, rel=1e-12)


def test_a_benchmark_has_one_rule_under_all_its_names():
    assert find_scoring_rule("gnn", "v4.1") is find_scoring_rule("rgat", "v5.0")
    assert find_scoring_rule("resnet") is find_scoring_rule("resnet50") is not None
    assert find_scoring_rule("something else", "v5.0") is None


def test_a_package_allows_as_many_failures_as_the_score():
    assert [failed_allowed(name) for name in ("resnet", "unet3d", "ncf", "unknown")] == [
        1,
        4,
        50,
        1,
    ]
