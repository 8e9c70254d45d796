"""Check a log against the schedule that follows from the run's settings.

The checks cover blocks, epochs, evaluations, steps, and samples. The schedule is that of
suite/worker/loop.py: train until the next evaluation step, evaluate, and decide whether to stop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from suite.compliance.complaints import MISSING, Complaint
from suite.compliance.log_origin import NEVER_EDIT
from suite.compliance.logged_workload import LoggedWorkload, NotVerifiableError, suite_run_value
from suite.results.logs.events import Event, number, whole_number
from suite.results.logs.quality import first_that_meets
from suite.results.logs.record import RunRecord, RunSettings
from suite.results.text import clean
from workloads.api import Json, Workload, num_steps, share_of_samples

BLOCK_KEYS = frozenset(
    {
        *("block_start", "block_stop", "epoch_start", "epoch_stop"),
        *("eval_start", "eval_accuracy", "eval_stop", "tracked_stats"),
    }
)
"""Keys of the records that the training loop writes for each block. The schedule determines the
order of these records.
"""
SHARE_ROUNDING = 1e-6
"""Rounding unit of `left_out_share`. `share_of_samples` rounds the share up to a multiple of this
unit.
"""


@dataclass(frozen=True)
class Schedule:
    """Steps, samples, and evaluations that a run's settings and data counts prescribe."""

    steps_per_epoch: int
    epoch_samples: int
    """Number of samples per epoch, in the unit of `tracked_stats.samples`."""
    step_samples: int
    """Maximum number of samples per step."""
    has_full_steps: bool
    """True if every step has `step_samples` samples, except the last step of an epoch."""
    evaluation_steps: Callable[[], Iterator[int]]
    """Function that returns an iterator over the step numbers at which the run is evaluated."""

    def samples_before(self, step: int) -> tuple[int, int]:
        """Return the minimum and maximum number of samples in the first `step` steps."""
        epochs, steps = divmod(step, self.steps_per_epoch)
        whole = epochs * self.epoch_samples
        most = min(self.epoch_samples, steps * self.step_samples)
        return whole + (most if self.has_full_steps else min(steps, most)), whole + most


@dataclass(frozen=True)
class Block:
    """A block of steps, which ends at an evaluation or at the end of the run."""

    first_step: int
    stop_step: int
    is_evaluated: bool


