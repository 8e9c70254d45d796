"""Compare the suite's all-reduce bandwidth with that of a plain gloo program.

    python -m benchmarks.allreduce [--bytes 67108864] [--rounds 7]

The suite and the plain program alternate, and each uses two processes with one core each. The
output is JSON with the median all-reduce time of both programs, and the ratio of the two bandwidths
at the size --bytes. The plain program is benchmarks/bare/allreduce_gloo.py. The suite's run also
measures all smaller sizes, which this benchmark ignores.

Every process of both programs runs in a separate session, as in the suite. On a busy machine, Linux
divides the cores between sessions (autogroup). Two processes that wait for each other are then
several times slower in separate sessions than in a shared session.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measuring import (
    PROJECT,
    children_cpu_seconds,
    environment,
    parser_with,
    run_suite,
    show,
)
from suite.launch.network import free_ports
from suite.machine.devices import cpu_cores
from suite.results.logs.all_reduce import bus_bandwidth
from suite.results.logs.reader import read

DEVICES = 2


def suite_seconds(size: int, output: Path) -> float:
    """Return the median seconds of the suite's all-reduces of the given size."""
    words = [
        "workload=allreduce",
        "profile=synthetic",
        "timing=steps",
        "device=cpu",
        f"gpus={DEVICES}",
    ]
    run_suite([*words, f"batch=global:{size}"], output)
    sums = read(next(output.glob("*/run_0/result_0.txt"))).all_reduce
    assert sums is not None
    return next(row.median_seconds for row in sums.sizes if row.size_bytes == size)


def bare_seconds(size: int) -> float:
    """Return the median seconds of the plain program's all-reduces of the given size."""
    (port,), cores, python = free_ports(1), cpu_cores(), environment("pytorch")
    arguments = [map(str, (rank, DEVICES, port, size, cores[rank])) for rank in range(DEVICES)]
    commands = [
        python.command("-m", "benchmarks.bare.allreduce_gloo", *of_rank) for of_rank in arguments
    ]
    programs = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=PROJECT, start_new_session=True
        )
        for command in commands
    ]
    outputs = [program.communicate()[0] for program in programs]
    if any(program.returncode for program in programs):
        raise SystemExit("the plain program failed")
    return float(json.loads(outputs[0].strip().splitlines()[-1])["median_seconds"])


def main() -> None:
    """Run the benchmark and print its results."""
    parser = parser_with(__doc__, bytes=64 << 20, rounds=7)
    arguments = parser.parse_args()
    suite, bare = [], []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(arguments.rounds):
            suite.append(suite_seconds(arguments.bytes, Path(scratch, str(number))))
            bare.append(bare_seconds(arguments.bytes))
            print(
                f"{number}: suite {suite[-1] * 1e3:.2f} bare {bare[-1] * 1e3:.2f} ms",
                file=sys.stderr,
            )
    medians = [statistics.median(times) for times in (suite, bare)]
    rates = [
        round(bus_bandwidth(arguments.bytes, seconds, DEVICES) / 1e9, 4) for seconds in medians
    ]
    show(
        "allreduce",
        bytes=arguments.bytes, devices=DEVICES, rounds=arguments.rounds,
        suite_bus_gb_per_second=rates[0], bare_bus_gb_per_second=rates[1],
        ratio=round(medians[1] / medians[0], 4),
        ratios_of_rounds=[round(b / a, 4) for a, b in zip(suite, bare, strict=True)],
        cpu_seconds=round(children_cpu_seconds(), 1),
    )  # fmt: skip


if __name__ == "__main__":
    main()
