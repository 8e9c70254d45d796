"""How long a user waits: `--cfg job`, and from the command line to `run_start`.

    python benchmarks/startup.py [--frameworks pytorch,tensorflow,mxnet] [--rounds 5]

Each is held against the time that the framework's bare import takes in a fresh process, measured in the same run. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from suite.common import registry
from suite.environments.environment import resolve
from suite.machine.devices import cpu_model
from suite.results import read

PROJECT = Path(__file__).resolve().parent.parent
MODULES = {"pytorch": "torch", "tensorflow": "tensorflow", "mxnet": "mxnet"}


def seconds_of(command: list[str]) -> float:
    """Wall-clock seconds of a command that must succeed."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def to_run_start(framework: str, rules: str, output: Path) -> float:
    """Seconds from starting run_suite.py to the log's `run_start`, one CPU device."""
    command = [sys.executable, str(PROJECT / "run_suite.py"), "workload=ncf", "profile=demo", f"framework={framework}"]
    command += ["device=cpu", f"rules={rules}", "stop=steps:1", f"output={output}"]
    begin = time.time()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log = next(output.glob("*/run_0/result_0.txt"))
    assert read(log).record is not None
    for line in log.read_text(encoding="utf-8").splitlines():
        record = json.loads(line.partition(":::MLLOG ")[2])
        if record["key"] == "run_start":
            return float(record["time_ms"]) / 1e3 - begin
    raise AssertionError(f"{log}: no run_start")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frameworks", default=",".join(MODULES))
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rounds = range(arguments.rounds)
    cfg = [sys.executable, str(PROJECT / "run_suite.py"), "workload=ncf", "profile=demo", "--cfg", "job"]
    hydra = [sys.executable, "-c", "import hydra, omegaconf"]
    result: dict[str, object] = {
        "benchmark": "startup",
        "device": cpu_model(),
        "rounds": arguments.rounds,
        "cfg_job_seconds": round(statistics.median(seconds_of(cfg) for _ in rounds), 3),
        "import_hydra_seconds": round(statistics.median(seconds_of(hydra) for _ in rounds), 3),
    }
    with tempfile.TemporaryDirectory() as scratch:
        for framework in arguments.frameworks.split(","):
            python = resolve({"name": "auto"}, registry.load_framework(framework).environments["cpu"]).python
            bare = [python, "-c", f"import {MODULES[framework]}"]
            row = {"import_seconds": round(statistics.median(seconds_of(bare) for _ in rounds), 3)}
            for rules in ("v0.5", "v0.7"):
                times = [to_run_start(framework, rules, Path(scratch) / f"{framework}-{rules}-{n}") for n in rounds]
                row[f"run_start_{rules}_seconds"] = round(statistics.median(times), 3)
            result[framework] = row
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
