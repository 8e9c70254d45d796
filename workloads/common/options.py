"""Options that several workloads have, as dataclasses that their own `Options` inherit from."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.api import WorkloadOptions, option


@dataclass(frozen=True, kw_only=True)
class DataThreadsOptions(WorkloadOptions):
    """Of every workload whose batches are made by threads."""

    data_threads: int = option(
        0, "threads per process that make batches; 0: what suits the workload", minimum=0, key="data.threads"
    )
