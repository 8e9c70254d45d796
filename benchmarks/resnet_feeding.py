"""What reading images costs: ResNet-50 fed by the pipeline against the same training on made-up batches.

    python benchmarks/resnet_feeding.py [--frameworks pytorch,tensorflow,mxnet] [--rounds 1] [--steps 8] [--precision fp32]

Full-size model, batch 32, two cores of a CPU, which the pipeline shares with training. The images are JPEGs of 500 x 375 pixels
in ImageNet's folders, made for this. Share = images/s fed over images/s on made-up batches in the same round. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import photos

from suite import registry
from suite.devices import cpu_model
from suite.source import git_state

PROJECT = Path(__file__).resolve().parent.parent
IMAGES, CLASSES, BATCH = 640, 10, 32


def make_images(folder: Path) -> None:
    """A few hundred JPEGs in ImageNet's folders."""
    for split, count in (("train", IMAGES), ("val", 50)):
        for number in range(count):
            place = folder / split / f"n{number % CLASSES:08d}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}.JPEG").write_bytes(photos.jpeg(number, 375, 500, 90))


def last_block(framework: str, precision: str, steps: int, output: Path, *extra: str) -> dict[str, float]:
    """The metrics of a run of some steps."""
    command = [
        sys.executable,
        str(PROJECT / "run_suite.py"),
        "workload=resnet50",
        f"framework={framework}",
        "device=cpu",
    ]
    command += ["cpu.cores_per_device=2", f"batch=global:{BATCH}", f"precision={precision}", f"stop=steps:{steps}"]
    subprocess.run([*command, "seed=1", f"output={output}", *extra], check=True, stdout=subprocess.DEVNULL)
    lines = next(output.glob("*/run_0/metrics.jsonl")).read_text().splitlines()
    found: dict[str, float] = json.loads(lines[-1])
    return found


def measure(framework: str, precision: str, steps: int, rounds: int, scratch: Path) -> dict[str, float]:
    """Medians over rounds."""
    made_up, fed, waits = [], [], []
    for number in range(rounds):
        folder = scratch / f"{framework}-{number}"
        made_up.append(last_block(framework, precision, steps, folder / "m", "profile=synthetic")["samples_per_second"])
        block = last_block(framework, precision, steps, folder / "f", "profile=reference")
        fed.append(block["samples_per_second"])
        waits.append(block["data_wait_seconds"] / block["train_seconds"])
        print(f"{framework} {number}: {made_up[-1]:.2f} made up, {fed[-1]:.2f} fed", file=sys.stderr)
    return {
        "made_up_images_per_second": round(statistics.median(made_up), 2),
        "fed_images_per_second": round(statistics.median(fed), 2),
        "share": round(statistics.median(one / other for one, other in zip(fed, made_up, strict=True)), 3),
        "data_wait_share": round(statistics.median(waits), 4),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frameworks", default="pytorch,tensorflow,mxnet")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["SUITE_DATA_DIR"] = str(Path(scratch) / "data")
        make_images(Path(scratch) / "images")
        registry.load_dataset("imagenet").prepare(Path(scratch) / "images", Path(scratch) / "data" / "imagenet")
        results = {
            name: measure(name, arguments.precision, arguments.steps, arguments.rounds, Path(scratch) / "logs")
            for name in arguments.frameworks.split(",")
        }
    head = {"benchmark": "resnet_feeding", "device": f"2 cores of {cpu_model()}", "batch_size_global": BATCH}
    print(json.dumps({**head, "precision": arguments.precision, "git": git_state(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
