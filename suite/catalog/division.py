"""Determine why a run's settings are in the open division under the rules of a round."""

from __future__ import annotations

from dataclasses import fields

from suite.catalog import rounds
from suite.catalog.deviations import Deviation, DeviationCode
from suite.catalog.rules import deviations
from suite.catalog.sets import named_sets
from workloads.api import (
    NOT_OPTIONS,
    Json,
    Settings,
    Workload,
    build_options,
    hyperparameter_fields,
    share_of_samples,
)

_SPLIT = ("hyperparameters", "hyperparameter_sources", "options", "round")
"""Settings that are not checked as a whole. The hyperparameters and options inside them are checked
individually.
"""


def find_deviations(
    workload: type[Workload], settings: Settings, **rule_inputs: Json
) -> list[Deviation]:
    """Return the reasons why a run's settings are in the open division of their round.

    Args:
        workload: Workload of the run.
        settings: Settings of the run.
        rule_inputs: Additional values that the rules check: `seed_source`, `cache_clear`, and the
            values from `schedule_inputs`. If any `rule_inputs` are given, the settings are not
            checked.

    Raises:
        ValueError: The file of a round or of a hyperparameter set has an error.
    """
    closed = rounds.find_round(settings.rules, workload)
    if closed is None or not closed.rows:
        missing = Deviation(DeviationCode.NO_RULES, "rules", settings.rules, detail=workload.name)
        return [] if rule_inputs else [missing]
    values = {**effective_settings(workload, settings), **rule_inputs}
    by_rules = deviations(closed.rows, values, rule_inputs or values)
    if rule_inputs:
        return by_rules
    reasons = []
    if rounds.is_user_defined(settings.rules):
        reasons.append(Deviation(DeviationCode.USER_FILE, "rules", settings.rules))
    if named_sets(workload).is_user_defined(settings.hyperparameter_set):
        reasons.append(
            Deviation(DeviationCode.USER_FILE, "hyperparameter_set", settings.hyperparameter_set)
        )
    if closed.unsupported_reason:
        reasons.append(Deviation(DeviationCode.REFERENCE_DIFFERS, detail=closed.unsupported_reason))
    return [*reasons, *by_rules]


def effective_settings(workload: type[Workload], settings: Settings) -> dict[str, Json]:
    """Return all values that determine the computation of a run, by name.

    The returned dictionary contains the settings first, then the hyperparameters and options.
    """
    of_run = {
        item.name: getattr(settings, item.name)
        for item in fields(settings)
        if item.name not in _SPLIT
    }
    acting = vars(build_options(workload.Options, settings))
    of_set = {
        **{name: acting[name] for name in hyperparameter_fields(workload.Options)},
        **settings.hyperparameters,
    }
    elsewhere = {*of_run, *of_set, *NOT_OPTIONS}
    return {
        **of_run,
        **of_set,
        **{name: value for name, value in acting.items() if name not in elsewhere},
    }


def schedule_inputs(workload: Workload) -> dict[str, Json]:
    """Return the values for the rules that depend on settings and data set size.

    `warmup_samples`, `first_decay_samples`, and `run_samples` use the unit of the workload's batch
    size. `first_decay_samples` is None if the schedule has no decay. `run_samples` is None if the
    schedule has no last epoch.
    """
    batch, decay, most = (
        workload.settings.global_batch_size,
        workload.first_decay_step,
        workload.settings.max_epochs,
    )
    of_epoch, train_samples = workload.epoch_samples, workload.dataset_info.train_samples
    return {
        "repeated_share": share_of_samples(of_epoch.repeated, train_samples),
        "left_out_share": share_of_samples(of_epoch.left_out, train_samples),
        "warmup_samples": workload.warmup_steps * batch,
        "first_decay_samples": None if decay is None else decay * batch,
        "run_samples": None if most is None else most * workload.steps_per_epoch * batch,
    }
