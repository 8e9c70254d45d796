"""Statements that closed-division submissions must make about non-stock implementations.

A non-stock implementation replaces an implementation of the framework, and was compared with a
reference. The equations and the measured differences are in docs/dev/equivalence.md.
"""

from __future__ import annotations

from suite.catalog.rounds import get_round
from suite.common import registry
from suite.launch.registered_frameworks import registered_frameworks
from suite.results.logs.record import RunRecord
from suite.results.text import clean

RANDOM_NUMBERS = (
    "random numbers are an integer hash of their coordinates (SplitMix64,"
    " workloads/common/randomness.py), but the closed rules require the framework's stock"
    " generator. State this difference in the submission. Tests:"
    " docs/dev/equivalence.md"
)


def equivalences(record: RunRecord) -> list[str]:
    """Return notes about the random numbers, the workload, and the optimizer of a run.

    The log of the run must be from this suite.
    """
    settings, optimizer = (
        record.settings,
        clean(str(record.hyperparameters.get("opt_name", "")), 20),
    )
    # logs of Mask R-CNN append this suffix to the optimizer's name
    optimizer = optimizer.removesuffix("_with_momentum")
    try:
        workload = registry.load_workload(settings.workload)
        stated, listed = (
            workload.known_deviations,
            get_round(settings.rules, workload).listed_optimizers,
        )
    except ValueError:  # the workload is not installed, or the round does not include the workload
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
        f"optimizer {optimizer} is implemented by the suite in {framework} (equation:"
        f" workloads/common/optimizers.py, docs/dev/equivalence.md): {figure}"
    )
    if listed and framework not in listed.get(optimizer, frozenset()):
        note += (
            f". Round {settings.rules} does not list it for {framework}: demonstrate the"
            " equivalence in the review"
        )
    return [*notes, note]
