"""Compares the checker's verdict on closed logs with the suite's rules, without training.

The logs have a run's settings.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from suite.catalog.division import effective_settings, schedule_inputs
from suite.catalog.rounds import get_round
from suite.catalog.rules import deviations
from suite.common.runspec import RunSpec
from suite.compliance import rulesets
from suite.compliance.check_log import check_file, run_checker
from suite.results.logs.lines import read_file
from suite.results.logs.reader import interpret
from suite.worker.evaluation import eval_accuracy_value
from suite.worker.log_header import log_settings, write_log_header
from suite.worker.runlog import RunLog
from workloads.api import Settings, Workload

IDENTITY = {
    **{
        "submission_org": "o",
        "submission_status": "onprem",
        "submission_platform": "p",
        "system": "s",
    },
    **{
        "device_name": "d",
        "framework_version": "1",
        "sample_unit": "samples",
        "batch_unit": "samples",
    },
}


VERIFIED_FINGERPRINT = "verified"
"""Fingerprint that counts as verified in tests for every published data set.

tests/conftest.py patches the list of verified fingerprints.
"""


def changed(settings: Settings, **changes) -> Settings:
    """Return the settings with changed values. Names that are not settings are hyperparameters."""
    direct = {
        name: value
        for name, value in changes.items()
        if name in {item.name for item in dataclasses.fields(Settings)}
    }
    hyperparameters = {name: value for name, value in changes.items() if name not in direct}
    return dataclasses.replace(
        settings, **direct, hyperparameters={**settings.hyperparameters, **hyperparameters}
    )


def varied(settings: Settings, edges: Mapping[str, Iterable]) -> Iterable[Settings]:
    """Yield the unchanged settings, then each with a single changed value."""
    yield settings
    for name, values in edges.items():
        for value in values:
            yield changed(settings, **{name: value})


def closed_run(folder: Path, workload: Workload) -> RunSpec:
    """Return the specification of a closed run with a workload's settings.

    Its data have a verified fingerprint.
    """
    dataset_info = dataclasses.replace(workload.dataset_info, fingerprint=VERIFIED_FINGERPRINT)
    return RunSpec(
        run_index=0, runs_required=5, folder=str(folder), settings=workload.settings,
        dataset_info=dataset_info, labels=(), division="closed", deviations=(), cores=(),
        cache_cleared=True, watchdog_seconds=1.0, setup_watchdog_seconds=1.0,
        identity={**IDENTITY, "benchmark": workload.mlperf_name},
        environment={}, versions={}, git={}, hardware={},
    )  # fmt: skip


def write_log(path: Path, workload: Workload, evaluations: int = 1) -> None:
    """Write the log of a run that reached its target in its last evaluation.

    It has the lines that the training loop writes.
    """
    # As in a run, the training samples do not include pairs that are too long.
    if workload.length_dependent_log_keys:
        workload = type(workload)(
            workload.settings, type(workload).load_dataset_info(workload.settings)
        )
    run = closed_run(path.parent, workload)
    with RunLog(path) as log:
        write_log_header(log, run, workload)
        if workload.round.setup_is_timed:
            log.start("run_start")
            log_settings(log, run, workload)
        else:
            log.start("init_start")
            log_settings(log, run, workload)
            log.end("init_stop")
            log.start("run_start")
        steps = itertools.islice(
            (step for step in workload.evaluation_steps() if step > 0), evaluations
        )
        first = 0
        for number, stop in enumerate(steps, start=1):
            targets = workload.settings.targets
            quality = (
                targets
                if number == evaluations
                else {
                    name: value * 2 if name in workload.falling_metrics else value / 2
                    for name, value in targets.items()
                }
            )
            write_block(log, workload, first, stop, quality)
            first = stop
        log.end("run_stop", status="success")
    lengthen(path)


def write_block(
    log: RunLog, workload: Workload, first: int, stop: int, quality: Mapping[str, float]
) -> None:
    """Write the lines of the block of steps `first` to `stop`, which ends with an evaluation."""
    start, offset = workload.epochs.start, workload.round.first_epoch
    begin, end = workload.epochs.epoch_of(first), workload.epochs.epoch_of(stop - 1)
    before, after = (
        {"samples_count": samples_of_first_steps(workload, steps)}
        if workload.epoch_unit == "samples"
        else {}
        for steps in (first, stop)
    )
    log.start("block_start", first_epoch_num=begin + offset, epoch_count=end - begin + 1, **before)
    for epoch in range(begin, end + 1):
        if first <= start(epoch):
            log.start("epoch_start", epoch_num=epoch + offset)
        if start(epoch + 1) <= stop:
            log.end("epoch_stop", epoch_num=epoch + offset)
    log.start("eval_start", epoch_num=end + offset, **after)
    log.event(
        "eval_accuracy",
        eval_accuracy_value(quality, workload.settings.targets),
        epoch_num=end + offset,
        **after,
    )
    log.end("eval_stop", epoch_num=end + offset, **after)
    samples, seconds = (
        samples_of_first_steps(workload, stop) - samples_of_first_steps(workload, first),
        0.0005,
    )
    stats = {
        "throughput": samples / seconds,
        "train_seconds": seconds,
        "evaluation_seconds": 0.0,
        "samples": samples,
    }
    log.event("tracked_stats", {**stats, "data_wait_seconds": 0.0, "loss": 0.5}, step=stop)
    log.end("block_stop", first_epoch_num=begin + offset, **after)


def samples_of_first_steps(workload: Workload, steps: int) -> int:
    """Return the samples of the first `steps`.

    The steps must be whole epochs, or have full batches.
    """
    epochs, rest = divmod(steps, workload.steps_per_epoch)
    dataset_info, batch = workload.dataset_info, workload.settings.global_batch_size
    if workload.name == "ncf":
        return 5 * dataset_info.train_samples * epochs + rest * batch
    if workload.batch_unit == "tokens":
        assert rest == 0
        left_out, repeated = workload.epoch_samples.left_out, workload.epoch_samples.repeated
        return (dataset_info.train_samples - left_out + repeated) * epochs
    return steps * batch


def lengthen(path: Path, milliseconds: int = 1_000) -> None:
    """Move `run_stop` to a later time. A run of less than two milliseconds is implausible."""
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        record = json.loads(line.removeprefix(":::MLLOG "))
        if record["key"] == "run_stop":
            lines[number] = (
                f":::MLLOG {json.dumps({**record, 'time_ms': record['time_ms'] + milliseconds})}"
            )
    path.write_text("\n".join(lines) + "\n")


def checked(path: Path) -> list[str]:
    """Return the keys that mlperf-logging's checker complains about.

    The rule files are those of the log's round.
    """
    file = read_file(path)
    rules = rulesets.rules_of(interpret(path, file.events, file.problems))
    assert rules is not None
    return [item.key for item in run_checker(file.events, rules, werror=False) if not item.warning]


def disagreements(
    folder: Path, workloads: Iterable[Workload], laxer: Mapping[str, str]
) -> tuple[list[str], set[str], dict[bool, int]]:
    """Compare the suite's rules with the checker.

    `laxer` maps a setting that the checker does not check to the reason. The suite's rules must
    always agree with `suite check`.

    Returns:
        A description of each unexpected difference, the entries of `laxer` that were needed, and
            the numbers of closed (True) and open (False) settings.
    """
    found, needed, counts = [], set(), {True: 0, False: 0}
    for number, workload in enumerate(workloads):
        path = folder / f"result_{number}.txt"
        write_log(path, workload)
        values = {
            **effective_settings(type(workload), workload.settings),
            **schedule_inputs(workload),
        }
        rows = get_round(workload.settings.rules, type(workload)).rows
        outside = {name for name in values if deviations(rows, values, [name])}
        complaints = checked(path)
        counts[not outside] += 1
        if check_file(path).passed != (not outside):
            found.append(
                f"{workload.settings}: {sorted(outside) or 'closed'}, but suite check disagrees"
            )
        if not outside and complaints:
            found.append(f"{workload.settings}: closed, but {complaints}")
        if outside and not complaints:
            needed |= outside
            if not outside <= set(laxer):
                found.append(
                    f"{sorted(outside - set(laxer))} are open, but the checker passes"
                    f" {workload.settings}"
                )
    return found, needed, counts


def assert_agreement(
    folder: Path, workloads: Iterable[Workload], laxer: Mapping[str, str], least: int
) -> None:
    """Check that rules and checker differ only in the settings of `laxer`.

    Each of these settings must have a case. At least `least` settings must be closed, and as many
    open.
    """
    found, needed, counts = disagreements(folder, workloads, laxer)
    assert found == []
    assert needed == set(laxer)
    assert min(counts.values()) >= least
