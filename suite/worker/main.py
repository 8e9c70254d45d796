"""Entry point of a worker process: `python -m suite.worker.main RUN_JSON`.

The controller or an agent starts the worker. The module must not import Hydra.
"""

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
    # This call precedes slow imports, so that this process also ends if its parent ends during the
    # imports.
    die_with_parent()

from suite.common.registry import load_trainer, load_workload
from suite.common.runspec import RunSpec, read_run
from suite.common.source_code import loaded_code
from suite.launch.base import thread_variables, worker_context_from_env
from suite.launch.private_network import check_network
from suite.machine.gpu_cores import cores_near_gpus
from suite.worker.checkpoint_manager import load_resumed_log
from suite.worker.failure import end_of, status_of
from suite.worker.heartbeat import STACK_SIGNAL, HeartbeatWriter
from suite.worker.loop import Loop
from suite.worker.runlog import JsonLines, RunLog
from suite.worker.threads import resolve_thread_count
from workloads.api import WorkerContext


def redirect_output(path: Path) -> None:
    """Append standard output and standard error to the text log at `path`.

    Output of native code, such as C libraries, is also redirected.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def pin_to_cores(worker: WorkerContext) -> None:
    """Restrict this process to the cores of its devices, or to the cores near its GPUs.

    If the devices are CPU cores, the thread count of the numerical libraries is also set through
    environment variables. The function must be called before a framework is imported.
    """
    gpus = [
        int(device.partition(":")[2]) for device in worker.devices if device.startswith("cuda:")
    ]
    if gpus and (cores := cores_near_gpus(gpus)):
        os.sched_setaffinity(0, cores)
    if worker.cores:
        os.sched_setaffinity(0, worker.cores)
        os.environ.update(thread_variables(worker.threads_per_device))


def work(run: RunSpec, worker: WorkerContext, heartbeat: HeartbeatWriter) -> None:
    """Run the training loop in this process, and write the outcome to the heartbeat.

    Exceptions of the training loop propagate.

    Args:
        run: The run.
        worker: Rank, world size, and devices of this process.
        heartbeat: The heartbeat of this process.
    """
    folder = Path(run.folder)
    first = worker.rank == 0
    log_path = folder / f"result_{run.run_index}.txt" if first else None
    trainer = None
    if log_path is not None and run.resume_from:
        earlier = load_resumed_log(run)
        log_path.write_bytes(earlier.log)
        (folder / "metrics.jsonl").write_bytes(earlier.metrics)
    with RunLog(log_path, append=bool(run.resume_from)) as log:
        try:
            workload = load_workload(run.settings.workload)(run.settings, run.dataset_info)
            trainer = load_trainer(run.settings.workload, run.settings.framework)(workload, worker)
            code = _report_code(run, heartbeat)
            run = replace(run, code_digest=code)
            metrics = JsonLines(folder / "metrics.jsonl" if first else None)
            outcome = Loop(run, workload, trainer, worker, log, metrics, heartbeat).run()
            # The digest is reported again, because the code may have changed and more modules have
            # been imported.
            _report_code(run, heartbeat)
            heartbeat.finish(outcome.status, outcome.reason)
        finally:
            if trainer is not None and heartbeat.state.status:
                trainer.close()


def _report_code(run: RunSpec, heartbeat: HeartbeatWriter) -> str:
    """Report the digest of the imported code in the heartbeat, and return the digest."""
    code = loaded_code(run.settings.workload, run.settings.framework)
    heartbeat.state.code_digest, heartbeat.state.code_root = code.digest, code.root
    return code.digest


def main() -> int:
    """Run a worker process and return its exit code.

    The exit code is 0 if the run trained to its end, even if the run missed its target.
    """
    run = read_run(Path(sys.argv[1])).seen_by_workers()
    worker = resolve_thread_count(worker_context_from_env(run), run.settings)
    redirect_output(Path(run.folder) / f"worker-{worker.rank}.log")
    check_network()
    faulthandler.enable()
    # The controller sends this signal to get the stacks of a hung process.
    faulthandler.register(STACK_SIGNAL, all_threads=True)
    pin_to_cores(worker)
    heartbeat = HeartbeatWriter(Path(run.folder), worker.rank)
    try:
        work(run, worker, heartbeat)
    except Exception as error:
        with contextlib.suppress(OSError):  # the text log cannot be written if the disk is full
            traceback.print_exc()
            sys.stderr.flush()
        # The text log is written before the heartbeat, because a reader of the heartbeat may open
        # the text log.
        if not heartbeat.state.status:
            code, reason = end_of(error, run)
            heartbeat.finish(status_of(error), reason, code.value)
        os._exit(1)  # exit handlers of a framework may wait for other ranks that no longer exist
    return 0


if __name__ == "__main__":
    sys.exit(main())
