"""Notes about runs that train beyond the end of their learning-rate schedule."""

from __future__ import annotations

from suite.worker.stop import stop_rule
from workloads.api import Workload


def schedule_note(workload: Workload) -> str:
    """Return a note if a run trains whole epochs after its learning rate stopped decaying.

    The note is empty if the run does not train beyond the end of the decay, or if the schedule has
    no end. A schedule has an end if it contains a continuous decay, such as a polynomial or half a
    cosine. Schedules with a constant learning rate or a stepwise decay have no end.
    """
    settings = workload.settings
    chosen = "user" in settings.hyperparameter_sources.values() or settings.stop != "target"
    if settings.mode != "train" or not chosen:
        return ""
    last_step = stop_rule(workload, settings).limit_steps
    end_step = _end_of_decay(workload, last_step)
    if end_step is None:
        return ""
    epoch = workload.epochs.epoch_of(end_step)
    if workload.epochs.start(epoch) < end_step:
        epoch += 1
    if workload.epochs.start(epoch) >= last_step:
        return ""
    rate = workload.learning_rate(end_step)
    value = "zero" if rate == 0 else f"{rate:g}, its end value,"
    first = workload.round.first_epoch
    length = f"stop={settings.stop}"
    shorter = f"stop=epochs:{epoch}"
    if settings.stop == "target":
        length, shorter = (
            f"workload.max_epochs={settings.max_epochs}",
            f"workload.max_epochs={epoch}",
        )
    longer = ""
    if "horizon_epochs" in settings.hyperparameters:
        longer = (
            ", or use a hyperparameter set with a longer horizon_epochs"
            " (docs/how-to/configure_a_run.md)"
        )
    return (
        f"{length}: the learning rate is {value} from epoch {epoch + first} on. Set"
        f" {shorter}{longer}"
    )


def _end_of_decay(workload: Workload, last_step: int) -> int | None:
    """Return the first step at which the learning rate equals that of the last step.

    Returns None if the learning rate did not decay continuously before this step.
    """
    begin, end = workload.warmup_steps, last_step - 1
    if end - begin < 2:
        return None
    final = workload.learning_rate(end)
    while begin < end:
        middle = (begin + end) // 2
        if workload.learning_rate(middle) == final:
            end = middle
        else:
            begin = middle + 1
    if end < 2:
        return None
    before, just_before = workload.learning_rate(end - 2), workload.learning_rate(end - 1)
    return end if before > just_before > final else None
