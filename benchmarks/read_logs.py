"""Compare the speed of `suite.results.read` with that of mlperf-logging's parser.

    python -m benchmarks.read_logs [--logs 1000] [--kilobytes 50] [--rounds 3]

The suite's reader and the parser read the same files in turn, in a single process on a single core.
Half of the logs contain only log records, like the suite's logs. The other half also contain the
output of a training script between the log records, like a submitter's logs. The parser only splits
lines into records, whereas the suite's reader also interprets the records. The targets are at most
10 seconds for 1,000 logs of 50 KB, and three times the speed of the parser. The output is JSON.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from mlperf_logging.compliance_checker import mlp_parser

from benchmarks.measuring import parser_with, show
from suite.results import read

WANTED_SECONDS_PER_1000 = 10.0
WANTED_RATIO = 3.0
RULESET = "0.7.0"
START_MS = 1_700_000_000_000


def record(
    time_ms: int, key: str, value: object = None, kind: str = "POINT_IN_TIME", **metadata: object
) -> str:
    """Return a log record as a `:::MLLOG` line."""
    body = {"namespace": "", "time_ms": time_ms, "event_type": kind, "key": key, "value": value}
    return (
        ":::MLLOG "
        + json.dumps(
            body | {"metadata": {"file": "/workspace/train.py", "lineno": 342, **metadata}}
        )
        + "\n"
    )


def head(rng: random.Random) -> Iterator[str]:
    """Yield the first lines of a log: submitter and system, settings, and `run_start`."""
    identity = {
        "benchmark": "ncf",
        "org": "DEMO",
        "division": "open",
        "status": "research",
        "platform": "1xCPU",
    }
    for name, text in identity.items():
        yield record(START_MS, f"submission_{name}", text)
    yield record(START_MS + 1, "cache_clear", True)
    yield record(START_MS + 2, "init_start", None, "INTERVAL_START")
    settings = {
        "seed": rng.randrange(2**31),
        "global_batch_size": 65536,
        "opt_name": "adam",
        "opt_base_learning_rate": 0.001,
    }
    for name, value in {
        **settings,
        "train_samples": 99_308_850,
        "eval_samples": 138_493_000,
    }.items():
        yield record(START_MS + 3, name, value)
    yield record(START_MS + 900, "init_stop", None, "INTERVAL_END")
    yield record(START_MS + 901, "run_start", None, "INTERVAL_START")


def epochs(rng: random.Random, noise: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the end time and the lines of each epoch, including its evaluation.

    `noise` is the number of lines per epoch that a training script printed.
    """
    now = START_MS + 1000
    for epoch in count(1):
        accuracy, rate = 0.635 - 0.4 / epoch + rng.random() * 1e-3, rng.uniform(4e6, 5e6)
        lines = [
            record(now, "block_start", None, "INTERVAL_START", first_epoch_num=epoch, epoch_count=1)
        ]
        lines.append(record(now, "epoch_start", None, "INTERVAL_START", epoch_num=epoch))
        for step in range(noise):
            lines.append(
                f"2020-06-20 09:13:{step % 60:02d},180 Node[0] Epoch[{epoch}] Batch"
                f" [{20 * step}-{20 * step + 20}]\tSpeed: {rate * rng.uniform(0.9, 1.1):.2f}"
                f" samples/sec\tloss={rng.random():.6f}\n"
            )
        now += 21_234
        stats = {
            "throughput": rate,
            "train_seconds": 20.9,
            "evaluation_seconds": 0.31,
            "data_wait_seconds": 0.02,
            "samples": 99308850,
        }
        lines += [
            record(now, "epoch_stop", None, "INTERVAL_END", epoch_num=epoch),
            record(now, "eval_start", None, "INTERVAL_START", epoch_num=epoch),
            record(now + 300, "eval_accuracy", accuracy, epoch_num=epoch),
            record(now + 300, "eval_stop", None, "INTERVAL_END", epoch_num=epoch),
            record(now + 301, "tracked_stats", {**stats, "loss": rng.random()}, step=1516 * epoch),
            record(now + 301, "block_stop", None, "INTERVAL_END", first_epoch_num=epoch),
        ]
        yield now + 302, lines


