"""How long `suite report --html` takes for 200 runs, how large the page is, and what reading the same logs takes alone.

    python benchmarks/html_report.py [--runs 200] [--epochs 60] [--keep DIR]

The logs are generated: four workloads on 1 to 16 devices, ten runs each, with telemetry once a second. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import project  # noqa: F401 (finds testing)

from suite.machine.devices import cpu_model
from suite.results import table
from suite.results.scores import result_rows
from testing.fake_logs import write_run

WORKLOADS = ("ncf", "resnet50", "gnmt", "transformer")
DEVICES = (1, 2, 4, 8, 16)


def generate(root: Path, runs: int, epochs: int) -> None:
    """Logs with `epochs` evaluations, and telemetry of as many seconds as the run took."""
    chance = random.Random(1)
    for index in range(runs):
        workload = WORKLOADS[index % len(WORKLOADS)]
        devices = DEVICES[index // len(WORKLOADS) % len(DEVICES)]
        number = index // (len(WORKLOADS) * len(DEVICES))
        length = epochs + chance.randrange(4)
        seconds = 40.0 / devices**0.9 * chance.uniform(0.97, 1.03)
        qualities = [0.634 * (1 - 0.9 ** (epoch + 1)) for epoch in range(length - 1)] + [0.64]
        settings: dict[str, Any] = {"devices": devices, "workload": workload, "batch_size_global": 4096 * devices}
        folder = write_run(
            root, f"{workload}-{devices}", number, qualities=qualities, seconds_per_epoch=seconds, **settings
        )
        telemetry(folder / "telemetry.jsonl", int(seconds * length), devices, chance)


def telemetry(path: Path, seconds: int, devices: int, chance: random.Random) -> None:
    """One line a second, at most ten minutes."""
    lines = [json.dumps({"sensors": {}, "interval_seconds": 1.0})]
    for second in range(min(seconds, 600)):
        sample: dict[str, object] = {"seconds": second + 0.5, "run_cpu_percent": chance.uniform(40, 60)}
        sample |= {
            "gpu_percent": [chance.uniform(80, 99)] * devices,
            "gpu_power_watts": [chance.uniform(250, 300)] * devices,
        }
        lines.append(json.dumps(sample))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def measure(root: Path, page: Path) -> dict[str, object]:
    """Seconds of the command in a fresh process, and of reading and scoring alone in this one."""
    begin = time.perf_counter()
    found = result_rows(table(root))
    reading = time.perf_counter() - begin
    command = [sys.executable, "-m", "suite.cli", "report", str(root), "--html", str(page), "--to", "dgx1-article"]
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - begin
    return {
        "rows": len(found),
        "html_seconds": round(seconds, 2),
        "read_and_score_seconds": round(reading, 2),
        "ratio": round(seconds / reading, 1),
        "page_bytes": page.stat().st_size,
        "log_bytes": sum(path.stat().st_size for path in root.rglob("*") if path.is_file()),
    }


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave logs and page in this new folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        if arguments.keep is not None:
            arguments.keep.mkdir()
            root = arguments.keep
        generate(root / "logs", arguments.runs, arguments.epochs)
        result: dict[str, object] = {"benchmark": "html_report", "device": cpu_model(), "runs": arguments.runs}
        result |= measure(root / "logs", root / "page.html")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
