"""One worker process: `python -m suite.worker.main RUN_JSON`, started by the controller or an agent. No Hydra here."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import traceback
from dataclasses import replace
from pathlib import Path

from suite.launch.children import die_with_parent

if __name__ == "__main__":
    die_with_parent()  # before imports that take long: a parent that ends during them would leave it behind

from suite.common.registry import load_trainer, load_workload
from suite.common.runspec import RunSpec, read_run
from suite.common.source_code import loaded_code
from suite.launch.base import thread_variables, worker_context_from_env
from suite.launch.private_network import check_network
from suite.machine.near import near
from suite.worker.checkpoints import load_resumed_log
from suite.worker.failure import end_of, status_of
from suite.worker.heartbeat import STACK_SIGNAL, HeartbeatWriter
from suite.worker.loop import Loop
from suite.worker.runlog import JsonLines, RunLog
from suite.worker.threads import with_threads
from workloads.api import WorkerContext


def redirect_output(path: Path) -> None:
    """Send standard output and error, also of native code, to the process's text log."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def pin(worker: WorkerContext) -> None:
    """Keep this process on its cores and the numerical libraries at that many threads, or near its GPUs; before any framework
    is imported."""
    gpus = [int(device.partition(":")[2]) for device in worker.devices if device.startswith("cuda:")]
    if gpus and (cores := near(gpus)):
        os.sched_setaffinity(0, cores)
    if worker.cores:
        os.sched_setaffinity(0, worker.cores)
        os.environ.update(thread_variables(worker.threads_per_device))


def work(run: RunSpec, worker: WorkerContext, heartbeat: HeartbeatWriter) -> None:
    """Run the loop in this process; how it ended goes into the heartbeat. Raises what the loop raises."""
    folder = Path(run.folder)
    first = worker.rank == 0
    log_path = folder / f"result_{run.run_index}.txt" if first else None
    trainer = None
    if log_path is not None and run.continues:
        earlier = load_resumed_log(run)
        log_path.write_bytes(earlier.log)
        (folder / "metrics.jsonl").write_bytes(earlier.metrics)
    with RunLog(log_path, append=bool(run.continues)) as log:
        try:
            workload = load_workload(run.settings.workload)(run.settings, run.facts)
            trainer = load_trainer(run.settings.workload, run.settings.framework)(workload, worker)
            code = _report_code(run, heartbeat)
            run = replace(run, code_digest=code)
            metrics = JsonLines(folder / "metrics.jsonl" if first else None)
            outcome = Loop(run, workload, trainer, worker, log, metrics, heartbeat).run()
            _report_code(run, heartbeat)  # it may have changed, and further modules are loaded
            heartbeat.finish(outcome.status, outcome.reason)
        finally:
            if trainer is not None and heartbeat.state.status:
                trainer.close()


def _report_code(run: RunSpec, heartbeat: HeartbeatWriter) -> str:
    """Tell the controller which code this process has imported. Returns its digest."""
    code = loaded_code(run.settings.workload, run.settings.framework)
    heartbeat.state.code_digest, heartbeat.state.code_root = code.digest, code.root
    return code.digest


def main() -> int:
    """Entry point; exit code 0 if the run came to its end, also where the target was missed."""
    run = read_run(Path(sys.argv[1])).seen_by_workers()
    worker = with_threads(worker_context_from_env(run), run.settings)
    redirect_output(Path(run.folder) / f"worker-{worker.rank}.log")
    check_network()
    faulthandler.enable()
    faulthandler.register(STACK_SIGNAL, all_threads=True)  # the controller asks where a hung process stands
    pin(worker)
    heartbeat = HeartbeatWriter(Path(run.folder), worker.rank)
    try:
        work(run, worker, heartbeat)
    except Exception as error:
        with contextlib.suppress(OSError):  # on a full disk the text log cannot take it
            traceback.print_exc()
            sys.stderr.flush()
        if not heartbeat.state.status:  # last: who reads it may look into the text log
            code, reason = end_of(error, run)
            heartbeat.finish(status_of(error), reason, code.value)
        os._exit(1)  # a framework's exit handlers may wait for peers that are gone
    return 0


if __name__ == "__main__":
    sys.exit(main())
