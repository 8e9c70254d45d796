"""What the checker says of a closed log with a run's settings, against what our table says; no training."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path

from suite.common.runspec import RunSpec
from suite.compliance import rulesets
from suite.compliance.check import check_file, run_checker
from suite.results.logs.lines import read_file
from suite.results.logs.reader import interpret
from suite.worker.identity import log_identity, log_settings
from suite.worker.runlog import RunLog
from workloads.api import Settings, Workload
from workloads.api.rules import deviations

IDENTITY = {
    **{"submission_org": "o", "submission_status": "onprem", "submission_platform": "p", "system": "s"},
    **{"device_name": "d", "framework_version": "1", "sample_unit": "samples", "batch_unit": "samples"},
}


VERIFIED_FINGERPRINT = "verified"
"""Fingerprint that counts as verified in tests, for every published data set (tests/conftest.py)."""


def changed(settings: Settings, **changes) -> Settings:
    """The settings with other values, hyperparameters among them."""
    own = {
        name: value for name, value in changes.items() if name in {item.name for item in dataclasses.fields(Settings)}
    }
    others = {name: value for name, value in changes.items() if name not in own}
    return dataclasses.replace(settings, **own, hyperparameters={**settings.hyperparameters, **others})


def varied(settings: Settings, edges: Mapping[str, Iterable]) -> Iterable[Settings]:
    """The settings themselves, and each with one value changed."""
    yield settings
    for name, values in edges.items():
        for value in values:
            yield changed(settings, **{name: value})


def write_log(path: Path, workload: Workload) -> None:
    """A log of a run that reached its target in its first epoch, with the lines that the loop writes."""
    settings, facts = workload.settings, dataclasses.replace(workload.facts, fingerprint=VERIFIED_FINGERPRINT)
    run = RunSpec(
        run_index=0, runs_required=5, folder=str(path.parent), settings=settings, facts=facts, labels=(),
        division="closed", deviations=(), cores=(), cache_cleared=True, watchdog_seconds=1.0, setup_watchdog_seconds=1.0,
        identity={**IDENTITY, "benchmark": workload.log_name}, environment={}, versions={}, git={}, hardware={},
    )  # fmt: skip
    with RunLog(path) as log:
        log_identity(log, run, workload)
        if workload.round.setup_is_timed:
            log.start("run_start")
            log_settings(log, run, workload)
        else:
            log.start("init_start")
            log_settings(log, run, workload)
            log.end("init_stop")
            log.start("run_start")
        first = workload.round.first_epoch
        log.start("block_start", first_epoch_num=first, epoch_count=1)
        log.start("epoch_start", epoch_num=first)
        log.end("epoch_stop", epoch_num=first)
        log.start("eval_start", epoch_num=first)
        log.event("eval_accuracy", workload.logged_quality(settings.targets), epoch_num=first)
        log.end("eval_stop", epoch_num=first)
        log.end("block_stop", first_epoch_num=first)
        log.end("run_stop", status="success")


def checked(path: Path) -> list[str]:
    """Keys that mlperf-logging's checker complains of, by the rule files of the log's round."""
    file = read_file(path)
    rules = rulesets.rules_of(interpret(path, file.events, file.problems).record)
    assert rules is not None
    return [item.key for item in run_checker(file.events, rules, werror=False) if not item.warning]


def disagreements(
    folder: Path, workloads: Iterable[Workload], laxer: Mapping[str, str]
) -> tuple[list[str], set[str], dict[bool, int]]:
    """Where table and checker differ though `laxer` (setting to reason) does not name the setting; which of its entries were
    needed; and how many settings the table calls closed (True) and open (False). `suite check` differs from the table nowhere.
    """
    found, needed, counts = [], set(), {True: 0, False: 0}
    for number, workload in enumerate(workloads):
        path = folder / f"result_{number}.txt"
        write_log(path, workload)
        values = {**workload.decisive(workload.settings), **workload.circumstances()}
        rows = workload.round_named(workload.settings.rules).rows
        outside = {name for name in values if deviations(rows, values, [name])}
        complaints = checked(path)
        counts[not outside] += 1
        if check_file(path).passed != (not outside):
            found.append(f"{workload.settings}: {sorted(outside) or 'closed'}, but suite check says otherwise")
        if not outside and complaints:
            found.append(f"{workload.settings}: closed, but {complaints}")
        if outside and not complaints:
            needed |= outside
            if not outside <= set(laxer):
                found.append(f"{sorted(outside - set(laxer))} are open, but the checker passes {workload.settings}")
    return found, needed, counts


def assert_agreement(folder: Path, workloads: Iterable[Workload], laxer: Mapping[str, str], least: int) -> None:
    """Table and checker differ in the settings of `laxer` alone, all of which have a case; `least` are closed, and open."""
    found, needed, counts = disagreements(folder, workloads, laxer)
    assert found == []
    assert needed == set(laxer)
    assert min(counts.values()) >= least
