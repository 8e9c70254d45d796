"""Time-to-target loop, which orders and times all events of a run.

    cache_clear > init_start > setup() > init_stop > run_start > open_data()          (rules=v0.7)
    cache_clear > run_start > setup() > open_data()                                   (rules=v0.5)
        > [block: train > evaluate: predict > measure > gather > score > broadcast]* > run_stop

The log of a resumed run begins with the log lines up to the checkpoint. A resumed run then calls
`setup`, logs `suite_continued`, and continues to train.

The loop trains until the next evaluation step, evaluates, and decides whether to continue. The same
code runs in every process, but only rank 0 writes the log. The mode determines what a step
computes:

    train              forward pass, backward pass, all-reduce of the gradients, update
    forward_backward   the same as `train`, but without the update
    forward            the loss of a training batch, without gradients
    inference          the outputs of an evaluation batch, from `predict`

A run with mode `train` is evaluated if it has targets, and a run with mode `inference` repeats the
evaluation set. Runs with mode `forward_backward` or `forward` never evaluate.

Under `update=async`, each update uses the gradient of a single worker. With W workers, a step
consists of W updates (suite/worker/asynchronous.py).

The first `timing.warmup_steps` steps are not measured, so times and throughput exclude these steps.
Under `timing=steps`, each step is timed separately (suite/worker/step_times.py).
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from suite.common.loop_state import Block, LoopState
from suite.common.run_end import EndCode
from suite.common.runspec import RunSpec
from suite.machine.contention import Contention
from suite.worker.asynchronous import Asynchronous, local_batches
from suite.worker.checkpoint_manager import CheckpointManager
from suite.worker.clock import ClockCheck
from suite.worker.evaluation import eval_accuracy_value, evaluate, keep_alive, targets_reached
from suite.worker.heartbeat import HeartbeatWriter
from suite.worker.log_header import log_settings, write_log_header
from suite.worker.runlog import JsonLines, RunLog
from suite.worker.server import servers_of
from suite.worker.step_times import StepTimes
from suite.worker.stop import stop_rule
from workloads.api import (
    Batch,
    DataPipeline,
    Json,
    NonFiniteLossError,
    Trainer,
    TrainStats,
    WorkerContext,
    Workload,
)


@dataclass(frozen=True)
class Outcome:
    """Status of a run at its end, and the reason if the run missed its target."""

    status: str
    """`success` or `target_missed`. All ranks have the same status."""
    reason: str = ""
    """Reason why the run missed its target. Only on rank 0, the reason includes the scores."""


class Loop:
    """Trains and evaluates a workload with a trainer, and logs the events of the run."""

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
        self.contention = Contention(worker.cores, servers=lambda: servers_of(Path(run.folder)))
        self.step_times = StepTimes()
        self.asynchronous = Asynchronous(trainer, worker) if run.settings.asynchronous else None
        self.straggler_seconds = (
            run.settings.straggler_ms / 1e3
            if worker.num_replicas - 1 in worker.replica_ids
            else 0.0
        )
        self.train_seconds = 0.0
        self.earlier_samples = 0
        """Number of samples that all workers have trained on before the current block."""
        self.checkpoints = CheckpointManager(run, workload.epochs, trainer, worker, log, heartbeat)
        self.clock_check = ClockCheck()
        self.started = False
        """True after `run_start` has been logged."""
        self.position = 0
        """Number of completed steps in the checkpoint from which the run resumed. 0 if the run
        was not resumed.
        """

    def run(self) -> Outcome:
        """Train until the end of the run.

        If an exception occurs after `run_start`, the run is logged as aborted, and the exception is
        raised again.

        Returns:
            How the run ended.

        Raises:
            RuntimeError: The clock of the run and the uptime of the machine have advanced
                differently.
            OSError: The log cannot be written.
        """
        try:
            if self.run_spec.resume_from:
                self._resume()
            else:
                self._begin()
            outcome = self._train_to_stop()
        except Exception as error:
            if self.started:
                # The caught exception may have occurred because the log cannot be written.
                with contextlib.suppress(OSError):
                    self._stop_clock(
                        status="aborted", reason=one_line(error), code=code_of(error).value
                    )
            raise
        return outcome

    def _begin(self) -> None:
        write_log_header(self.log, self.run_spec, self.workload)
        if self.workload.round.setup_is_timed:
            self._start_clock()
            self._setup()
        else:
            self.log.start("init_start")
            self._setup()
            self.log.end("init_stop")
            self._start_clock()

    def _resume(self) -> None:
        """Restore the run from its checkpoint.

        The log from the checkpoint already contains the setup lines.
        """
        self.started = True
        self.clock_check.begin()
        self.heartbeat.start_clock(self.log.seconds_since("run_start"))
        self._build()
        self.position, loop_state = self.checkpoints.restore()
        self.block, self.train_seconds = loop_state.block, loop_state.train_seconds
        self.earlier_samples = loop_state.samples - self.block.samples
        self.scores = dict(loop_state.scores)
        self.heartbeat.update(step=self.position, samples=loop_state.samples)
        self.contention.begin(loop_state.contention[self.worker.rank])
        stopped_ms = self.run_spec.resume_from["stopped_ms"]
        idle = {
            "stopped_ms": stopped_ms,
            "idle_seconds": round(max(0.0, time.time() - stopped_ms / 1e3), 3),
        }
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
        """Return the number of threads per device if `auto` chose fewer threads than cores.

        `auto` chooses fewer threads if unrelated programs use some of the cores.
        """
        threads, chosen = (
            self.trainer.threads_per_device,
            self.settings.threads_per_device == "auto",
        )
        return (
            {"threads_per_device": threads}
            if chosen and threads < self.worker.cores_per_device
            else {}
        )

    def _build(self) -> None:
        self.heartbeat.update(phase="setup")
        # If setup is timed, a separate warm-up saves no time, because it takes as long as compiling
        # in the first step.
        warmup = not self.workload.round.setup_is_timed
        self.trainer.beat = self.heartbeat.update
        self.trainer.setup(self.workload.initial_weights(self.settings.seed), warmup)

    def _setup(self) -> None:
        self._build()
        log_settings(self.log, self.run_spec, self.workload)
        sums = (
            self.settings.mode in ("train", "forward_backward") and self.settings.update == "sync"
        )
        traffic = self.trainer.gradient_all_reduce_info() if sums else None
        if traffic is not None:
            sizes = {
                "bytes": traffic.size_bytes,
                "tensors": traffic.tensors,
                "buckets": traffic.buckets,
            }
            self.log.event("suite_gradients", sizes)

    def _train_to_stop(self) -> Outcome:
        self.heartbeat.update(phase="open data")
        data = self.workload.open_data(self.worker, self.settings.seed)
        reached, untimed = False, self.settings.timing_warmup_steps
        limit = untimed + self.stop.limit_steps
        with (
            contextlib.closing(data),
            self.trainer.prefetch_to_device(self._batches(data, limit)) as batches,
        ):
            steps = self._watched(batches)
            if untimed:
                self._step(steps, 0, untimed)
                self._forget_warm_up()
            for number, (first, stop, evaluates) in enumerate(self._blocks(), start=1):
                if stop <= self.position:
                    continue
                # If the run resumes in the middle of a block, `restore` has already loaded the
                # block from the checkpoint.
                if first >= self.position:
                    self.earlier_samples += self.block.samples
                    self.block = Block(number, first, stop)
                reached = self._run_block(steps, data, evaluates)
                if reached and self.stop.at_target:
                    break
                if stop < limit:
                    self._checkpoint(stop)
        if self.step_times.seconds:
            seconds, how = self.step_times.seconds, self.step_times.how
            figures = self.workload.summarize_step_times(seconds, how) or {
                "suite_step_times": self.step_times.statistics()
            }
            for key, value in figures.items():
                self.log.event(key, value)
        if self.asynchronous is not None:
            self.log.event("suite_staleness", self.asynchronous.statistics(self.train_seconds))
        self.clock_check.check()
        self._stop_clock(status="success" if reached else "aborted")
        self.checkpoints.save_final_weights()
        if self.stop.at_target and not reached:
            return Outcome(
                "target_missed", f"after {self.block.stop_step} steps{self._quality_text()}"
            )
        return Outcome("success")

    def _forget_warm_up(self) -> None:
        self.step_times.clear()
        self.train_seconds = 0.0
        if self.asynchronous is not None:
            self.asynchronous.clear()

    def _batches(self, data: DataPipeline, count: int) -> Iterator[list[Batch]]:
        if self.asynchronous is not None:  # a single worker may have to compute all updates
            return local_batches(data.train(0, count * self.worker.world_size))
        if self.settings.mode != "inference":
            return data.train(self.position, count)
        return itertools.islice(evaluated_again(data), count)

    def _blocks(self) -> Iterator[tuple[int, int, bool]]:
        """Yield the training blocks from the end of the warm-up to the step limit.

        Each block is a tuple (first step, stop step, whether to evaluate at the stop step).
        """
        first = self.settings.timing_warmup_steps
        limit = first + self.stop.limit_steps
        measures = bool(self.settings.targets) or self.stop.at_target
        evaluates = (
            self.settings.mode == "train" and self.settings.profile != "synthetic" and measures
        )
        schedule = self.workload.evaluation_steps() if evaluates else iter(())
        for stop in (
            step
            for step in itertools.takewhile(lambda step: step <= limit, schedule)
            if step > first
        ):
            yield first, stop, True
            first = stop
        if first < limit:
            yield first, limit, False

    def _run_block(self, steps: Iterator[list[Batch]], data: DataPipeline, evaluates: bool) -> bool:
        """Train and evaluate a block.

        Returns True if all targets are reached.
        """
        block, epochs = self.block, self.workload.epochs
        first_epoch, last_epoch = (
            epochs.epoch_of(block.first_step) + 1,
            epochs.epoch_of(block.stop_step - 1) + 1,
        )
        number = self._epoch_num
        if block.first_step >= self.position:
            self.log.start(
                "block_start",
                first_epoch_num=number(first_epoch),
                epoch_count=last_epoch - first_epoch + 1,
                **self._samples_count(),
            )
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
        self.log.end("block_stop", first_epoch_num=number(first_epoch), **self._samples_count())
        return reached

    def _epoch_num(self, epoch: int) -> int:
        """Return the logged number of an epoch, where `epoch` is 1 for the first epoch.

        The round determines the logged number of the first epoch.
        """
        return epoch - 1 + self.workload.round.first_epoch

    def _samples_count(self) -> dict[str, Json]:
        """Return the metadata `samples_count`: the samples that all workers have trained on.

        The result is empty if the workload counts training in epochs.
        """
        if self.settings.epoch_unit != "samples":
            return {}
        return {"samples_count": self.earlier_samples + self.block.samples}

    def _step(self, steps: Iterator[list[Batch]], first_step: int, stop_step: int) -> None:
        """Run the steps from `first_step` to `stop_step` - 1.

        Training pauses at each step at which a checkpoint may be due.
        """
        while first_step < stop_step:
            stop = self.checkpoints.next_check_step(stop_step)
            self._timed_steps(steps, first_step, stop)
            if stop < stop_step:
                self._checkpoint(stop)
            first_step = stop

    def _checkpoint(self, step: int) -> None:
        """Write a checkpoint after `step` steps if a checkpoint is due."""
        if self.checkpoints.should_save(step):
            loop_state = LoopState(
                self.block, self.scores, self.train_seconds, self.heartbeat.state.samples
            )
            self.checkpoints.save(step, loop_state, self.contention.end())

    def _timed_steps(self, steps: Iterator[list[Batch]], first_step: int, stop_step: int) -> None:
        """Run the steps of the mode, and add their time and loss to the block.

        The method returns when the devices have finished.
        """
        self.heartbeat.update(phase="train")
        begin = time.perf_counter()
        if self.asynchronous is not None:
            stats = self._updates(self.asynchronous, steps, first_step, stop_step)
        elif self.settings.timing_each == "steps":
            limited = itertools.islice(steps, stop_step - first_step)
            stats = self.step_times.timed(self.trainer, self._steps_of_mode, limited, first_step)
        else:
            stats = self._steps_of_mode(itertools.islice(steps, stop_step - first_step), first_step)
        seconds = time.perf_counter() - begin
        self.block.train_seconds += seconds
        self.train_seconds += seconds
        before, count = self.block.loss_steps, stop_step - first_step
        self.block.loss = (
            (self.block.loss * before + stats.loss * count) / (before + count)
            if before
            else stats.loss
        )
        self.block.loss_steps = before + count
        self.heartbeat.update(loss=stats.loss)

    def _updates(
        self,
        asynchronous: Asynchronous,
        steps: Iterator[list[Batch]],
        first_step: int,
        stop_step: int,
    ) -> TrainStats:
        """Run asynchronous updates.

        On rank 0, the samples and bytes of all workers are added to the current block.
        """
        samples, data_bytes = self.block.samples, self.block.data_bytes
        stats = self._steps_of_mode(asynchronous.until(stop_step, steps), first_step)
        local_samples, local_bytes = (
            self.block.samples - samples,
            self.block.data_bytes - data_bytes,
        )
        # `sync_workers` may wait a long time for the last update of every worker.
        with keep_alive(self.heartbeat, self.run_spec.setup_watchdog_seconds):
            totals = asynchronous.sync_workers(stats, local_samples, local_bytes)
        if totals is None:
            return stats
        stats, total_samples, total_bytes = totals
        self.block.samples = samples + total_samples
        self.block.data_bytes = data_bytes + total_bytes // self.worker.world_size
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
        """Yield the batches, count their samples, and update the heartbeat.

        The method also measures how long training waits for each batch.
        """
        step = self.position
        while True:
            begin = time.perf_counter()
            batch = next(batches, None)
            self.block.data_wait_seconds += time.perf_counter() - begin
            if batch is None:
                return
            step += 1
            self.block.samples += batch[0].global_samples
            self.block.counts.update(batch[0].global_counts)
            self.block.data_bytes += sum(
                array.nbytes for part in batch for array in part.arrays.values()
            )
            self.heartbeat.update(
                step=step, samples=self.heartbeat.state.samples + batch[0].global_samples
            )
            if self.straggler_seconds:
                self.trainer.synchronize()
                time.sleep(self.straggler_seconds)
            yield batch

    def _evaluate(self, data: DataPipeline, epoch: int) -> bool:
        self.heartbeat.update(phase="evaluate")
        position = {"epoch_num": self._epoch_num(epoch), **self._samples_count()}
        self.log.start("eval_start", **position)
        begin = time.perf_counter()
        scores = evaluate(
            self.workload, self.trainer, data, self.heartbeat, self.run_spec.setup_watchdog_seconds
        )
        self.scores = scores or {}
        if scores is not None and (
            missing := [name for name in self.settings.targets if name not in scores]
        ):
            raise ValueError(
                f"compute_metrics() returned {', '.join(scores) or 'no metrics'}, but there is a"
                f" target for {', '.join(missing)}"
            )
        met = scores is not None and targets_reached(
            scores, self.settings.targets, self.settings.falling_metrics
        )
        # All other ranks wait for the scores of rank 0.
        with keep_alive(self.heartbeat, self.run_spec.setup_watchdog_seconds):
            reached = self.trainer.broadcast(float(met)) > 0.5
        self.block.evaluation_seconds += time.perf_counter() - begin
        value = eval_accuracy_value(self.scores, self.settings.targets) if self.scores else None
        self.log.event("eval_accuracy", value, **position)
        self.log.end("eval_stop", **position)
        return reached

    def _report_block(self, first_epoch: int, last_epoch: int) -> None:
        block = self.block
        rate = block.samples / block.train_seconds if block.train_seconds > 0 else 0.0
        rates = {
            unit: block.counts[unit] / max(block.train_seconds, 1e-9)
            for unit in self.workload.extra_throughput_units
        }
        seconds = {
            "train_seconds": round(block.train_seconds, 9),
            "evaluation_seconds": round(block.evaluation_seconds, 9),
            "data_wait_seconds": round(block.data_wait_seconds, 9),
        }
        stats: dict[str, Json] = {
            "throughput": rate,
            **seconds,
            "samples": block.samples,
            "loss": block.loss,
        }
        stats["data_bytes"] = block.data_bytes * self.worker.world_size
        further_scores = {
            name: value for name, value in self.scores.items() if name not in self.settings.targets
        }
        stats |= {
            **({"rates": rates} if rates else {}),
            **({"scores": further_scores} if further_scores and self.settings.targets else {}),
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
                    "elapsed_seconds": (
                        None if elapsed_seconds is None else round(elapsed_seconds, 3)
                    ),
                    "samples_per_second": rate,
                    **({"rates": rates} if rates else {}),
                    "loss": block.loss,
                    "quality": self.scores,
                    "memory_peak_bytes": self.trainer.memory_peak_bytes(),
                }
            )

    def _quality_text(self) -> str:
        targets = {
            name: target for name, target in self.settings.targets.items() if name in self.scores
        }
        text = ", ".join(
            f"{name} {self.scores[name]:.4f} (target {target})" for name, target in targets.items()
        )
        return f": {text}" if text else ""


def evaluated_again(data: DataPipeline) -> Iterator[list[Batch]]:
    """Yield the evaluation batches in an endless loop.

    Raises:
        ValueError: The data set has no evaluation batches, so the loop would never yield a batch.
    """
    while True:
        empty = True
        for batches in data.evaluation():
            empty = False
            yield batches
        if empty:
            raise ValueError("mode=inference: the dataset has no evaluation batches")


def code_of(error: BaseException) -> EndCode:
    """Return the reason code of an exception that ended a run."""
    return EndCode.DIVERGED if isinstance(error, NonFiniteLossError) else EndCode.ERROR


def one_line(error: BaseException) -> str:
    """Return the type of an exception and the first line of its message.

    If the message is a traceback, as in exceptions of MXNet, the last line is used instead.
    """
    lines = str(error).strip().splitlines()
    if lines and lines[0].startswith("Traceback "):
        lines = lines[-1:]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
