"""What the closed rules ask a submitter to state: parts that are not a framework's stock ones, and
what they were held against.

docs/packaging.md has the equations and how the figures were measured.
"""

from __future__ import annotations

from suite.catalog.rounds import get_round
from suite.common import registry
from suite.launch.registered_frameworks import registered_frameworks
from suite.results.logs.record import RunRecord
from suite.results.text import clean

RANDOM_NUMBERS = (
    "random numbers are an integer hash of their coordinates (SplitMix64,"
    " workloads/common/randomness.py), not the framework's stock generator, which the closed rules"
    " ask for: state it; how it is tested: docs/packaging.md"
)


def equivalences(record: RunRecord) -> list[str]:
    """Notes on the random numbers, the workload and the optimizer of our runs."""
    settings, optimizer = (
        record.settings,
        clean(str(record.hyperparameters.get("opt_name", "")), 20),
    )
    optimizer = optimizer.removesuffix("_with_momentum")  # Mask R-CNN's logs
    try:
        workload = registry.load_workload(settings.workload)
        stated, listed = (
            workload.known_deviations,
            get_round(settings.rules, workload).listed_optimizers,
        )
    except ValueError:  # not installed here, or of a round that it does not have
        stated, listed = (), {}
    notes = [RANDOM_NUMBERS, *stated]
    if not optimizer:
        return notes
    framework = clean(settings.framework, 20)
    definition = registered_frameworks().get(framework)
    measured = definition.max_error_vs_float64.get(optimizer) if definition else None
    figure = (
        f"ten steps stay within {measured:.1e} of float64"
        if measured
        else "it was not measured here"
    )
    note = (
        f"optimizer {optimizer} is the suite's own in {framework}; its equation:"
        f" workloads/common/optimizers.py; {figure} (docs/packaging.md)"
    )
    if listed and framework not in listed.get(optimizer, frozenset()):
        note += (
            f"; round {settings.rules} lists none for {framework}: show the equivalence to the"
            " review"
        )
    return [*notes, note]
