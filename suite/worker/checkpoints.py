"""When a run writes a checkpoint, and how it goes on from one (`checkpoint=…`, docs/checkpoints.md).

All processes stop for one at the same step: after whole epochs, or where process 0's clock says so. It tells the others some
steps ahead when to look at it next, so that no step waits for a question. Process 0 writes; the state is the same in all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from time import monotonic, perf_counter

import numpy as np

from suite.common import checkpoints
from suite.common.checkpoints import Checkpoint
from suite.common.runspec import RunSpec, labels_and_deviations
from suite.worker.evaluation import alive
from suite.worker.heartbeat import HeartbeatWriter
from suite.worker.runlog import LOG_BYTES, RunLog
from workloads import files
from workloads.api import Epochs, Json, Trainer, WorkerContext

MAX_STEPS = 1_000_000
"""Between two looks at the clock."""


class CheckpointManager:
    """Of one process."""

    def __init__(
        self,
        run: RunSpec,
        epochs: Epochs,
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
        """At the last look."""
        self._begin(0)

    def _begin(self, step: int) -> None:
        """Count from here."""
        self._epochs_done = self.epochs.of_step(step) if step else 0
        self._written = self._looked = monotonic()
        self._looked_step, self._look_step = step, step + 1

    def cut(self, stop_step: int) -> int:
        """Where a stretch of steps that would end at `stop_step` is left, to look at the clock."""
        return min(stop_step, self._look_step) if self._seconds else stop_step

    def due(self, step: int) -> bool:
        """Whether to write one now, with `step` steps done. By the clock it is a collective call."""
        if self._epochs:
            before, self._epochs_done = self._epochs_done, self.epochs.of_step(step)
            return self._epochs_done // self._epochs > before // self._epochs
        return bool(self._seconds) and step >= self._look_step and self._time_is_up(step)

    def _time_is_up(self, step: int) -> bool:
        now = monotonic()
        left = self._seconds - (now - self._written)
        step_seconds = (now - self._looked) / (step - self._looked_step)
        steps = min(MAX_STEPS, max(1, math.ceil((left if left > 0 else self._seconds) / step_seconds)))
        answer = self.trainer.broadcast(float(steps if left > 0 else -steps))
        self._looked, self._looked_step, self._look_step = now, step, step + int(abs(answer))
        self._written = self._written if answer > 0 else now
        return answer < 0

    def write(self, step: int, known: Mapping[str, Json], contention: Mapping[str, Json]) -> None:
        """Collective. `known`: what the loop goes on with; `contention`: this process's so far."""
        begin = perf_counter()
        self.heartbeat.update(phase="checkpoint")
        with alive(self.heartbeat, self.run_spec.setup_watchdog_seconds):
            own = np.frombuffer(json.dumps(contention).encode(), np.uint8)
            gathered = self.trainer.gather({"contention": own})
            if gathered is not None:
                of_all = [json.loads(np.asarray(one["contention"]).tobytes()) for one in gathered]
                folder = Path(self.run_spec.folder)
                metrics = folder / "metrics.jsonl"
                checkpoint = Checkpoint(
                    step,
                    self.trainer.state(),
                    {**known, "contention": of_all},
                    self.log.written(),
                    files.read_bytes(metrics, LOG_BYTES) if metrics.exists() else b"",
                )
                written = _written(folder, checkpoint)
                self.log.event("suite_checkpoint", {"seconds": round(perf_counter() - begin, 6), **written}, step=step)
            self.trainer.broadcast(0.0)  # nobody waits for the others inside a step, where it would be timed

    def go_on(self) -> tuple[int, Mapping[str, Json]]:
        """After `setup` of a run that continues another: load the trainer's state; (steps done, what the loop knew then)."""
        earlier = checkpoints.read(_gone_on_from(self.run_spec))
        self.trainer.load_state(earlier.state)
        self._begin(earlier.step)
        return earlier.step, earlier.loop


def _written(folder: Path, checkpoint: Checkpoint) -> dict[str, Json]:
    """Its bytes, or why it could not be written: a run does not end of it, and the one before is there."""
    try:
        return {"bytes": checkpoints.write(folder, checkpoint)}
    except OSError as error:
        return {"bytes": 0, "failed": error.strerror or str(error)}


def _gone_on_from(run: RunSpec) -> Path:
    return Path(run.folder) / str(run.continues["checkpoint"])


def begun(run: RunSpec) -> Checkpoint:
    """What a run that goes on has so far but the trainer's state; its log says what it has become: an open run, labelled so."""
    earlier = checkpoints.read(_gone_on_from(run), with_state=False)
    lines = earlier.log.splitlines(keepends=True)
    return replace(earlier, log=b"".join(_relabelled(line, run) for line in lines))


def _relabelled(line: bytes, run: RunSpec) -> bytes:
    prefix, _, text = line.partition(b" ")
    if b'"submission_division"' not in text and b'"suite_run"' not in text:
        return line
    event = json.loads(text)
    if event["key"] == "submission_division":
        event["value"] = run.division
    else:
        event["value"] |= labels_and_deviations(run)
    return prefix + b" " + json.dumps(event).encode() + b"\n"
