"""The time-to-target loop: written once, the only place that orders and times the events of a run.

    cache_clear > init_start > setup() > init_stop > run_start > open_data()          (rules=v0.7)
    cache_clear > run_start > setup() > open_data()                                   (rules=v0.5)
        > [block: train > evaluate: predict > measure > gather > score > broadcast]* > run_stop

A run that goes on from a checkpoint has the lines up to it in its log: it sets up, says `suite_continued`, and trains on.

It works in steps: train to the next evaluation step, evaluate, decide. The same code runs in every process; only
process 0 has a log that writes. What a step is depends on the mode:

    train              forward, backward, sum of gradients over replicas, update        evaluated where there are targets
    forward_backward   the same without the update                                      never evaluated
    forward            the loss of a training batch, without gradients                  never evaluated
    inference          the outputs of an evaluation batch, as `predict` gives them      the evaluation set, again and again

Under `update=async` an update is one worker's, and a step as many updates as there are workers (suite/worker/asynchronous.py).

`timing.warmup_steps` steps come before the measured ones and stand in no time and no throughput. Under `timing=steps` each
step is timed by itself (suite/worker/step_times.py).
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from suite.common.run_end import EndCode
from suite.common.run_folder import RUN_FILE
from suite.common.runspec import RunSpec
from suite.machine.contention import Contention
from suite.worker.asynchronous import Asynchronous, own_batches
from suite.worker.checkpoints import CheckpointManager
from suite.worker.clock import ClockCheck
from suite.worker.evaluation import evaluate, keep_alive
from suite.worker.heartbeat import HeartbeatWriter
from suite.worker.identity import log_identity, log_settings
from suite.worker.runlog import JsonLines, RunLog
from suite.worker.server import servers_of
from suite.worker.step_times import StepTimes
from suite.worker.stop import stop_rule
from workloads.api import Batch, Data, Diverged, Json, Trainer, TrainStats, WorkerContext, Workload


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    status: str
    """`success` or `target_missed`, the same in every process."""
    reason: str = ""
    """Process 0's names the scores, which the others do not know."""


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
    data_bytes: int = 0
    """Of the arrays that this process's devices were given."""
    counts: Counter[str] = field(default_factory=Counter)
    """The same in the workload's further units."""
    loss: float = float("nan")
    """Mean over `loss_steps`: those of its last epoch so far."""
    loss_steps: int = 0


