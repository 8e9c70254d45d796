"""Log sets for packages: copies of one log with different start times and seeds."""

import functools
import itertools
import json
import random
import re
import tempfile
from dataclasses import replace
from pathlib import Path

from suite.catalog.sets import named_sets
from suite.common.git_state import git_state
from suite.machine.topology import topology
from tests.workloads import rules_page
from tests.workloads.closed_logs import write_log

DATA = Path(__file__).resolve().parents[2] / "data" / "logs"
COUNTS = {"resnet": 5, "ssd": 5, "maskrcnn": 5, "gnmt": 10, "transformer": 10}
_RECORD = re.compile(r":::MLLOG (\{.*\})")
HOUR_MS = 3_600_000
JITTER_MS = 200
"""Largest difference between runs in an interval between two log lines."""
WORKLOADS = [kind.name for kind in rules_page.WORKLOADS]


def derived(source, target, start_hours=0, seed=1, jitter_ms=0, **values):
    """Write a copy of a log with a different start, a different seed, and changed values of keys.

    `eval_accuracy=0.1` changes the value of a key. `status` is the status of run_stop.

    Each interval between two lines is up to `jitter_ms` longer than in the source, as in a separate
    run. With `jitter_ms=0` the log is a copy of the same run.
    """
    lines, delay_ms, draw = [], 0, random.Random(f"{start_hours} {seed}")
    for line in Path(source).read_text(encoding="latin-1").splitlines():
        match = _RECORD.search(line)
        if match:
            record = json.loads(match[1])
            delay_ms += draw.randint(0, jitter_ms)
            record["time_ms"] += round(start_hours * HOUR_MS) + delay_ms
            record["value"] = {"seed": seed, **values}.get(record["key"], record["value"])
            if record["key"] == "run_stop" and "status" in values:
                record["metadata"]["status"] = values["status"]
            line = f"{line[: match.start()]}:::MLLOG {json.dumps(record)}"
        lines.append(line)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n", encoding="latin-1")
    return target


def log_set(folder, benchmark, count=None, source=None, **values):
    """Write `count` runs of a benchmark into `folder`, one per day, from result_0.txt."""
    source = source or DATA / "0.7.0" / f"{benchmark}.txt"
    count = COUNTS[benchmark] if count is None else count
    values = {"jitter_ms": JITTER_MS, **values}
    return [
        derived(source, folder / f"result_{n}.txt", 24 * n, 100 + n, **values) for n in range(count)
    ]


NVIDIA_SET = "nvidia_v0.5"


@functools.cache
def written(name, has_all_epochs=False):
    """Return the records of a closed run of this suite, as the suite's log writer logs them.

    The run belongs to the round that packages accept, and is ten minutes long. It reaches the
    target in its first evaluation, or with `has_all_epochs` in the last evaluation before
    `max_epochs`.
    """
    kind = next(kind for kind in rules_page.WORKLOADS if kind.name == name)
    settings = rules_page.default_settings(kind, "v0.5" if name == "ncf" else "v0.7", "pytorch")
    if name == "ncf":  # the published set, selected by its batch size
        values = {
            key: item.value
            for key, item in named_sets(kind)[NVIDIA_SET].items()
            if key != "lr_scaling"
        }
        batch = values.pop("global_batch_size")
        set_settings = {
            "hyperparameter_set": NVIDIA_SET,
            "hyperparameters": values,
            "max_epochs": values["max_epochs"],
        }
        settings = replace(
            settings, global_batch_size=batch, batch_rule=f"global:{batch}", **set_settings
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "result_0.txt")
        workload = kind(replace(settings, devices=2), rules_page.PUBLISHED[kind])
        last_step = workload.epochs.start(workload.settings.max_epochs)
        steps = itertools.takewhile(lambda step: step <= last_step, workload.evaluation_steps())
        write_log(path, workload, len(list(steps)) if has_all_epochs else 1)
        records = [
            json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text().splitlines()
        ]
    records[-1]["time_ms"] += HOUR_MS // 6  # run_stop is the last record
    names = {"submission_org": "EXAMPLE_ORG", "submission_platform": "1xEXAMPLE"}
    return [{**record, "value": names.get(record["key"], record["value"])} for record in records]


def missed_run(job, index, name="ncf", **values):
    """Write a run of NCF that trained to its last epoch and missed the target."""
    return our_run(
        job, index, name, has_all_epochs=True, eval_accuracy=0.6, status="aborted", **values
    )


def our_run(
    job, index, name="ncf", machine=None, suite_run=(), dirty=False, has_all_epochs=False, **values
):
    """Write a run of this suite into `job`/run_N: its log and the files next to the log.

    `suite_run` changes settings of the log's `suite_run` line, and `values` change the values of
    keys.
    """
    folder = job / f"run_{index}"
    (run_settings,) = (
        record["value"] for record in written(name, has_all_epochs) if record["key"] == "suite_run"
    )
    machine_settings = {
        "system": "our box",
        "device_name": "NVIDIA Test 80GB",
        "framework_version": "2.11.0",
    }
    machine_settings["suite_version"] = "0.1.0"
    run_settings = {
        **run_settings,
        **machine_settings,
        "git_commit": git_state()["commit"] or "",
        "run_index": index,
        **dict(suite_run),
    }
    source = "".join(f":::MLLOG {json.dumps(record)}\n" for record in written(name, has_all_epochs))
    log = folder / f"result_{index}.txt"
    folder.mkdir(parents=True, exist_ok=True)
    log.write_text(source)
    hours = 200 * WORKLOADS.index(name) + index  # Runs on the machine do not overlap.
    derived(log, log, hours, 100 + index, JITTER_MS, suite_run=run_settings, **values)
    write_run_files(folder, machine, dirty, run_settings["hyperparameters"])
    return log


def write_run_files(folder, machine=None, dirty=False, hyperparameters=None):
    (folder / "topology.json").write_text(json.dumps(MACHINE if machine is None else machine))
    run = {
        "hardware": {"os": "Linux-6.8-glibc2.39"},
        "versions": {"suite": "0.1.0", "torch": "2.11.0", "hydra-core": None},
        "environment": {"name": "torch", "command_prefix": ["secret"]},
        "git": {"dirty": dirty},
        "settings": {
            "hyperparameter_sources": {"learning_rate": "user"},
            "hyperparameters": hyperparameters or {"learning_rate": 0.0045},
        },
    }
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "status.json").write_text(json.dumps({"status": "success", "reason": ""}))


MACHINE = {
    **dict.fromkeys(topology()),
    "kernel": "6.8.0",
    "cpu": {
        "model": "Test CPU 9000", "sockets": 2, "cores": 40, "threads": 80,
        "governor": "performance", "clock_max_mhz": 3500,
        "caches": [{"level": 1, "kind": "data", "size_bytes": 32768, "count": 40},
                   {"level": 3, "kind": "unified", "size_bytes": 50 << 20, "count": 2}],
    },
    "memory_bytes": 512 << 30,
    "numa_nodes": [{"node": 0}, {"node": 1}],
    "driver_version": "580.65",
    "cuda_driver_version": "13.0",
    "gpus": [{"device": index, "name": "NVIDIA Test 80GB", "memory_bytes": 80 << 30,
              "clock_max_mhz": 1980, "power_limit_watts": 700.0, "nvlinks_active": 18}
             for index in range(4)],
    "gpu_pcie": [[None if a == b else "SYS" for a in range(4)] for b in range(4)],
    "gpu_nvlink": [[None if a == b else True for a in range(4)] for b in range(4)],
}  # fmt: skip
"""A machine that differs from the machine that creates the package."""
