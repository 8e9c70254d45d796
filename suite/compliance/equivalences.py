"""What the closed rules ask a submitter to state: parts that are not a framework's stock ones, and what they were held against.

docs/packaging.md has the equations and how the figures were measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from suite.common import registry
from suite.results.logs.record import RunRecord
from suite.results.text import clean

RANDOM_NUMBERS = (
    "random numbers are an integer hash of their coordinates (SplitMix64, workloads/common/randomness.py), not the "
    "framework's stock generator, which the closed rules ask for: state it; how it is tested: docs/packaging.md"
)
FROM_FLOAT64: Mapping[str, Mapping[str, float]] = {
    "sgd": {"pytorch": 2.6e-7, "tensorflow": 2.7e-7, "mxnet": 4.5e-7},
    "lars": {"pytorch": 3.0e-7, "tensorflow": 3.2e-7, "mxnet": 8.4e-7},
    "adam": {"pytorch": 2.3e-7, "tensorflow": 2.4e-7, "mxnet": 3.2e-7},
}
"""Optimizer and framework to the largest difference of weights and optimizer state from float64 after ten steps, as a part of
the array's largest value, over all variants of tests/workloads/frameworks/*/test_optimizers.py, the rate inside the
momentum and outside of it among them; CPU, rounded up."""


def equivalences(record: RunRecord) -> list[str]:
    """Notes on the random numbers, the workload and the optimizer of our runs."""
    settings, optimizer = record.settings, clean(str(record.hyperparameters.get("opt_name", "")), 20)
    optimizer = optimizer.removesuffix("_with_momentum")  # Mask R-CNN's logs
    try:
        workload = registry.load_workload(settings.workload)
        stated, listed = workload.stated_differences, workload.round_named(settings.rules).listed_optimizers
    except ValueError:  # not installed here, or of a round that it does not have
        stated, listed = (), {}
    notes = [RANDOM_NUMBERS, *stated]
    if not optimizer:
        return notes
    framework = clean(settings.framework, 20)
    measured = FROM_FLOAT64.get(optimizer, {}).get(framework)
    figure = f"ten steps stay within {measured:.1e} of float64" if measured else "it was not measured here"
    note = (
        f"optimizer {optimizer} is the suite's own in {framework}; its equation: workloads/common/optimizers.py; "
        f"{figure} (docs/packaging.md)"
    )
    if listed and framework not in listed.get(optimizer, frozenset()):
        note += f"; round {settings.rules} lists none for {framework}: show the equivalence to the review"
    return [*notes, note]
