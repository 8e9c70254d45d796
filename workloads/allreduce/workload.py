"""Which buffers are summed, in which order, and what their sums must be. Framework-free; nothing is trained.

A step sums one buffer over all devices. Each size has WARMUPS steps whose numbers are looked at, then TIMED steps whose times
count; an epoch is one pass over all sizes. A sample is a byte, so the global batch is the largest buffer.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from workloads.api import (
    Array,
    ArraySpec,
    Batch,
    DataPipeline,
    DatasetInfo,
    Defaults,
    EpochSamples,
    Json,
    Round,
    Settings,
    WorkerContext,
    Workload,
    option,
)

SMALLEST, FACTOR, LARGEST = 1 << 10, 4, 1 << 30
"""Bytes: 1 KiB to 1 GiB by factors of 4 (the range of studies.md, R9; nccl-tests' own examples go from 8 B by factors of 2)."""
WARMUPS, TIMED = 5, 20
"""Steps of each size (nccl-tests' defaults: -w and -n)."""
PERIOD = 64
"""Values after which a buffer repeats itself; the smallest buffer holds four periods of fp32."""
MAX_EXACT = {"bf16": 256, "fp16": 2048}
"""Devices up to which every sum of zeros and ones is a number of the type (8 and 11 bits of mantissa)."""
BUFFERS = 4
"""Of the largest size that a device holds at once, at least: TensorFlow's operand, its pieces and their sums; MXNet's KVStore
holds two."""
EVENT = "suite_all_reduce"


@dataclass(frozen=True)
class AllReduceOptions:
    """`workload.*` on the command line: nothing but what every workload has."""

    name: str = "allreduce"
    hyperparameter_set: str = option("auto", "named set; auto: the only one")


def sizes(largest: int) -> list[int]:
    """Buffers in bytes, rising, up to `largest`."""
    listed = [SMALLEST]
    while listed[-1] * FACTOR <= largest:
        listed.append(listed[-1] * FACTOR)
    return listed


def contribution(replica: int) -> Array:
    """Zeros and ones that a device's buffer repeats, float32 (PERIOD,); other ones on every device."""
    return np.random.default_rng(replica).integers(0, 2, PERIOD).astype(np.float32)


class AllReduce(Workload):
    """Buffers of rising size, summed over all devices by the collectives that sum gradients."""

    name = "allreduce"
    mlperf_name = "allreduce"
    sample_unit = "bytes"
    batch_unit = "bytes"
    gpu_precisions = ()  # it is the type of what is summed
    Options = AllReduceOptions

    def __init__(self, settings: Settings, dataset_info: DatasetInfo) -> None:
        super().__init__(settings, dataset_info)
        self.sizes = sizes(settings.global_batch_size)

    @classmethod
    def defaults(cls, profile: str, round: Round, options: Mapping[str, Json]) -> Defaults:
        """No data, no model, no target: one pass over all sizes. Raises ValueError but for profile=synthetic."""
        if profile != "synthetic":
            raise ValueError(
                f"profile={profile}: allreduce trains nothing and reads no data; type profile=synthetic, or study=allreduce"
            )
        return Defaults("", "sizes", stop="epochs:1")

    @classmethod
    def load_dataset_info(cls, settings: Settings) -> DatasetInfo:
        """There are no data. Raises ValueError for settings under which no all-reduce would be timed."""
        if settings.devices < 2:
            raise ValueError("gpus=1: one device has nothing to sum; type gpus=2 or more")
        if settings.mode != "train":
            raise ValueError(f"mode={settings.mode}: allreduce computes no passes; leave it out")
        if settings.timing_each != "steps":
            raise ValueError(
                "workload=allreduce: each all-reduce is timed by itself; type timing=steps, or study=allreduce"
            )
        if settings.global_batch_size < SMALLEST:
            raise ValueError(
                f"batch={settings.batch_rule}: the largest buffer, in bytes; type batch=global:{SMALLEST} or more"
            )
        most = MAX_EXACT.get(settings.precision, settings.devices)
        if settings.devices > most:
            raise ValueError(
                f"precision={settings.precision}: sums over more than {most} devices are not exact and could not be checked; "
                f"type precision=fp32"
            )
        return DatasetInfo(0, 0, {}, "no data")

    @classmethod
    def activation_bytes(cls, settings: Settings) -> int:
        """Of each byte of the largest buffer: BUFFERS copies on every device."""
        return BUFFERS * settings.devices

    # -- steps ----------------------------------------------------------------------------------------------------

    @property
    def epoch_samples(self) -> EpochSamples:
        """Bytes of the buffers of one pass over all sizes."""
        return EpochSamples((WARMUPS + TIMED) * sum(self.sizes))

    @property
    def steps_per_epoch(self) -> int:
        """All steps of all sizes."""
        return (WARMUPS + TIMED) * len(self.sizes)

    def place_of_step(self, step: int) -> tuple[int, int]:
        """(bytes of the buffer, number among the steps of its size)."""
        size, number = divmod(step % self.steps_per_epoch, WARMUPS + TIMED)
        return self.sizes[size], number

    def learning_rate(self, step: int) -> float:
        return 0.0

    def shapes(self) -> Sequence[Mapping[str, ArraySpec]]:
        """`bytes` and `number` of a step, int64 (1,) each."""
        return [{name: ArraySpec((1,), "int64") for name in ("bytes", "number")}]

    def initial_weights(self, seed: int) -> Iterator[tuple[str, Array]]:
        return iter(())

    def open_data(self, worker: WorkerContext, seed: int) -> DataPipeline:
        return Steps(self, worker)

    def expected(self) -> Array:
        """What a period of every device's buffer must hold after the sum, float32 (PERIOD,)."""
        total: Array = np.stack([contribution(replica) for replica in range(self.settings.devices)]).sum(axis=0)
        return total

    def summarize_step_times(self, seconds: Sequence[float], how: str) -> Mapping[str, Json]:
        """Times of each size, warm-ups left out; bandwidths and constants follow from them (suite.results.logs.all_reduce)."""
        times_by_size: dict[int, list[float]] = {size: [] for size in self.sizes}
        for step, taken in enumerate(seconds, start=self.settings.timing_warmup_steps):
            size, number = self.place_of_step(step)
            if number >= WARMUPS:
                times_by_size[size].append(taken * 1e6)
        timed = [{"bytes": size, **_statistics(times)} for size, times in times_by_size.items() if times]
        return {EVENT: {"devices": self.settings.devices, "warmups": WARMUPS, "how": how, "sizes": timed}}


def _statistics(microseconds: Sequence[float]) -> dict[str, Json]:
    kinds: dict[str, Callable[[Sequence[float]], float]] = {
        "median": statistics.median,
        "mean": statistics.fmean,
        "minimum": min,
        "maximum": max,
    }
    return {"count": len(microseconds), **{f"{name}_us": round(kind(microseconds), 3) for name, kind in kinds.items()}}


class Steps:
    """Steps in order, the same on every device; no data are read."""

    def __init__(self, workload: AllReduce, worker: WorkerContext) -> None:
        self.workload, self.replicas = workload, len(worker.replica_ids)

    def train(self, first_step: int, stop_step: int) -> Iterator[list[Batch]]:
        """For each local replica which buffer is summed."""
        for step in range(first_step, stop_step):
            size, number = self.workload.place_of_step(step)
            arrays = {"bytes": np.array([size], np.int64), "number": np.array([number], np.int64)}
            yield [Batch(arrays, float(size), float(size), size)] * self.replicas

    def evaluation(self) -> Iterator[list[Batch]]:
        return iter(())

    def close(self) -> None:
        """Nothing is open."""