def log_text(seed: int, size: int, noise: int) -> str:
    """Generate a log of about `size` bytes."""
    rng = random.Random(seed)
    lines = list(head(rng))
    written = sum(map(len, lines))
    for now, more in epochs(rng, noise):  # noqa: B007 - used after the loop
        lines += more
        written += sum(map(len, more))
        if written > size:
            break
    return "".join([*lines, record(now, "run_stop", None, "INTERVAL_END", status="aborted")])


def seconds_of(work: Callable[[Path], object], files: Sequence[Path]) -> float:
    """Return the wall-clock seconds in which `work` processes all files in sequence."""
    start = time.perf_counter()
    for file in files:
        work(file)
    return time.perf_counter() - start


def parse(path: Path) -> tuple[list[Any], list[Any]]:
    """Parse a file with mlperf-logging.

    Returns the log records and the lines that could not be parsed.
    """
    parsed: tuple[list[Any], list[Any]] = mlp_parser.parse_file(str(path), ruleset=RULESET)
    return parsed


def measure(files: dict[str, list[Path]], rounds: int) -> dict[str, object]:
    """Measure the suite's reader and mlperf-logging's parser in turn on both kinds of logs.

    Returns medians over the rounds.
    """
    mine: dict[str, list[float]] = {kind: [] for kind in files}
    theirs: dict[str, list[float]] = {kind: [] for kind in files}
    for _ in range(rounds):
        for kind, paths in files.items():
            mine[kind].append(seconds_of(read, paths))
            theirs[kind].append(seconds_of(parse, paths))
    totals = [sum(values) for values in zip(*mine.values(), strict=True)]
    parser_totals = [sum(values) for values in zip(*theirs.values(), strict=True)]
    reader, parser = statistics.median(totals), statistics.median(parser_totals)
    logs = sum(map(len, files.values()))
    return {
        "reader_seconds": round(reader, 3),
        "parser_seconds": round(parser, 3),
        "ratio": round(parser / reader, 2),
        "ratios_of_rounds": [round(b / a, 2) for a, b in zip(totals, parser_totals, strict=True)],
        "ratio_by_kind": {
            kind: round(statistics.median(theirs[kind]) / statistics.median(mine[kind]), 2)
            for kind in files
        },
        "meets": (
            reader <= WANTED_SECONDS_PER_1000 * logs / 1000 and parser / reader >= WANTED_RATIO
        ),
    }


def main() -> None:
    """Generate the logs, run the benchmark, and print its results.

    The benchmark also checks that the suite's reader and the parser find the same records.
    """
    parser = parser_with(__doc__, logs=1000, kilobytes=50, rounds=3)
    args = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        files: dict[str, list[Path]] = {"records alone": [], "between other lines": []}
        for index in range(args.logs):
            kind, noise = ("records alone", 0) if index % 2 else ("between other lines", 20)
            path = Path(folder, f"result_{index}.txt")
            path.write_text(log_text(index, args.kilobytes * 1000, noise), encoding="utf-8")
            files[kind].append(path)
        for paths in files.values():
            record, (lines, failed) = read(paths[0]), parse(paths[0])
            assert not record.problems, record.problems
            assert not failed, failed
            assert len(record.evaluations) == sum(line.key == "eval_accuracy" for line in lines)
        sizes = [path.stat().st_size for paths in files.values() for path in paths]
        result = measure(files, args.rounds)
    mean = round(statistics.mean(sizes) / 1000, 1)
    show(
        "read_logs",
        1,
        logs=args.logs,
        kilobytes_mean=mean,
        rounds=args.rounds,
        ruleset=RULESET,
        **result,
    )


if __name__ == "__main__":
    main()