class ContradictoryCountsError(Exception):
    """Error for a log whose steps and samples per epoch contradict the log's data counts."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(complaint.found)
        self.complaint = complaint


def find_schedule_complaints(
    record: RunRecord, events: Sequence[Event], logged: LoggedWorkload, first_epoch: int
) -> list[Complaint]:
    """Return complaints about records that contradict the schedule of the run.

    Args:
        record: The run, which must have completed.
        events: All records in the order of the file.
        logged: The workload of the run.
        first_epoch: Number of the first epoch in the log.

    Raises:
        NotVerifiableError: Data set facts are missing, so no record could be checked.
    """
    try:
        schedule = build_schedule(record, events, logged)
    except ContradictoryCountsError as error:
        return [error.complaint]
    found = list(_order_complaints(record, events, schedule, first_epoch))
    return found or list(_sample_complaints(record, schedule))


def build_schedule(record: RunRecord, events: Sequence[Event], logged: LoggedWorkload) -> Schedule:
    """Build the schedule of a run.

    Raises NotVerifiableError and ContradictoryCountsError.
    """
    workload = logged.workload
    if type(workload).epochs is not Workload.epochs:
        raise NotVerifiableError(f"epochs of {workload.name} have different numbers of steps")
    _check_repeated_samples(events, logged)
    depends_on_lengths = (
        bool(workload.length_dependent_log_keys) and record.settings.profile != "synthetic"
    )
    if depends_on_lengths and not logged.has_recorded_facts:
        return _schedule_from_log(record, events, workload)
    batch, of_epoch = workload.settings.global_batch_size, workload.epoch_samples
    if workload.batch_unit == "tokens":
        samples = workload.dataset_info.train_samples - of_epoch.left_out + of_epoch.repeated
        steps = workload.steps_per_epoch
        return Schedule(steps, samples, _largest_step(workload), False, workload.evaluation_steps)
    repeated = of_epoch.repeated
    # The number of samples per epoch can depend on the shapes of the images, so the number is read
    # from the log.
    if not logged.has_recorded_facts:
        repeated = whole_number(suite_run_value(events).get("repeated_samples_per_epoch")) or 0
    samples = of_epoch.trained + repeated
    has_full_steps = workload.steps_per_epoch == num_steps(
        of_epoch.trained + of_epoch.repeated, batch
    )
    steps = math.ceil(samples / batch) if has_full_steps else workload.steps_per_epoch
    return Schedule(steps, samples, batch, has_full_steps, lambda: _scaled_steps(workload, steps))


def _check_repeated_samples(events: Sequence[Event], logged: LoggedWorkload) -> None:
    """Check the number of repeated samples per epoch in a log.

    The number must be consistent with `repeated_share` and must not be below the workload's
    minimum. With several image shapes, the number can be larger than the minimum, because the last
    batch of each shape is filled up with repeated samples. Raises ContradictoryCountsError if the
    check fails.
    """
    workload, suite_run = logged.workload, suite_run_value(events)
    stated = suite_run.get("repeated_samples_per_epoch")
    # an older version, which did not log the number of repeated samples, wrote the log
    if stated is None:
        return
    repeated, share = whole_number(stated), number(suite_run.get("repeated_share"))
    depends_on_lengths = bool(workload.length_dependent_log_keys) and not logged.has_recorded_facts
    least = 0 if depends_on_lengths else workload.epoch_samples.repeated
    is_exact = logged.has_recorded_facts or (not depends_on_lengths and len(workload.shapes()) == 1)
    needed = f"{least}" if is_exact else f"at least {least}"
    fits_share = (
        share is None
        or repeated is None
        or share_of_samples(repeated, workload.dataset_info.train_samples) == share
    )
    if (
        fits_share
        and repeated is not None
        and (repeated == least if is_exact else repeated >= least)
    ):
        return
    line = next((event.line for event in events if event.key == "suite_run"), 0)
    found = (
        f"repeated_samples_per_epoch {clean(str(stated), 40)}, repeated_share"
        f" {clean(str(share), 40)}"
    )
    complaint = Complaint(
        "suite_run", line, found, f"{needed}, and its share of train_samples", NEVER_EDIT
    )
    raise ContradictoryCountsError(complaint)


def _schedule_from_log(record: RunRecord, events: Sequence[Event], workload: Workload) -> Schedule:
    """Build the schedule of a run whose sample lengths are unknown.

    The steps and samples per epoch are read from the first block in the log. The numbers must be
    consistent with the data counts in the log.

    Raises:
        NotVerifiableError: The first block does not necessarily consist of whole epochs.
        ContradictoryCountsError: The steps or samples contradict the data counts.
    """
    first = next(iter(record.throughput), None)
    begun = next((event for event in events if event.key == "block_start"), None)
    ended = [
        event for event in events if event.key == "epoch_stop" and first and event.line < first.line
    ]
    not_verifiable = NotVerifiableError(
        "run.json with the lengths of the sentences is not next to the log"
    )
    if first is None or begun is None or first.step is None or not first.samples:
        raise not_verifiable
    epochs = _epochs_of_first_block(record, events, workload)
    if not epochs:
        raise not_verifiable
    counted = whole_number(begun.metadata.get("epoch_count"))
    if not len(ended) == counted == epochs or first.step % epochs or first.samples % epochs:
        found = (
            f"{len(ended)} epochs, {first.step} steps and {first.samples:.0f} samples in the first"
            " block"
        )
        needed = f"{epochs} whole epochs, by the schedule of the run's settings"
        raise ContradictoryCountsError(
            Complaint("block_start", begun.line, found, needed, NEVER_EDIT)
        )
    steps, samples = first.step // epochs, int(first.samples) // epochs
    suite_run = suite_run_value(events)
    repeated = whole_number(suite_run.get("repeated_samples_per_epoch")) or 0
    share, train_samples = (
        number(suite_run.get("left_out_share")) or 0.0,
        workload.dataset_info.train_samples,
    )
    least = train_samples + repeated - math.ceil(share * train_samples)
    most = train_samples + repeated - max(0, math.floor((share - SHARE_ROUNDING) * train_samples))
    largest, smallest = _largest_step(workload), _smallest_step(workload)
    fits_samples = least <= samples <= most and (
        workload.batch_unit == "tokens" or samples == steps * largest
    )
    if not fits_samples or not least / largest <= steps <= most / smallest + len(workload.shapes()):
        raise ContradictoryCountsError(
            Complaint(
                "tracked_stats",
                first.line,
                f"{samples} samples in {steps} steps per epoch",
                f"{least} to {most} samples, according to train_samples, in steps of {smallest} to"
                f" {largest}",
                NEVER_EDIT,
            )
        )
    has_full_steps = workload.batch_unit == "samples"
    return Schedule(steps, samples, largest, has_full_steps, lambda: _scaled_steps(workload, steps))


def _epochs_of_first_block(record: RunRecord, events: Sequence[Event], workload: Workload) -> int:
    """Return the number of epochs in the first block, or 0 if the block ends within an epoch.

    The function uses the published data counts. Whether a block ends with an epoch does not depend
    on the exact number of steps per epoch.
    """
    per_epoch = workload.steps_per_epoch
    schedule = Schedule(
        per_epoch, workload.epoch_samples.trained, 1, False, workload.evaluation_steps
    )
    block = next(find_blocks(schedule, record.settings, _max_epochs(record.settings, events)), None)
    if block is None or block.first_step or block.stop_step % per_epoch:
        return 0
    return block.stop_step // per_epoch


def _largest_step(workload: Workload) -> int:
    """Return the maximum number of samples per step."""
    return max(_step_sizes(workload))


def _smallest_step(workload: Workload) -> int:
    return min(_step_sizes(workload))


def _step_sizes(workload: Workload) -> list[int]:
    devices = workload.settings.devices
    return [next(iter(specs.values())).shape[0] * devices for specs in workload.shapes()]


def _scaled_steps(workload: Workload, steps_per_epoch: int) -> Iterator[int]:
    """Yield the evaluation steps for epochs with `steps_per_epoch` steps.

    The workload's `evaluation_steps` is for a different number of steps per epoch. The function
    therefore scales the step numbers.
    """
    for step in workload.evaluation_steps():
        if workload.steps_per_epoch == steps_per_epoch:
            yield step
            continue
        epoch, rest = divmod(step, workload.steps_per_epoch)
        if rest:
            raise NotVerifiableError(
                "run.json with the shapes of the images is not next to the log"
            )
        yield epoch * steps_per_epoch


MAX_SKIPPED_EVALUATIONS = 100_000
"""Maximum number of scheduled evaluations within the warm-up steps.

