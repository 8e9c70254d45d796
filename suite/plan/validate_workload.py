"""Check before a run that a workload's settings suit its data set.

The checks find incomplete plugins, runs that cannot converge, and runs whose length is undefined.
"""

from __future__ import annotations

from workloads.api import Workload

STEPS_PER_EPOCH = 10
"""Number of steps per epoch with the batch size that an error message proposes."""


def check_workload(workload: Workload) -> None:
    """Check that a run can reach its first evaluation with these settings and data.

    Raises:
        ValueError: The run would fail, or its batch size or length does not suit the data set. The
            message is a single line.
    """
    settings = workload.settings
    evaluates = (
        settings.mode == "train" and settings.profile != "synthetic" and bool(settings.targets)
    )
    if evaluates:
        _check_written(workload)
    if settings.stop == "target":
        _check_limit(workload)
        _check_batch(workload)
        _check_first_evaluation(workload)
    _check_length(workload)


def _check_written(workload: Workload) -> None:
    """Raise ValueError if a workload with a target does not define its metrics.

    A workload with a target must define `eval_batch_metrics` and `compute_metrics`. A workload
    without a target may omit both methods.
    """
    kind = type(workload)
    missing = [
        name
        for name in ("eval_batch_metrics", "compute_metrics")
        if getattr(kind, name) is getattr(Workload, name)
    ]
    if missing:
        targets = ", ".join(workload.settings.targets)
        raise ValueError(
            f"workload={workload.name}: {kind.__name__} has a target for {targets}, but no"
            f" {' and no '.join(missing)}. Define {' and '.join(f'{name}()' for name in missing)}"
            " (workloads/api/workload.py), or set stop=steps:50"
        )


def _check_length(workload: Workload) -> None:
    """Raise ValueError if `stop` is in samples, but the batch size is in another unit.

    With a batch size in tokens, for example, each step has a different number of samples.
    """
    stop, unit = workload.settings.stop, workload.batch_unit
    if stop.startswith("samples:") and unit != "samples":
        raise ValueError(
            f"stop={stop}: the batch size of {workload.name} is in {unit}, so the number of steps"
            " for a number of samples is unknown. Set stop=steps:50 or stop=epochs:1"
        )


def _check_limit(workload: Workload) -> None:
    settings = workload.settings
    if "max_epochs" not in settings.hyperparameters:
        raise ValueError(
            f"workload={workload.name}: its hyperparameter set {settings.hyperparameter_set} has no"
            " max_epochs, so a run that misses its target would never end. Add max_epochs to the"
            " set, or set stop=epochs:N"
        )


def _check_batch(workload: Workload) -> None:
    """Raise ValueError if the batch size is larger than an epoch.

    An epoch would then be a single step.
    """
    settings, samples = workload.settings, workload.epoch_samples.trained
    if settings.global_batch_size <= samples:
        return
    rate = settings.hyperparameters.get("learning_rate")
    at_rate = f" at learning rate {rate:g}" if isinstance(rate, (int, float)) else ""
    count = max(1, samples // STEPS_PER_EPOCH // settings.devices) * settings.devices
    raise ValueError(
        f"batch size {settings.global_batch_size}: an epoch of {workload.name} on"
        f" {settings.dataset} has {samples} {workload.batch_unit}, so it would be a single"
        f" step{at_rate}. Set batch=global:{count} or less ({STEPS_PER_EPOCH} steps per epoch), or"
        " stop=steps:50 to measure only throughput"
    )


def _check_first_evaluation(workload: Workload) -> None:
    """Raise ValueError if a run with `stop=target` would end before its first evaluation.

    An additional evaluation after the last epoch would not help, because the v0.7 rules of SSD do
    not allow such an evaluation.
    """
    settings = workload.settings
    max_epochs = int(settings.hyperparameters["max_epochs"])
    first = workload.epochs.epoch_of(next(iter(workload.evaluation_steps())) - 1) + 1
    if max_epochs < first:
        raise ValueError(
            f"workload.max_epochs={max_epochs}: the first evaluation of {settings.workload} is in"
            f" epoch {first}. Set workload.max_epochs={first} or more, or stop=epochs:{max_epochs}"
            " to train without a target"
        )
