"""Sets of logs to package: made of one log by other start times and seeds."""

import json
import re
from pathlib import Path

from suite.common.git_state import git_state
from suite.machine.topology import topology

DATA = Path(__file__).resolve().parents[2] / "data" / "logs"
COUNTS = {"resnet": 5, "ssd": 5, "maskrcnn": 5, "gnmt": 10, "transformer": 10}
_RECORD = re.compile(r":::MLLOG (\{.*\})")
HOUR_MS = 3_600_000


def derived(source, target, start_hours=0, seed=1, **values):
    """A copy of a log with another start, seed, and values of keys (`eval_accuracy=0.1`); `status` is that of run_stop."""
    lines = []
    for line in Path(source).read_text(encoding="latin-1").splitlines():
        match = _RECORD.search(line)
        if match:
            record = json.loads(match[1])
            record["time_ms"] += start_hours * HOUR_MS
            record["value"] = {"seed": seed, **values}.get(record["key"], record["value"])
            if record["key"] == "run_stop" and "status" in values:
                record["metadata"]["status"] = values["status"]
            line = f"{line[: match.start()]}:::MLLOG {json.dumps(record)}"
        lines.append(line)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(lines) + "\n", encoding="latin-1")
    return target


def log_set(folder, benchmark, count=None, source=None, **values):
    """`count` runs of a benchmark in `folder`, one a day: result_0.txt and on."""
    source = source or DATA / "0.7.0" / f"{benchmark}.txt"
    count = COUNTS[benchmark] if count is None else count
    return [
        derived(source, folder / f"result_{index}.txt", 24 * index, 100 + index, **values) for index in range(count)
    ]


SUITE_RUN = {
    "schema": 1, "workload": "ncf", "framework": "pytorch", "framework_version": "2.11.0", "profile": "reference",
    "system": "our box", "device": "cuda", "device_name": "NVIDIA Test 80GB", "devices": 2, "nodes": 1,
    "cores_per_device": 1, "batch_rule": "global:1048576", "batch_size_global": 1048576, "lr_scaling": "none",
    "precision": "fp32", "hyperparameter_set": "nvidia_v0.5", "rules": "v0.5", "clock": "v0.5", "stop": "target",
    "mode": "train", "targets": {"hr_at_10": 0.635}, "dataset": "ml-20m", "data_fingerprint": "abc", "runs_required": 100,
    "labels": [], "deviations": [], "suite_version": "0.1.0", "sample_unit": "samples",
}  # fmt: skip
"""`suite_run` of a run that could be submitted."""
RESNET = {**SUITE_RUN, "workload": "resnet50", "rules": "v0.7", "targets": {"top1": 0.759}, "batch_size_global": 3264}


def our_run(job, index, suite_run=SUITE_RUN, machine=None, source=DATA / "custom_ncf" / "ncf_mllog.txt", **values):
    """One run of ours in `job`/run_N: a log (NCF's) with `suite_run`, and the files beside it."""
    folder = job / f"run_{index}"
    log = derived(source, folder / f"result_{index}.txt", index, 100 + index, **values)
    settings = {"git_commit": git_state()["commit"] or "", **suite_run, "run_index": index}
    text = log.read_text()
    if settings["rules"] == "v0.5":  # epochs are numbered from 0; the source's from 1
        text = re.sub(r'"((?:first_)?epoch_num)": (\d+)', lambda found: f'"{found[1]}": {int(found[2]) - 1}', text)
    lines = text.splitlines()
    record = json.loads(_RECORD.search(lines[5])[1])
    lines.insert(6, ":::MLLOG " + json.dumps({**record, "key": "suite_run", "value": settings}))
    log.write_text("\n".join(lines) + "\n")
    write_beside(folder, machine)
    return log


def write_beside(folder, machine=None, dirty=False):
    """What lies beside the log of a run of ours."""
    (folder / "topology.json").write_text(json.dumps(MACHINE if machine is None else machine))
    run = {
        "hardware": {"os": "Linux-6.8-glibc2.39"},
        "versions": {"suite": "0.1.0", "torch": "2.11.0", "hydra-core": None},
        "environment": {"name": "torch", "argv_prefix": ["secret"]},
        "git": {"dirty": dirty},
        "settings": {"hyperparameter_sources": {"learning_rate": "user"}, "hyperparameters": {"learning_rate": 0.0045}},
    }
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "status.json").write_text(json.dumps({"status": "success", "reason": ""}))


MACHINE = {
    **dict.fromkeys(topology()),
    "kernel": "6.8.0",
    "cpu": {
        "model": "Test CPU 9000", "sockets": 2, "cores": 40, "threads": 80, "governor": "performance", "clock_max_mhz": 3500,
        "caches": [{"level": 1, "kind": "data", "size_bytes": 32768, "count": 40},
                   {"level": 3, "kind": "unified", "size_bytes": 50 << 20, "count": 2}],
    },
    "memory_bytes": 512 << 30,
    "numa_nodes": [{"node": 0}, {"node": 1}],
    "driver_version": "580.65",
    "cuda_driver_version": "13.0",
    "gpus": [{"device": index, "name": "NVIDIA Test 80GB", "memory_bytes": 80 << 30, "clock_max_mhz": 1980,
              "power_limit_watts": 700.0, "nvlinks_active": 18} for index in range(4)],
    "gpu_pcie": [[None if a == b else "SYS" for a in range(4)] for b in range(4)],
    "gpu_nvlink": [[None if a == b else True for a in range(4)] for b in range(4)],
}  # fmt: skip
"""A machine that is not the one that packages."""
