"""Writes checkpoints of a run, and resumes a run from a checkpoint.

The setting `checkpoint=…` is described in docs/how-to/resume_and_checkpoints.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic, perf_counter

import numpy as np

from suite.common import checkpoint_files
from suite.common.checkpoint_files import Checkpoint
from suite.common.loop_state import LoopState
from suite.common.runspec import RunSpec, labels_and_deviations
from suite.worker.evaluation import keep_alive
from suite.worker.heartbeat import HeartbeatWriter
from suite.worker.runlog import LOG_BYTES, RunLog
from workloads import files
from workloads.api import EpochSchedule, Json, Trainer, WorkerContext

MAX_STEPS = 1_000_000
"""Maximum number of steps between two checks of the clock."""


class CheckpointManager:
    """Decides in each worker when to write a checkpoint, and writes it on rank 0.

    All workers stop for a checkpoint at the same step: after whole epochs, or after a time that
    rank 0 measures. For a time, rank 0 measures the time at check steps and broadcasts the number
    of steps until the next check. Steps in between do not wait for a message.

    All workers have the same model state. A checkpoint file contains this state, the position in
    the data, and the log so far. The controller keeps the newest two files. To resume a run, the
    controller moves the newest complete file into the folder of the new attempt and writes its path
    to run.json (`resume_from`). Each worker then calls `restore` after `setup`.
    """

    def __init__(
        self,
        run: RunSpec,
        epochs: EpochSchedule,
        trainer: Trainer,
        worker: WorkerContext,
        log: RunLog,
        heartbeat: HeartbeatWriter,
    ) -> None:
        self.run_spec, self.epochs = run, epochs
        self.trainer, self.worker, self.log, self.heartbeat = trainer, worker, log, heartbeat
        every = run.checkpoint.partition(":")[2]
        self._seconds = 60.0 * int(every.removesuffix("min")) if every.endswith("min") else 0.0
        self._epochs = int(every) if every and not self._seconds else 0
        self._epochs_done = 0
        """Number of epochs that were complete at the last check."""
        self._start_count(0)

    def _start_count(self, step: int) -> None:
        """Restart the counting of epochs and time at `step`."""
        self._epochs_done = self.epochs.epoch_of(step) if step else 0
        self._written = self._checked = monotonic()
        self._checked_step, self._check_step = step, step + 1

    def next_check_step(self, stop_step: int) -> int:
        """Return the step at which training pauses to check the clock, at most `stop_step`."""
        return min(stop_step, self._check_step) if self._seconds else stop_step

    def should_save(self, step: int) -> bool:
        """Check whether to write a checkpoint after `step` steps.

        If the interval is a time, all workers must call this method (collective call).
        """
        if self._epochs:
            before, self._epochs_done = self._epochs_done, self.epochs.epoch_of(step)
            return self._epochs_done // self._epochs > before // self._epochs
        return bool(self._seconds) and step >= self._check_step and self._time_is_up(step)

    def _time_is_up(self, step: int) -> bool:
        now = monotonic()
        left = self._seconds - (now - self._written)
        step_seconds = (now - self._checked) / (step - self._checked_step)
        steps = min(
            MAX_STEPS, max(1, math.ceil((left if left > 0 else self._seconds) / step_seconds))
        )
        answer = self.trainer.broadcast(float(steps if left > 0 else -steps))
        self._checked, self._checked_step, self._check_step = now, step, step + int(abs(answer))
        self._written = self._written if answer > 0 else now
        return answer < 0

    def save(self, step: int, loop_state: LoopState, contention: Mapping[str, Json]) -> None:
        """Write a checkpoint. All workers must call this method (collective call).

        Args:
            step: Number of completed steps.
            loop_state: State of the loop, without `contention`.
            contention: This worker's measurements of CPU and GPU contention so far.
        """
        begin = perf_counter()
        self.heartbeat.update(phase="checkpoint")
        with keep_alive(self.heartbeat, self.run_spec.setup_watchdog_seconds):
            local = np.frombuffer(json.dumps(contention).encode(), np.uint8)
            gathered = self.trainer.gather({"contention": local})
            state = (
                self.trainer.state_dict()
                if gathered is not None or self.trainer.state_is_sharded
                else {}
            )
            if gathered is not None:
                of_all = tuple(
                    json.loads(np.asarray(arrays["contention"]).tobytes()) for arrays in gathered
                )
                folder = Path(self.run_spec.folder)
                metrics = folder / "metrics.jsonl"
                checkpoint = Checkpoint(
                    step,
                    state,
                    replace(loop_state, contention=of_all),
                    self.log.written(),
                    files.read_bytes(metrics, LOG_BYTES) if metrics.exists() else b"",
                )
                written = _written(folder, checkpoint)
                self.log.event(
                    "suite_checkpoint",
                    {"seconds": round(perf_counter() - begin, 6), **written},
                    step=step,
                )
            # Without this barrier, workers would wait for rank 0 inside a timed step.
            self.trainer.broadcast(0.0)

    def restore(self) -> tuple[int, LoopState]:
        """Load the trainer's state from the checkpoint of a resumed run, after `setup`.

        Returns:
            Number of completed steps, and the state of the loop.
        """
        earlier = checkpoint_files.read(_resumed_from(self.run_spec))
        self.trainer.load_state_dict(earlier.state)
        self._start_count(earlier.step)
        return earlier.step, earlier.loop

    def save_final_weights(self) -> None:
        """Write weights.npz on rank 0 after the run, if `checkpoint.final=true`.

        If the parameters are sharded, all workers must call this method (collective call).
        """
        is_first = self.worker.rank == 0
        if not self.run_spec.checkpoint_final or not (is_first or self.trainer.state_is_sharded):
            return
        weights = self.trainer.weights()
        if is_first:
            path = Path(self.run_spec.folder) / checkpoint_files.WEIGHTS
            checkpoint_files.write_arrays(path, weights)


def _written(folder: Path, checkpoint: Checkpoint) -> dict[str, Json]:
    """Write a checkpoint file, and return its size or the reason for a failure.

    The run continues even if the file cannot be written.
    """
    try:
        return {"bytes": checkpoint_files.write(folder, checkpoint)}
    except OSError as error:
        return {"bytes": 0, "failed": error.strerror or str(error)}


def _resumed_from(run: RunSpec) -> Path:
    """Return the path of the checkpoint from which a run resumes."""
    return Path(run.folder) / str(run.resume_from["checkpoint"])


def load_resumed_log(run: RunSpec) -> Checkpoint:
    """Return the checkpoint of a resumed run without the trainer's state.

    The first lines of its log are updated, because the labels and the reasons for the open division
    may differ from those of the interrupted attempt.
    """
    earlier = checkpoint_files.read(_resumed_from(run), with_state=False)
    lines = earlier.log.splitlines(keepends=True)
    return replace(earlier, log=b"".join(_updated(line, run) for line in lines))


def _updated(line: bytes, run: RunSpec) -> bytes:
    """Return a log line with the division, labels, and deviations of the resumed run."""
    prefix, _, text = line.partition(b" ")
    if b'"submission_division"' not in text and b'"suite_run"' not in text:
        return line
    event = json.loads(text)
    if event["key"] == "submission_division":
        event["value"] = run.division
    else:
        event["value"] |= labels_and_deviations(run)
    return prefix + b" " + json.dumps(event).encode() + b"\n"
