"""What decides what a run computes: defaults of a profile, and the settings of a run.

A setting is written once, as a field here: its metadata say how it is typed, whether it is logged, whether runs that differ in
it are other experiments, whether a resumed sweep must agree on it. Log writer, log reader, tables, comparisons, resuming and
packaging derive their lists from these fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from workloads.api.values import Json


def setting(
    default: Any,
    *,
    cli_key: str = "",
    logged: bool = True,
    experiment_key: bool = True,
    scales_with_devices: bool = False,
    must_match_on_resume: bool = True,
    hashed: bool | None = None,
) -> Any:
    """A field of Settings.

    cli_key: the key on the command line that sets it; empty: it follows from others. Planning takes the value as it is typed,
        unless it decides on another, and packages type it again.
    logged: it stands in the log's `suite_run`.
    experiment_key: runs that differ in it are other experiments (suite.results.experiment_key).
    scales_with_devices: it follows from the number of devices, and may differ in a speedup.
    must_match_on_resume: a resumed sweep must agree on it.
    """
    metadata = {
        "cli_key": cli_key,
        "logged": logged,
        "experiment_key": experiment_key,
        "scales_with_devices": scales_with_devices,
        "must_match_on_resume": must_match_on_resume,
    }
    if isinstance(default, dict):
        return field(default_factory=dict, hash=hashed, metadata=metadata)
    return field(default=default, hash=hashed, metadata=metadata)


def field_names(kind: Any, **flags: bool) -> tuple[str, ...]:
    """Return the names of the fields with these flags, such as `experiment_key=True`. A missing flag counts as True."""
    return tuple(
        item.name
        for item in fields(kind)
        if all(item.metadata.get(flag, True) is wanted for flag, wanted in flags.items())
    )


@dataclass(frozen=True)
class Defaults:
    """What a profile (`reference`, `demo`, `synthetic`) means for a workload."""

    dataset: str
    """Empty: the workload reads no data."""
    hyperparameter_set: str = ""
    """Empty: the workload has none; the batch size must then be typed (`batch=global:N`)."""
    model: Mapping[str, Json] = field(default_factory=dict)
    targets: Mapping[str, float] = field(default_factory=dict)
    """Metric name to the value that must be reached; all must be met. Empty: the workload only measures throughput."""
    variant: str = ""
    """Which of several networks a workload computes, in words that tables show; empty where there is one."""
    stop: str = "steps:50"
    """What `stop=auto` means for a run that goes to no target."""
    default_set_by_framework: Mapping[str, str] = field(default_factory=dict)
    """Framework to its set, where that is another one: rounds list optimizers for some frameworks alone."""

    def set_for(self, framework: str) -> str:
        """The hyperparameter set of a run in a framework."""
        return self.default_set_by_framework.get(framework, self.hyperparameter_set)


@dataclass(frozen=True, kw_only=True)
class LoggedSettings:
    """The settings that stand in a log's `suite_run`, under these names. Defaults are what a log without the key means."""

    profile: str = setting("", cli_key="profile")
    """`reference`, `demo`, `synthetic`; empty: the log is not ours."""
    workload: str = setting("", cli_key="workload")
    framework: str = setting("", cli_key="framework")
    device: str = setting("", cli_key="device")
    """`cpu` or `cuda`."""
    devices: int | None = setting(None, cli_key="gpus", scales_with_devices=True)
    """Devices over all nodes."""
    nodes: int | None = setting(None, cli_key="nodes", scales_with_devices=True)
    cores_per_device: int | None = setting(None)
    threads_per_device: str = setting("auto", cli_key="cpu.threads_per_device")
    """A number; `auto`: one thread for each core, and fewer in a demo whose cores others use (`suite_condition` tells)."""
    batch_rule: str = setting("", cli_key="batch")
    """`set`, `global:N` or `per_device:N`: strong and weak scaling never share a table row."""
    global_batch_size: int | None = setting(None, scales_with_devices=True)
    """In the workload's `batch_unit`."""
    lr_scaling: str = setting("", cli_key="lr_scaling")
    """`none`, `linear`, `sqrt`, or `set` (as the hyperparameter set says)."""
    precision: str = setting("", cli_key="precision")
    """`fp32`, `tf32`, `bf16` or `fp16`."""
    link: str = setting("auto", cli_key="link")
    """`no_p2p`: GPUs were told to exchange data by way of the host, `network`: over the network's protocol alone; topology.json
    says what links there are."""
    linear_backend: str = setting("", cli_key="framework.linear_backend")
    """Library of linear layers: `mkl` or `onednn`; empty where there is nothing to choose (`TrainerInfo.linear_backend`)."""
    graphs: str = setting("", cli_key="framework.graphs")
    """`on`: the full batch's step is one CUDA graph (`TrainerInfo.max_cuda_graph_devices`); else empty."""
    kernels: str = setting("", cli_key="framework.kernels")
    """`off`: plain forms compute what kernels of the suite's own could; else empty."""
    hyperparameter_set: str = setting("", cli_key="workload.hyperparameter_set")
    rules: str = setting("", cli_key="rules")
    """Name of the round, such as `v0.7`."""
    stop: str = setting("target")
    """`target`, `epochs:N`, `samples:N` or `steps:N`."""
    max_epochs: int | None = setting(None)
    """After so many a run that has not reached its target ends; None: of a fixed length, or an older log."""
    mode: str = setting("train", cli_key="mode")
    """`train`, `forward_backward`, `forward` or `inference`: see suite/worker/loop.py."""
    timing_warmup_steps: int = setting(0, cli_key="timing.warmup_steps")
    """Steps at the start of the run that are left out of times and throughput."""
    timing_each: str = setting("interval", cli_key="timing.each")
    """`steps`: each is timed by itself, which costs a wait after it; `interval`: many at once."""
    update: str = setting("sync", cli_key="update.kind")
    """`sync`: one update by the summed gradients of all devices; `async`: one by those of each, on a server."""
    straggler_ms: int = setting(0, cli_key="update.straggler_ms")
    """Milliseconds that the last device sleeps in each of its steps."""
    dataset: str = setting("", cli_key="workload.dataset")
    variant: str = setting("")
    """`Defaults.variant`."""
    targets: Mapping[str, float] = setting({}, hashed=False)
    """Metric name to the value that must be reached."""

    @property
    def asynchronous(self) -> bool:
        """Whether each device updates by its own gradients, on a server."""
        return self.update == "async"

    @property
    def to_target(self) -> bool:
        """True if the run was to end at the target; False for fixed-length runs and those that do not train."""
        return self.stop == "target" and self.mode == "train"


@dataclass(frozen=True, kw_only=True)
class Settings(LoggedSettings):
    """Everything that decides what a run computes, fully resolved; written to `run.json`."""

    if TYPE_CHECKING:  # known before a run, though not in every log
        devices: int
        nodes: int
        cores_per_device: int
        global_batch_size: int
    seed: int = setting(0, logged=False, must_match_on_resume=False)
    oversubscribe: bool = setting(False, cli_key="oversubscribe", logged=False)
    data_dir: str = setting("", logged=False, must_match_on_resume=False)
    """Folder of the prepared data set; empty under `profile=synthetic`."""
    round: Mapping[str, Json] = setting({}, logged=False, must_match_on_resume=False, hashed=False)
    """`Round.figures`. Planning adds them."""
    model: Mapping[str, Json] = setting({}, logged=False, hashed=False)
    hyperparameters: Mapping[str, Json] = setting({}, logged=False, hashed=False)
    hyperparameter_sources: Mapping[str, str] = setting({}, logged=False, hashed=False)
    options: Mapping[str, Json] = setting({}, logged=False, hashed=False)
    """Further options of the workload: the fields of its `Options` that are no hyperparameter."""
