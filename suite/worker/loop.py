"""The time-to-target loop: written once, the only place that orders and times the events of a run.

    cache_clear > init_start > setup() > init_stop > run_start > open_data()          (clock v0.7)
    cache_clear > run_start > setup() > open_data()                                   (clock v0.5)
        > [block: train > evaluate: predict > measure > gather > score > broadcast]* > run_stop

It works in steps: train to the next evaluation step, evaluate, decide. The same code runs in every process; only
process 0 has a log that writes.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from suite.common.runspec import RunSpec
from suite.worker.heartbeat import Heart
from suite.worker.runlog import JsonLines, RunLog
from suite.worker.stop import stop_rule
from workloads.api import Arrays, Batch, Data, Json, Place, Trainer, TrainStats, Workload


@dataclass(frozen=True)
class Outcome:
    """How a run ended, the same in every process."""

    status: str
    """`success` or `target_missed`."""
    reason: str = ""


@dataclass
class Block:
    """One evaluation block: what is measured between two evaluations."""

    number: int
    first_step: int
    stop_step: int
    train_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    data_wait_seconds: float = 0.0
    samples: int = 0
    loss: float = float("nan")


class Loop:
    """One run of a workload by a trainer."""

    def __init__(
        self,
        run: RunSpec,
        workload: Workload,
        trainer: Trainer,
        place: Place,
        log: RunLog,
        metrics: JsonLines,
        heart: Heart,
    ) -> None:
        self.run_spec = run
        self.settings = run.settings
        self.workload = workload
        self.trainer = trainer
        self.place = place
        self.log = log
        self.metrics = metrics
        self.heart = heart
        self.block = Block(0, 0, 0)
        self.scores: dict[str, float] = {}
        self.stop = stop_rule(workload, run.settings)

    def run(self) -> Outcome:
        """Train to the end; whatever goes wrong after `run_start` is logged as an aborted run and raised again."""
        log_identity(self.log, self.run_spec)
        started = False
        try:
            if self.settings.clock == "v0.5":
                self.log.start("run_start")
                started = True
                self._setup()
            else:
                self.log.start("init_start")
                self._setup()
                self.log.end("init_stop")
                self.log.start("run_start")
                started = True
            outcome = self._train_to_stop()
        except Exception as error:
            if started:
                with contextlib.suppress(OSError):  # the log itself may be what failed
                    self.log.end("run_stop", status="aborted", reason=one_line(error))
            raise
        return outcome

    def _setup(self) -> None:
        self.heart.beat(phase="setup")
        # Under clock v0.5 setup is timed: compiling at the first step then costs the same, so nothing is warmed up.
        warm_up = self.settings.clock != "v0.5"
        self.trainer.setup(self.workload.initial_weights(self.settings.seed), warm_up)
        for key, value in self._setting_keys().items():
            self.log.event(key, value)

    def _setting_keys(self) -> dict[str, Json]:
        return {
            "seed": self.settings.seed,
            "global_batch_size": self.settings.batch_size_global,
            **self.workload.log_keys(),
            "train_samples": self.run_spec.facts.train_samples,
            "eval_samples": self.run_spec.facts.evaluation_samples,
        }

    def _train_to_stop(self) -> Outcome:
        self.heart.beat(phase="open data")
        data = self.workload.open_data(self.place, self.settings.seed)
        reached = False
        try:
            steps = self._watched(data.train(0, self.stop.limit_steps))
            for number, (first, stop, evaluate) in enumerate(self._blocks(), start=1):
                self.block = Block(number, first, stop)
                reached = self._run_block(steps, data, evaluate)
                if reached and self.stop.at_target:
                    break
        finally:
            data.close()
        self.log.end("run_stop", status="success" if reached else "aborted")
        if self.stop.at_target and not reached:
            return Outcome("target_missed", f"after {self.block.stop_step} steps: {self._quality_text()}")
        return Outcome("success")

    def _blocks(self) -> Iterator[tuple[int, int, bool]]:
        """(first step, stop step, evaluate at its end?) up to the limit."""
        first, limit = 0, self.stop.limit_steps
        evaluates = self.settings.mode == "train" and self.settings.profile != "synthetic"
        schedule = self.workload.evaluation_steps() if evaluates else iter(())
        for stop in itertools.takewhile(lambda step: step <= limit, schedule):
            yield first, stop, True
            first = stop
        if first < limit:
            yield first, limit, False

    def _run_block(self, steps: Iterator[list[Batch]], data: Data, evaluate: bool) -> bool:
        """Train and evaluate one block; True if every target is met."""
        block, per_epoch = self.block, self.workload.steps_per_epoch
        first_epoch = block.first_step // per_epoch + 1
        last_epoch = (block.stop_step - 1) // per_epoch + 1
        self.log.start("block_start", first_epoch_num=first_epoch, epoch_count=last_epoch - first_epoch + 1)
        for epoch in range(first_epoch, last_epoch + 1):
            first = max(block.first_step, (epoch - 1) * per_epoch)
            stop = min(block.stop_step, epoch * per_epoch)
            if first == (epoch - 1) * per_epoch:
                self.log.start("epoch_start", epoch_num=epoch)
            self._train(itertools.islice(steps, stop - first), first)
            if stop == epoch * per_epoch:
                self.log.end("epoch_stop", epoch_num=epoch)
        reached = self._evaluate(data, last_epoch) if evaluate else False
        self._report_block(first_epoch, last_epoch)
        self.log.end("block_stop", first_epoch_num=first_epoch)
        return reached

    def _train(self, steps: Iterable[list[Batch]], first_step: int) -> None:
        self.heart.beat(phase="train")
        begin = time.perf_counter()
        forward = self.settings.mode == "forward"
        stats: TrainStats = self.trainer.forward(steps) if forward else self.trainer.train(steps, first_step)
        self.block.train_seconds += time.perf_counter() - begin
        self.block.loss = stats.loss
        self.heart.beat(loss=stats.loss)

    def _watched(self, batches: Iterator[list[Batch]]) -> Iterator[list[Batch]]:
        """The same batches; counts samples and the seconds that training waits for them, and shows progress."""
        step = 0
        while True:
            begin = time.perf_counter()
            batch = next(batches, None)
            self.block.data_wait_seconds += time.perf_counter() - begin
            if batch is None:
                return
            step += 1
            self.block.samples += batch[0].samples_global
            self.heart.beat(step=step, samples=self.heart.state.samples + batch[0].samples_global)
            yield batch

    def _evaluate(self, data: Data, epoch: int) -> bool:
        self.heart.beat(phase="evaluate")
        self.log.start("eval_start", epoch_num=epoch)
        begin = time.perf_counter()
        local = merge(self._measured(data))
        gathered = self.trainer.gather(local)
        met = 0.0
        if gathered is not None:
            self.scores = self.workload.score(merge(gathered))
            met = float(self.workload.met(self.scores))
        reached = self.trainer.broadcast(met) > 0.5
        self.block.evaluation_seconds += time.perf_counter() - begin
        value: Json = dict(self.scores) if len(self.scores) > 1 else next(iter(self.scores.values()), None)
        self.log.event("eval_accuracy", value, epoch_num=epoch)
        self.log.end("eval_stop", epoch_num=epoch)
        return reached

    def _measured(self, data: Data) -> Iterator[Arrays]:
        for batch, outputs in self.trainer.predict(data.evaluation()):
            self.heart.beat()
            yield self.workload.measure(batch, outputs)

    def _report_block(self, first_epoch: int, last_epoch: int) -> None:
        block = self.block
        rate = block.samples / block.train_seconds if block.train_seconds > 0 else 0.0
        seconds = {
            "train_seconds": round(block.train_seconds, 9),
            "evaluation_seconds": round(block.evaluation_seconds, 9),
            "data_wait_seconds": round(block.data_wait_seconds, 9),
        }
        stats = {"throughput": rate, **seconds, "samples": block.samples, "loss": block.loss}
        self.log.event("tracked_stats", stats, step=block.stop_step)
        if self.place.process == 0:
            self.metrics.write(
                {
                    "block": block.number,
                    "first_epoch": first_epoch,
                    "epochs": last_epoch - first_epoch + 1,
                    "step": block.stop_step,
                    "samples": block.samples,
                    **seconds,
                    "samples_per_second": rate,
                    "loss": block.loss,
                    "quality": self.scores,
                    "memory_peak_bytes": self.trainer.memory_peak_bytes(),
                }
            )

    def _quality_text(self) -> str:
        targets = self.settings.targets
        return ", ".join(f"{name} {value:.4f} (target {targets[name]})" for name, value in self.scores.items())


def log_identity(log: RunLog, run: RunSpec) -> None:
    """The lines that say what this is: submission keys, cache_clear and `suite_run` (see docs/logs.md)."""
    settings = run.settings
    log.event("submission_benchmark", str(run.identity["benchmark"]))
    log.event("submission_org", run.identity["submission_org"])
    log.event("submission_division", run.division)
    log.event("submission_status", run.identity["submission_status"])
    log.event("submission_platform", run.identity["submission_platform"])
    log.event("cache_clear", run.cache_cleared)
    copied = (
        *("workload", "framework", "profile", "device", "nodes", "cores_per_device", "batch_rule", "batch_size_global"),
        *("lr_scaling", "precision", "hyperparameter_set", "rules", "clock", "stop", "mode", "targets", "dataset"),
    )
    log.event(
        "suite_run",
        {
            "schema": run.schema,
            **{name: getattr(settings, name) for name in copied},
            "devices": settings.devices,
            "system": run.identity["system"],
            "device_name": run.identity["device_name"],
            "framework_version": run.identity["framework_version"],
            "sample_unit": run.identity["sample_unit"],
            "data_fingerprint": run.facts.fingerprint,
            "run_index": run.run_index,
            "runs_required": run.runs_required,
            "labels": list(run.labels),
            "deviations": list(run.deviations),
            "suite_version": run.versions.get("suite"),
            "git_commit": run.git.get("commit"),
        },
    )


def merge(parts: Iterable[Arrays]) -> dict[str, np.ndarray]:
    """Per-sample arrays of many batches or processes, joined along the first axis."""
    kept = [part for part in parts if part]
    return {name: np.concatenate([part[name] for part in kept]) for name in (kept[0] if kept else {})}


def one_line(error: BaseException) -> str:
    """An exception as one line: its type and the first line of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
