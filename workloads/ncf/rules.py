"""NCF's closed rules: of round v0.5, the only one that had it."""

from __future__ import annotations

from dataclasses import replace

from workloads.api.rules import ANY, ROUND_V05, above, at_targets, one_of, reference, rule
from workloads.common.rules import AS_REFERENCE_V05, EVERY_V05, GRAPH, HYPERPARAMETERS_V05, PEAK, RATE, warm_up
from workloads.ncf.settings import REFERENCE_MODEL

V05 = replace(
    ROUND_V05,
    rows=(
        *EVERY_V05,
        rule("dataset", one_of("ml-20m"), "v0.5, Benchmarks: MovieLens-20M"),
        rule("targets", at_targets({"hr_at_10": 0.635}), "v0.5, Benchmarks: 0.635 HR@10"),
        rule("model", reference(REFERENCE_MODEL), "v0.5, Model: the same as the reference"),
        rule("learning_rate", above(0), f"{HYPERPARAMETERS_V05}, NCF lr: arbitrary constant{RATE}"),
        warm_up(f"v0.5, {PEAK}"),
        rule("beta1 beta2", ANY, f"{HYPERPARAMETERS_V05}, NCF beta1, beta2: arbitrary constants"),
        rule("epsilon", one_of(1e-8), AS_REFERENCE_V05),
        rule(
            "epsilon",
            one_of(1.45439e-7),
            "v0.5, Equivalence exceptions: epsilon in slightly different ways, approved: Intel's closed v0.5 results have it",
        ),
        rule("evaluation_users_per_batch data_threads", ANY, f"v0.5, {GRAPH}"),
    ),
    sets={"reference": "reference", "synthetic": "nvidia_v0.5"},
)
ROUNDS = {"v0.5": V05}