A log is not trusted. Without this maximum, the check of a manipulated log could run for minutes.
"""


def find_blocks(
    schedule: Schedule, settings: RunSettings, max_epochs: int | None
) -> Iterator[Block]:
    """Yield the blocks of a run up to its maximum number of steps.

    A run that reaches its target ends with the block in which it reaches the target.
    """
    first = settings.timing_warmup_steps
    kind, _, count = settings.stop.partition(":")
    if kind == "target":
        limit = (max_epochs or 0) * schedule.steps_per_epoch
    elif kind == "epochs":
        limit = int(count) * schedule.steps_per_epoch
    else:
        limit = (
            int(count)
            if kind == "steps"
            else math.ceil(int(count) / (settings.global_batch_size or 1))
        )
    limit += first
    measures = bool(settings.targets) or kind == "target"
    if settings.mode == "train" and settings.profile != "synthetic" and measures:
        for number, stop in enumerate(schedule.evaluation_steps()):
            if stop > limit:
                break
            if stop > first:
                yield Block(first, stop, True)
                first = stop
            elif number > MAX_SKIPPED_EVALUATIONS:
                raise NotVerifiableError(
                    f"its timing_warmup_steps={settings.timing_warmup_steps} skips more than"
                    f" {MAX_SKIPPED_EVALUATIONS:,} evaluations"
                )
    if first < limit:
        yield Block(first, limit, False)


def block_lines(
    block: Block, schedule: Schedule, first_epoch: int
) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Yield the key and metadata of each record of a block, in order.

    `first_epoch` is the number of the run's first epoch.
    """
    steps = schedule.steps_per_epoch
    begin, end = block.first_step // steps, (block.stop_step - 1) // steps
    yield "block_start", {"first_epoch_num": begin + first_epoch, "epoch_count": end - begin + 1}
    for epoch in range(begin, end + 1):
        if block.first_step <= epoch * steps:
            yield "epoch_start", {"epoch_num": epoch + first_epoch}
        if (epoch + 1) * steps <= block.stop_step:
            yield "epoch_stop", {"epoch_num": epoch + first_epoch}
    if block.is_evaluated:
        for key in ("eval_start", "eval_accuracy", "eval_stop"):
            yield key, {"epoch_num": end + first_epoch}
    yield "tracked_stats", {"step": block.stop_step}
    yield "block_stop", {"first_epoch_num": begin + first_epoch}


