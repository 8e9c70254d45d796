"""Measure time and memory to prepare, open, and plan sentence pairs with WMT's counts.

    python -m benchmarks.text_pipeline [--pairs 4000000]

The benchmark generates processed text files. The lines consist of 32,313 different subwords and
have lengths like WMT's lines. Peak memory is the maximum sum of the resident set sizes of the
preparing process and its helper processes, sampled every 0.05 s. Opening the data, planning an
epoch, and making batches are timed in a new process whose files are in the page cache. `batches` is
the time to make training batches of 128 pairs for a single replica, without a training step that
consumes the batches.

The output is JSON. The output also contains the load of the machine and the CPU seconds of the
preparation. The files need about 600 bytes of disk space per pair in $TMPDIR.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

from benchmarks.measuring import PROJECT, parser_with, show
from workloads.api import WorkerContext
from workloads.common.batch_plan import buckets_by_samples
from workloads.common.randomness import bits, stream, uniform
from workloads.common.text import batches, dataset_info, prepared
from workloads.common.text.batches import Batching, TranslationData, equal_edges
from workloads.common.text.dataset import WMT16_FILES, WMT16_REFERENCES, WMT16_VOCABULARY
from workloads.common.text.vocabulary import GNMT

SUBWORDS = 32_313
EVALUATION = {"dev": 5_168, "test": 3_003}
LIMITS = {
    "prepare_seconds": 180.0,
    "prepare_memory_bytes": 4e9,
    "open_seconds": 3.0,
    "plan_seconds": 2.0,
}
DRAWN = 1 << 22
"""Length of the random sequence of subwords. Each generated line is a segment of this sequence."""
BATCHES = 3_000


def write_source(folder: Path, pairs: int) -> None:
    """Write processed text in which frequent subwords are short, as in a real vocabulary."""
    words = np.array(
        [
            f"{'abcdefgh'[number % 8] * (2 + number.bit_length() // 4)}{number}"
            for number in range(SUBWORDS)
        ]
    )
    draws = uniform(bits(stream(0, "benchmark subwords"), np.arange(DRAWN)))
    text = words[(SUBWORDS**draws).astype(np.int64) % SUBWORDS].tolist()
    for split, count in (("train", pairs), *EVALUATION.items()):
        lengths = dataset_info.synthetic_lengths(count)
        for number, side in enumerate(prepared.SIDES):
            with (folder / WMT16_FILES[split, side]).open("w", encoding="ascii") as file:
                first = number * 7_919
                for length in lengths[number].tolist():
                    first = (first + 104_729) % (DRAWN - prepared.LONGEST)
                    file.write(" ".join(text[first : first + length]) + "\n")
    (folder / WMT16_VOCABULARY).write_text("".join(f"{word}\n" for word in words), encoding="ascii")
    (folder / WMT16_REFERENCES).write_text("Ein Satz.\n" * EVALUATION["test"], encoding="ascii")


def prepare(source: Path, destination: Path) -> dict[str, float]:
    """Prepare the data in a separate process, and return its measurements."""
    words = ["data", "prepare", "wmt16-en-de", "--from", str(source), "--to", str(destination)]
    start, most = time.perf_counter(), 0
    cpu_seconds: dict[int, float] = {}
    variables = {**os.environ, "PYTHONPATH": str(PROJECT)}
    process = psutil.Popen(
        [sys.executable, "-m", "suite.cli", *words], env=variables, stdout=subprocess.DEVNULL
    )
    while process.poll() is None:
        most = max(most, _look(process, cpu_seconds))
        time.sleep(0.05)
    seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(process.returncode)
    used = sum(cpu_seconds.values())
    return {"prepare_seconds": seconds, "prepare_cpu_seconds": used, "prepare_memory_bytes": most}


def _look(parent: psutil.Process, cpu_seconds: dict[int, float]) -> int:
    """Return the resident bytes of a process and its descendants.

    Shared pages are counted once per process. The function writes the CPU seconds of each process
    to `cpu_seconds`.
    """
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in (parent, *parent.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
                times = process.cpu_times()
                cpu_seconds[process.pid] = times.user + times.system
    return total


def measure(folder: Path) -> dict[str, float]:
    """Measure opening the data, planning an epoch, and making batches."""
    start = time.perf_counter()
    found = dataset_info.load_dataset_info(folder)
    batching = Batching(GNMT, buckets_by_samples(equal_edges(50, 5), 128, 1), (256,), 64, False, 1)
    counts = batches.count(dataset_info.length_counts(found, found.train_samples), batching)
    splits = {
        split: prepared.read(folder, split, n)
        for split, n in (("train", found.train_samples), ("test", EVALUATION["test"]))
    }
    lengths = splits["train"].lengths()
    opened = time.perf_counter()
    plan = batches.plan(lengths, batching, 1, 0)
    planned = time.perf_counter()
    data = TranslationData(
        batching, lengths, splits, WorkerContext(0, 1, range(1), 1, ("cpu",)), 1, counts.steps
    )
    stream_of_batches = data.train(0, min(BATCHES, counts.steps))
    next(stream_of_batches)  # the first call plans the epoch again, so this call is not timed
    first, pairs, tokens = time.perf_counter(), 0, 0
    for (batch,) in stream_of_batches:
        pairs += batch.global_samples
        tokens += batch.global_counts["tokens"]
    seconds = time.perf_counter() - first
    return {
        "open_seconds": opened - start,
        "plan_seconds": planned - opened,
        "steps_per_epoch": len(plan),
        "fill": round(counts.fill, 4),
        "batches_pairs_per_second": round(pairs / seconds),
        "batches_tokens_per_second": round(tokens / seconds),
    }


def main() -> None:
    """Generate the files, run the benchmark, and print its results."""
    parser = parser_with(__doc__, pairs=4_000_000)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        source, destination = Path(temporary) / "from", Path(temporary) / "wmt16-en-de"
        source.mkdir()
        write_source(source, arguments.pairs)
        size = sum(path.stat().st_size for path in source.iterdir())
        result: dict[str, float] = prepare(source, destination)
        command = [sys.executable, "-m", "benchmarks.text_pipeline", "--measure", str(destination)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PROJECT)
        result |= json.loads(done.stdout)
    shown = {name: round(value, 3) for name, value in result.items()}
    show(
        "text_pipeline",
        versions={"python": platform.python_version(), "numpy": np.__version__},
        pairs=arguments.pairs,
        source_bytes=size,
        cores=len(os.sched_getaffinity(0)),
        **shown,
        limits=LIMITS,
        within_limits=all(result[name] <= limit for name, limit in LIMITS.items()),
    )


if __name__ == "__main__":
    main()