class Loop:
    """One run of a workload by a trainer."""

    def __init__(
        self,
        run: RunSpec,
        workload: Workload,
        trainer: Trainer,
        worker: WorkerContext,
        log: RunLog,
        metrics: JsonLines,
        heartbeat: HeartbeatWriter,
    ) -> None:
        self.run_spec = run
        self.settings = run.settings
        self.workload = workload
        self.trainer = trainer
        self.worker = worker
        self.log = log
        self.metrics = metrics
        self.heartbeat = heartbeat
        self.block = Block(0, 0, 0)
        self.scores: dict[str, float] = {}
        self.stop = stop_rule(workload, run.settings)
        self.contention = Contention(worker.cores, servers=lambda: servers_of(Path(run.folder) / RUN_FILE))
        self.step_times = StepTimes()
        self.asynchronous = Asynchronous(trainer, worker) if run.settings.asynchronous else None
        self.straggler_seconds = (
            run.settings.straggler_ms / 1e3 if worker.num_replicas - 1 in worker.replica_ids else 0.0
        )
        self.train_seconds = 0.0
        self.checkpoints = CheckpointManager(run, workload.epochs, trainer, worker, log, heartbeat)
        self.clock_check = ClockCheck()
        self.started = False
        """Whether the log has a `run_start`."""
        self.position = 0
        """Steps that were done when the run went on from a checkpoint."""

    def run(self) -> Outcome:
        """Train to the end; whatever goes wrong after `run_start` is logged as an aborted run and raised again."""
        try:
            if self.run_spec.continues:
                self._resume()
            else:
                self._begin()
            outcome = self._train_to_stop()
        except Exception as error:
            if self.started:
                with contextlib.suppress(OSError):  # the log itself may be what failed
                    self._stop_clock(status="aborted", reason=one_line(error), code=code_of(error).value)
            raise
        return outcome

    def _begin(self) -> None:
        log_identity(self.log, self.run_spec, self.workload)
        if self.workload.round.setup_is_timed:
            self._start_clock()
            self._setup()
        else:
            self.log.start("init_start")
            self._setup()
            self.log.end("init_stop")
            self._start_clock()

    def _resume(self) -> None:
        """From the checkpoint; what is set up stands in the log already."""
        self.started = True
        self.clock_check.begin()
        self.heartbeat.start_clock(self.log.seconds_since("run_start"))
        self._build()
        self.position, known = self.checkpoints.restore()
        self.block = Block(**{**known["block"], "counts": Counter(known["block"]["counts"])})
        self.scores, self.train_seconds = known["scores"], known["train_seconds"]
        self.heartbeat.update(step=self.position, samples=known["samples"])
        self.contention.begin(known["contention"][self.worker.rank])
        stopped_ms = self.run_spec.continues["stopped_ms"]
        idle = {"stopped_ms": stopped_ms, "idle_seconds": round(max(0.0, time.time() - stopped_ms / 1e3), 3)}
        self.log.event("suite_continued", idle, step=self.position)

    def _start_clock(self) -> None:
        self.contention.begin()
        self.log.start("run_start")
        self.heartbeat.start_clock()
        self.clock_check.begin()
        self.started = True

    def _stop_clock(self, **how: Json) -> None:
        self.log.end("run_stop", **how)
        figures = self.contention.end()
        self.heartbeat.state.contention = figures and figures | self._fewer_threads()
        self.heartbeat.write()

    def _fewer_threads(self) -> dict[str, Json]:
        """How many threads a device has, where those are fewer than its cores because others use some of them."""
        threads, chosen = self.trainer.threads_per_device, self.settings.threads_per_device == "auto"
        return {"threads_per_device": threads} if chosen and threads < self.worker.cores_per_device else {}

    def _build(self) -> None:
        self.heartbeat.update(phase="setup")
        # Where setup is timed, compiling at the first step costs the same, so nothing is warmed up.
        warm_up = not self.workload.round.setup_is_timed
        self.trainer.beat = self.heartbeat.update
        self.trainer.setup(self.workload.initial_weights(self.settings.seed), warm_up)

    def _setup(self) -> None:
        self._build()
        log_settings(self.log, self.run_spec, self.workload)
        sums = self.settings.mode in ("train", "forward_backward") and self.settings.update == "sync"
        traffic = self.trainer.gradient_traffic() if sums else None
        if traffic is not None:
            named = {"bytes": traffic.size_bytes, "tensors": traffic.tensors, "buckets": traffic.buckets}
            self.log.event("suite_gradients", named)

    def _train_to_stop(self) -> Outcome:
        self.heartbeat.update(phase="open data")
        data = self.workload.open_data(self.worker, self.settings.seed)
        reached, untimed = False, self.settings.timing_warmup_steps
        limit = untimed + self.stop.limit_steps
        with contextlib.closing(data), self.trainer.staged(self._batches(data, limit)) as batches:
            steps = self._watched(batches)
            if untimed:
                self._step(steps, 0, untimed)
                self._forget_warm_up()
            for number, (first, stop, evaluates) in enumerate(self._blocks(), start=1):
                if stop <= self.position:
                    continue
                if first >= self.position:  # else the checkpoint has what is known of it so far
                    self.block = Block(number, first, stop)
                reached = self._run_block(steps, data, evaluates)
                if reached and self.stop.at_target:
                    break
                if stop < limit:
                    self._checkpoint(stop)
        if self.step_times.seconds:
            seconds, how = self.step_times.seconds, self.step_times.how
            figures = self.workload.figures_of_steps(seconds, how) or {"suite_step_times": self.step_times.statistics()}
            for key, value in figures.items():
                self.log.event(key, value)
        if self.asynchronous is not None:
            self.log.event("suite_staleness", self.asynchronous.statistics(self.train_seconds))
        self.clock_check.check()
        self._stop_clock(status="success" if reached else "aborted")
        self.checkpoints.save_final_weights()
        if self.stop.at_target and not reached:
            return Outcome("target_missed", f"after {self.block.stop_step} steps{self._quality_text()}")
        return Outcome("success")

    def _forget_warm_up(self) -> None:
        self.step_times.clear()
        self.train_seconds = 0.0
        if self.asynchronous is not None:
            self.asynchronous.clear()

    def _batches(self, data: Data, count: int) -> Iterator[list[Batch]]:
        if self.asynchronous is not None:  # one worker may have to make the updates of all
            return own_batches(data.train(0, count * self.worker.world_size))
        if self.settings.mode != "inference":
            return data.train(self.position, count)
        return itertools.islice(evaluated_again(data), count)

    def _blocks(self) -> Iterator[tuple[int, int, bool]]:
        """(first step, stop step, evaluate at its end?) after the steps that are not timed, up to the limit."""
        first = self.settings.timing_warmup_steps
        limit = first + self.stop.limit_steps
        measures = bool(self.settings.targets) or self.stop.at_target
        evaluates = self.settings.mode == "train" and self.settings.profile != "synthetic" and measures
        schedule = self.workload.evaluation_steps() if evaluates else iter(())
        for stop in (step for step in itertools.takewhile(lambda step: step <= limit, schedule) if step > first):
            yield first, stop, True
            first = stop
        if first < limit:
            yield first, limit, False

    def _run_block(self, steps: Iterator[list[Batch]], data: Data, evaluates: bool) -> bool:
        """Train and evaluate one block; True if every target is met."""
        block, epochs = self.block, self.workload.epochs
        first_epoch, last_epoch = epochs.of_step(block.first_step) + 1, epochs.of_step(block.stop_step - 1) + 1
        number = self._epoch_num
        if block.first_step >= self.position:
            self.log.start("block_start", first_epoch_num=number(first_epoch), epoch_count=last_epoch - first_epoch + 1)
        for epoch in range(first_epoch, last_epoch + 1):
            first = max(block.first_step, epochs.start(epoch - 1))
            stop = min(block.stop_step, epochs.start(epoch))
            if stop <= self.position:
                continue
            if first >= self.position:
                block.loss_steps = 0
                if first == epochs.start(epoch - 1):
                    self.log.start("epoch_start", epoch_num=number(epoch))
            self._step(steps, max(first, self.position), stop)
            if stop == epochs.start(epoch):
                self.log.end("epoch_stop", epoch_num=number(epoch))
            if stop < block.stop_step:
                self._checkpoint(stop)
        reached = self._evaluate(data, last_epoch) if evaluates else False
        self._report_block(first_epoch, last_epoch)
        self.log.end("block_stop", first_epoch_num=number(first_epoch))
        return reached

    def _epoch_num(self, epoch: int) -> int:
        """Of epoch 1, 2, … in the log, as the round numbers them."""
        return epoch - 1 + self.workload.round.first_epoch

    def _step(self, steps: Iterator[list[Batch]], first_step: int, stop_step: int) -> None:
        """A stretch of steps, which is left where it may be time for a checkpoint."""
        while first_step < stop_step:
            stop = self.checkpoints.next_check_step(stop_step)
            self._stretch(steps, first_step, stop)
            if stop < stop_step:
                self._checkpoint(stop)
            first_step = stop

    def _checkpoint(self, step: int) -> None:
        """Write one, where it is due, after `step` steps."""
        if self.checkpoints.should_save(step):
            block = {**vars(self.block), "counts": dict(self.block.counts)}
            known = {"block": block, "scores": self.scores, "train_seconds": self.train_seconds}
            self.checkpoints.save(step, {**known, "samples": self.heartbeat.state.samples}, self.contention.end())

    def _stretch(self, steps: Iterator[list[Batch]], first_step: int, stop_step: int) -> None:
        """Steps of whatever kind the mode asks for; returns when the devices are done."""
        self.heartbeat.update(phase="train")
        begin = time.perf_counter()
        if self.asynchronous is not None:
            stats = self._updates(self.asynchronous, steps, first_step, stop_step)
        elif self.settings.timing_each == "steps":
            few = itertools.islice(steps, stop_step - first_step)
            stats = self.step_times.timed(self.trainer, self._steps_of_mode, few, first_step)
        else:
            stats = self._steps_of_mode(itertools.islice(steps, stop_step - first_step), first_step)
        seconds = time.perf_counter() - begin
        self.block.train_seconds += seconds
        self.train_seconds += seconds
        before, count = self.block.loss_steps, stop_step - first_step
        self.block.loss = (self.block.loss * before + stats.loss * count) / (before + count) if before else stats.loss
        self.block.loss_steps = before + count
        self.heartbeat.update(loss=stats.loss)

    def _updates(
        self, asynchronous: Asynchronous, steps: Iterator[list[Batch]], first_step: int, stop_step: int
    ) -> TrainStats:
        """A stretch of asynchronous updates; what all workers did is added to process 0's block."""
        samples, data_bytes = self.block.samples, self.block.data_bytes
        stats = self._steps_of_mode(asynchronous.until(stop_step, steps), first_step)
        own = (self.block.samples - samples, self.block.data_bytes - data_bytes)
        with keep_alive(self.heartbeat, self.run_spec.setup_watchdog_seconds):  # others may be on their last update
            of_all = asynchronous.meet(stats, *own)
        if of_all is None:
            return stats
        stats, own_samples, own_bytes = of_all
        self.block.samples = samples + own_samples
        self.block.data_bytes = data_bytes + own_bytes // self.worker.world_size
        return stats

    def _steps_of_mode(self, steps: Iterable[list[Batch]], first_step: int) -> TrainStats:
        mode = self.settings.mode
        if mode == "forward":
            return self.trainer.forward(steps)
        if mode == "forward_backward":
            return self.trainer.forward_backward(steps)
        if mode == "inference":
            return TrainStats(sum(1 for _ in self.trainer.predict(steps)), float("nan"))
        return self.trainer.train(steps, first_step)

    def _watched(self, batches: Iterator[list[Batch]]) -> Iterator[list[Batch]]:
        """The same batches; counts samples and the seconds that training waits for them, and shows progress."""
        step = self.position
        while True:
            begin = time.perf_counter()
            batch = next(batches, None)
            self.block.data_wait_seconds += time.perf_counter() - begin
            if batch is None:
                return
            step += 1
            self.block.samples += batch[0].samples_global
            self.block.counts.update(batch[0].counts_global)
            self.block.data_bytes += sum(array.nbytes for part in batch for array in part.arrays.values())
            self.heartbeat.update(step=step, samples=self.heartbeat.state.samples + batch[0].samples_global)
            if self.straggler_seconds:
                self.trainer.wait()
                time.sleep(self.straggler_seconds)
            yield batch

    def _evaluate(self, data: Data, epoch: int) -> bool:
        self.heartbeat.update(phase="evaluate")
        self.log.start("eval_start", epoch_num=self._epoch_num(epoch))
        begin = time.perf_counter()
        scores = evaluate(self.workload, self.trainer, data, self.heartbeat, self.run_spec.setup_watchdog_seconds)
        self.scores = scores or {}
        if scores is not None and (missing := [name for name in self.settings.targets if name not in scores]):
            raise ValueError(
                f"score() gave {', '.join(scores) or 'nothing'}; there is a target for {', '.join(missing)}"
            )
        met = scores is not None and self.workload.met(scores)
        with keep_alive(self.heartbeat, self.run_spec.setup_watchdog_seconds):  # the others wait for process 0's scores
            reached = self.trainer.broadcast(float(met)) > 0.5
        self.block.evaluation_seconds += time.perf_counter() - begin
        value = self.workload.logged_quality(self.scores) if self.scores else None
        self.log.event("eval_accuracy", value, epoch_num=self._epoch_num(epoch))
        self.log.end("eval_stop", epoch_num=self._epoch_num(epoch))
        return reached

    def _report_block(self, first_epoch: int, last_epoch: int) -> None:
        block = self.block
        rate = block.samples / block.train_seconds if block.train_seconds > 0 else 0.0
        rates = {unit: block.counts[unit] / max(block.train_seconds, 1e-9) for unit in self.workload.further_units}
        seconds = {
            "train_seconds": round(block.train_seconds, 9),
            "evaluation_seconds": round(block.evaluation_seconds, 9),
            "data_wait_seconds": round(block.data_wait_seconds, 9),
        }
        stats: dict[str, Json] = {"throughput": rate, **seconds, "samples": block.samples, "loss": block.loss}
        stats["data_bytes"] = block.data_bytes * self.worker.world_size
        others = {name: value for name, value in self.scores.items() if name not in self.settings.targets}
        stats |= {
            **({"rates": rates} if rates else {}),
            **({"scores": others} if others and self.settings.targets else {}),
        }
        self.log.event("tracked_stats", stats, step=block.stop_step)
        if self.worker.rank == 0:
            elapsed_seconds = self.heartbeat.elapsed_seconds()
            self.metrics.write(
                {
                    "block": block.number,
                    "first_epoch": first_epoch,
                    "epochs": last_epoch - first_epoch + 1,
                    "step": block.stop_step,
                    "samples": block.samples,
                    **seconds,
                    "elapsed_seconds": None if elapsed_seconds is None else round(elapsed_seconds, 3),
                    "samples_per_second": rate,
                    **({"rates": rates} if rates else {}),
                    "loss": block.loss,
                    "quality": self.scores,
                    "memory_peak_bytes": self.trainer.memory_peak_bytes(),
                }
            )

    def _quality_text(self) -> str:
        known = {name: target for name, target in self.settings.targets.items() if name in self.scores}
        text = ", ".join(f"{name} {self.scores[name]:.4f} (target {target})" for name, target in known.items())
        return f": {text}" if text else ""


def evaluated_again(data: Data) -> Iterator[list[Batch]]:
    """Evaluation batches without end. Raises ValueError if there is none: a pass over nothing would never end."""
    while True:
        empty = True
        for batches in data.evaluation():
            empty = False
            yield batches
        if empty:
            raise ValueError("mode=inference: the data have no evaluation batches")


def code_of(error: BaseException) -> EndCode:
    """Return the code of an exception that ended a run."""
    return EndCode.DIVERGED if isinstance(error, Diverged) else EndCode.ERROR


def one_line(error: BaseException) -> str:
    """An exception as one line: its type and the first line of its text, the last of one that is a trace (MXNet's are)."""
    lines = str(error).strip().splitlines()
    if lines and lines[0].startswith("Traceback "):
        lines = lines[-1:]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
