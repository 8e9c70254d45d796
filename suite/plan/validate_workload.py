"""Whether a run can be what was meant: mistakes of a workload from outside, and settings that cannot converge or be counted."""

from __future__ import annotations

from workloads.api import Workload

STEPS_PER_EPOCH = 10
"""Steps of an epoch that a refused batch is answered with."""


def check_workload(workload: Workload) -> None:
    """Raise ValueError, one line, for a run that would fail at its first evaluation, or could never have been meant."""
    settings = workload.settings
    evaluates = settings.mode == "train" and settings.profile != "synthetic" and bool(settings.targets)
    if evaluates:
        _check_written(workload)
    if settings.stop == "target":
        _check_limit(workload)
        _check_batch(workload)
        _check_first_evaluation(workload)
    _check_length(workload)


def _check_written(workload: Workload) -> None:
    """A plugin may leave out `measure` and `score`: a workload without a target needs neither."""
    kind = type(workload)
    missing = [name for name in ("measure", "score") if getattr(kind, name) is getattr(Workload, name)]
    if missing:
        targets = ", ".join(workload.settings.targets)
        raise ValueError(
            f"workload={workload.name}: {kind.__name__} has a target for {targets} and no {' and no '.join(missing)}; "
            f"write {' and '.join(f'{name}()' for name in missing)} (workloads/api/workload.py), or type stop=steps:50"
        )


def _check_length(workload: Workload) -> None:
    """Raise ValueError for a length in samples where batches are counted in another unit: steps differ in their samples."""
    stop, unit = workload.settings.stop, workload.batch_unit
    if stop.startswith("samples:") and unit != "samples":
        raise ValueError(
            f"stop={stop}: a batch of {workload.name} is counted in {unit}, so the steps of so many samples are not known; "
            f"type stop=steps:50 or stop=epochs:1"
        )


def _check_limit(workload: Workload) -> None:
    settings = workload.settings
    if "max_epochs" not in settings.hyperparameters:
        raise ValueError(
            f"workload={workload.name}: its hyperparameter set {settings.hyperparameter_set} names no max_epochs, so a run "
            f"that misses its target would never end; add max_epochs to the set, or type stop=epochs:N"
        )


def _check_batch(workload: Workload) -> None:
    """Raise ValueError for a batch that is larger than an epoch: one step each, at whatever rate it was scaled to."""
    settings, samples = workload.settings, workload.samples_per_epoch
    if settings.batch_size_global <= samples:
        return
    rate = settings.hyperparameters.get("learning_rate")
    at_rate = f" at learning rate {rate:g}" if isinstance(rate, (int, float)) else ""
    count = max(1, samples // STEPS_PER_EPOCH // settings.devices) * settings.devices
    raise ValueError(
        f"batch size {settings.batch_size_global}: an epoch of {workload.name} on {settings.dataset} has {samples} "
        f"{workload.batch_unit}, so it would be one step{at_rate}; type batch=global:{count} or less "
        f"({STEPS_PER_EPOCH} steps an epoch), or stop=steps:50 to measure throughput alone"
    )


def _check_first_evaluation(workload: Workload) -> None:
    """Raise ValueError, one line, if a run to its target gives up before its first evaluation.

    One at its last epoch would be none of those that the rules name (SSD under v0.7).
    """
    settings = workload.settings
    given = int(settings.hyperparameters["max_epochs"])
    first = workload.epochs.of_step(next(iter(workload.evaluation_steps())) - 1) + 1
    if given < first:
        raise ValueError(
            f"workload.max_epochs={given}: {settings.workload} is first evaluated in epoch {first}; "
            f"type workload.max_epochs={first} or more, or stop=epochs:{given} to train without a target"
        )
