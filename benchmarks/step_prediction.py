"""Compare the step time that `suite scaling` predicts with the measured step time.

    python -m benchmarks.step_prediction [--workloads ncf,resnet50] [--framework pytorch]
        [--rounds 5] [--link loopback] [--beside] [--several nodes=2 …]

The prediction for two devices is based on measured steps on a single device and on measured
all-reduces. The two devices are CPU devices with one core each. Each round runs all-reduces on two
devices, and a demo on a single device with two batch sizes. The step times at the two batch sizes
determine the model's parameters t0 and c. Each round also runs the same demo on two devices with a
batch size between these two batch sizes. Predicted and measured step times are medians over rounds.

`--link` is the name of the link between the devices in the output. `--several` sets overrides for
every run on two devices, for example to distribute the run over two hosts. With `--beside`, every
single-device measurement runs the demo twice at the same time, on separate cores, and uses the
longer step time. The parameters t0 and c then include the contention for memory and other load. The
output is JSON.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measuring import children_cpu_seconds, parser_with, run_suite, show
from suite.machine.devices import cpu_cores
from suite.results.logs.reader import read
from suite.results.logs.record import RunRecord
from suite.results.predict.fits import LinkFit, fit_link
from suite.results.predict.step import fit_step, step_time
from suite.results.predict.systems import Interconnect, System

DEVICES = 2
LIMIT = 0.15
"""Maximum relative error of a predicted step time."""


@dataclass(frozen=True)
class Demo:
    """Settings of a demo: samples per device for fit and prediction, and number of steps."""

    batches: tuple[int, int]
    between: int
    steps: int


DEMOS = {"ncf": Demo((2_048, 8_192), 4_096, 600), "resnet50": Demo((8, 32), 16, 120)}


class Runs:
    """Runs the suite repeatedly. Each run has a separate folder."""

    def __init__(
        self, folder: Path, framework: str, several: Sequence[str], in_pairs: bool
    ) -> None:
        self.folder, self.framework, self.several, self.count = folder, framework, several, 0
        self.in_pairs = in_pairs

    def record(self, devices: int, *words: str) -> RunRecord:
        """Run the suite once, and return the parsed log."""
        (found,) = self.records(devices, [()], *words)
        return found

    def records(
        self, devices: int, prefixes: Sequence[Sequence[str]], *words: str
    ) -> list[RunRecord]:
        """Run the suite once per command prefix, in parallel, and return the parsed logs."""
        first, self.count = self.count, self.count + len(prefixes)
        outputs = [self.folder / str(first + number) for number in range(len(prefixes))]
        overrides = [
            f"framework={self.framework}",
            "device=cpu",
            "seed=1",
            f"gpus={devices}",
            *words,
        ]
        overrides += self.several if devices > 1 else ()
        with ThreadPoolExecutor(len(prefixes)) as pool:
            list(
                pool.map(
                    lambda output, prefix: run_suite(overrides, output, prefix), outputs, prefixes
                )
            )
        return [read(next(output.glob("*/run_0/result_0.txt"))) for output in outputs]

    def step(self, workload: str, devices: int, batch: int) -> tuple[float, RunRecord]:
        """Return the seconds of a step with `batch` samples per device, and the parsed log.

        The seconds of a step do not include warm-up and evaluation.
        """
        words = (
            f"workload={workload}",
            "profile=demo",
            f"batch=per_device:{batch}",
            "timing.warmup_steps=10",
        )
        cores = cpu_cores()[:DEVICES] if self.in_pairs and devices == 1 else []
        prefixes: list[tuple[str, ...]] = [("taskset", "-c", str(core)) for core in cores] or [()]
        records = self.records(devices, prefixes, *words, f"stop=steps:{DEMOS[workload].steps}")
        return max(_step_seconds(record, batch * devices) for record in records), records[0]

    def link(self) -> LinkFit:
        """Fit the link's bandwidth and latency to measured all-reduces of up to 16 MiB."""
        sums = self.record(
            DEVICES,
            "workload=allreduce",
            "profile=synthetic",
            "timing=steps",
            f"batch=global:{16 << 20}",
        )
        assert sums.all_reduce is not None
        fit = fit_link([sums.all_reduce])
        assert fit is not None, "larger buffers take no longer"
        return fit


def _step_seconds(record: RunRecord, batch_global: int) -> float:
    blocks = [block for block in record.throughput if block.samples and block.train_seconds]
    steps = sum(block.samples or 0.0 for block in blocks) / batch_global
    return sum(block.train_seconds or 0.0 for block in blocks) / steps


def predicted_and_measured(runs: Runs, workload: str, fit: LinkFit) -> tuple[float, float]:
    """Return the predicted and the measured seconds of a step on two devices."""
    demo = DEMOS[workload]
    cost = fit_step([(batch, runs.step(workload, 1, batch)[0]) for batch in demo.batches])
    seconds, record = runs.step(workload, DEVICES, demo.between)
    assert record.gradients is not None
    system = System(
        "measured", "", DEVICES, Interconnect(fit.bytes_per_second, fit.alpha_seconds), None
    )
    # The prediction assumes that communication does not overlap with computation (overlap 0),
    # because the cores that compute also transfer the bytes.
    return step_time(cost, demo.between, DEVICES, record.gradients, system, 0.0).seconds, seconds


def main() -> None:
    """Run the benchmark and print its results."""
    parser = parser_with(
        __doc__, workloads=",".join(DEMOS), framework="pytorch", rounds=5, link="loopback"
    )
    parser.add_argument("--several", nargs="*", default=[])
    parser.add_argument("--beside", dest="in_pairs", action="store_true")
    arguments = parser.parse_args()
    pairs: dict[str, list[tuple[float, float]]] = {
        name: [] for name in arguments.workloads.split(",")
    }
    fits = []
    with tempfile.TemporaryDirectory() as scratch:
        runs = Runs(Path(scratch), arguments.framework, arguments.several, arguments.in_pairs)
        for number in range(arguments.rounds):
            fits.append(runs.link())
            for workload, found in pairs.items():
                found.append(predicted_and_measured(runs, workload, fits[-1]))
                times = "predicted {:.2f} measured {:.2f} ms".format(
                    *(seconds * 1e3 for seconds in found[-1])
                )
                print(f"{number} {workload}: {times}", file=sys.stderr)
    show("step_prediction", **_figures(arguments, fits, pairs))


def _figures(
    arguments: argparse.Namespace,
    fits: Sequence[LinkFit],
    pairs: dict[str, list[tuple[float, float]]],
) -> dict[str, object]:
    results = []
    for workload, found in pairs.items():
        predicted, measured = (statistics.median(times) for times in zip(*found, strict=True))
        error = predicted / measured - 1.0
        results.append({
            "workload": workload,
            "predicted_ms": round(predicted * 1e3, 3), "measured_ms": round(measured * 1e3, 3),
            "error": round(error, 4), "within_limit": abs(error) <= LIMIT,
            "errors_of_rounds": [
                round(predicted / measured - 1.0, 4) for predicted, measured in found
            ],
        })  # fmt: skip
    return {
        "link": arguments.link, "framework": arguments.framework,
        "beside": arguments.in_pairs, "rounds": arguments.rounds, "limit": LIMIT,
        "alpha_us": round(statistics.median(fit.alpha_seconds for fit in fits) * 1e6, 2),
        "gb_per_second": round(statistics.median(fit.bytes_per_second for fit in fits) / 1e9, 4),
        "cpu_seconds": round(children_cpu_seconds(), 1), "results": results,
    }  # fmt: skip


if __name__ == "__main__":
    main()