def _order_complaints(
    record: RunRecord, events: Sequence[Event], schedule: Schedule, first_epoch: int
) -> Iterator[Complaint]:
    """Yield a complaint about the first record that differs from the schedule."""
    settings = record.settings
    lines = [event for event in events if event.key in BLOCK_KEYS]
    stop = next((event for event in events if event.key == "run_stop"), None)
    reached = {
        item.line
        for item in record.evaluations
        if first_that_meets(record.targets, [item], record.benchmark, settings.falling_metrics)
        is not None
    }
    max_epochs = _max_epochs(settings, events)
    position, is_reached = 0, False
    for block in find_blocks(schedule, settings, max_epochs):
        for key, metadata in block_lines(block, schedule, first_epoch):
            needed = f"{key}{_metadata_text(metadata)}, by the schedule of the run's settings"
            event = lines[position] if position < len(lines) else stop
            if event is None:
                yield Complaint(key, 0, MISSING, needed, NEVER_EDIT)
                return
            if event.key != key or any(
                event.metadata.get(name) != value for name, value in metadata.items()
            ):
                found = {
                    name: event.metadata.get(name) for name in metadata if name in event.metadata
                }
                yield Complaint(
                    event.key, event.line, f"{event.key}{_metadata_text(found)}", needed, NEVER_EDIT
                )
                return
            is_reached = is_reached or (key == "eval_accuracy" and event.line in reached)
            position += 1
        if is_reached and settings.to_target:
            break
    if position < len(lines):
        event = lines[position]
        why = (
            "the target was reached" if is_reached and settings.to_target else "the run's last step"
        )
        yield Complaint(event.key, event.line, event.key, f"run_stop: {why} before", NEVER_EDIT)


def _max_epochs(settings: RunSettings, events: Sequence[Event]) -> int | None:
    """Return the maximum number of epochs of a run.

    Older versions logged the maximum number of epochs only together with the hyperparameters.
    """
    if settings.max_epochs is not None:
        return settings.max_epochs
    return whole_number(_hyperparameters(events).get("max_epochs"))


def _hyperparameters(events: Sequence[Event]) -> Mapping[str, Json]:
    value = suite_run_value(events).get("hyperparameters")
    return value if isinstance(value, dict) else {}


def _metadata_text(metadata: Mapping[str, Json]) -> str:
    return "".join(f" {name} {clean(str(value), 20)}" for name, value in metadata.items())


def _sample_complaints(record: RunRecord, schedule: Schedule) -> Iterator[Complaint]:
    """Yield a complaint about the first block with a wrong number of samples."""
    settings = record.settings
    # with `mode=inference`, `samples` is the number of evaluation samples
    if settings.mode == "inference":
        return
    before = settings.timing_warmup_steps
    for block in record.throughput:
        step = block.step or 0
        least, most = _samples_between(schedule, before, step)
        # With asynchronous updates, a worker may already have computed updates of the next step, or
        # updates with a smaller batch.
        if settings.asynchronous:
            least, most = least - schedule.step_samples, most + schedule.step_samples
        if block.samples is None or not least <= block.samples <= most:
            found = (
                MISSING
                if block.samples is None
                else f"{block.samples:.0f} samples in {step - before} steps"
            )
            needed = f"{least} samples" if least == most else f"{least} to {most} samples"
            yield Complaint(
                "tracked_stats",
                block.line,
                found,
                f"{needed}, by train_samples and batch",
                NEVER_EDIT,
            )
            return
        before = step


def _samples_between(schedule: Schedule, first_step: int, stop_step: int) -> tuple[int, int]:
    """Return the minimum and maximum number of samples in a range of steps.

    The range includes `first_step` and excludes `stop_step`.
    """
    before, after = schedule.samples_before(first_step), schedule.samples_before(stop_step)
    if before[0] == before[1] and after[0] == after[1]:
        return after[0] - before[0], after[1] - before[1]
    steps = stop_step - first_step
    return max(steps, after[0] - before[1]), min(
        steps * schedule.step_samples, after[1] - before[0]
    )
