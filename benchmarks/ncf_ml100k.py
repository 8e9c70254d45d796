"""NCF on MovieLens-100K, the work of the MLCommons v0.5 reference script: batch 2,048, full-size layers, two cores.

    python benchmarks/ncf_ml100k.py [--frameworks pytorch,tensorflow,mxnet] [--precisions fp32,bf16] [--epochs 4]

The data set must be prepared (suite data prepare ml-100k --from u.data). Prints JSON: medians over the epochs after the
first, the quality of each epoch, and the ratio to the reference script on such a machine (79,000 training samples/s and
0.72 million scored pairs/s).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from suite.common import registry
from suite.common.git_state import git_state
from suite.machine.devices import cpu_model

PROJECT = Path(__file__).resolve().parent.parent
REFERENCE_SAMPLES, REFERENCE_PAIRS = 79_000, 720_000
USERS, CANDIDATES = 943, 1_000


def measure(framework: str, precision: str, epochs: int, output: Path) -> dict[str, object]:
    """One run of fixed length."""
    command = [sys.executable, str(PROJECT / "run_suite.py"), "workload=ncf", f"framework={framework}", "device=cpu"]
    command += ["cpu.cores_per_device=2", f"precision={precision}", "workload.dataset=ml-100k", f"stop=epochs:{epochs}"]
    subprocess.run([*command, "seed=1", f"output={output}"], check=True, stdout=subprocess.DEVNULL)
    blocks = [json.loads(line) for line in next(output.glob("*/run_0/metrics.jsonl")).read_text().splitlines()]
    samples = statistics.median(block["samples_per_second"] for block in blocks[1:])
    pairs = USERS * CANDIDATES / statistics.median(block["evaluation_seconds"] for block in blocks[1:])
    return {
        "samples_per_second": round(samples),
        "samples_to_reference_script": round(samples / REFERENCE_SAMPLES, 2),
        "scored_pairs_per_second": round(pairs),
        "pairs_to_reference_script": round(pairs / REFERENCE_PAIRS, 2),
        "hr_at_10": [round(block["quality"]["hr_at_10"], 4) for block in blocks],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frameworks", default="pytorch,tensorflow,mxnet")
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--epochs", type=int, default=4)
    arguments = parser.parse_args()
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for framework in arguments.frameworks.split(","):
            for precision in arguments.precisions.split(","):
                if precision in registry.load_workload("ncf").precisions[framework]:
                    key = f"{framework} {precision}"
                    results[key] = measure(
                        framework, precision, arguments.epochs, Path(scratch) / key.replace(" ", "-")
                    )
    head = {"benchmark": "ncf_ml100k", "device": f"2 cores of {cpu_model()}", "batch_size_global": 2048}
    print(json.dumps({**head, "git": git_state(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
