"""Settings of a run, and the defaults of a profile.

Each setting is defined once, as a field in this module. The metadata of a field contain the
setting's key on the command line and four flags. The flags define whether the setting is logged,
belongs to the experiment key, scales with the number of devices, and must match when a sweep
resumes. The log writer, log reader, tables, comparisons, resume checks, and packaging derive their
lists of settings from these fields.
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
    """Return a field of `Settings`.

    Args:
        default: Default value.
        cli_key: Key of the setting on the command line. If empty, the user cannot set the value,
            and planning derives it. Planning may replace the user's value. Packages repeat the
            user's value on their command line.
        logged: True if the log's `suite_run` record contains the setting.
        experiment_key: True if runs with different values of the setting are different experiments
            (suite.results.experiment_key).
        scales_with_devices: True if the value depends on the number of devices. The runs that a
            speedup compares may then have different values.
        must_match_on_resume: True if a resumed sweep must have the same value as the interrupted
            sweep.
        hashed: Argument `hash` of the dataclass field.
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
    """Return the names of the fields that have these flags, such as `experiment_key=True`.

    A flag that is missing in a field's metadata counts as True.
    """
    return tuple(
        item.name
        for item in fields(kind)
        if all(item.metadata.get(flag, True) is wanted for flag, wanted in flags.items())
    )


@dataclass(frozen=True)
class Defaults:
    """Defaults of a profile (`reference`, `demo`, `synthetic`) for a workload."""

    dataset: str
    """Name of the data set. The string is empty if the workload does not read data."""
    hyperparameter_set: str = ""
    """Name of the hyperparameter set.

    The string is empty if the workload has no hyperparameter sets. The user must then set the batch
    size (`batch=global:N`).
    """
    model: Mapping[str, Json] = field(default_factory=dict)
    targets: Mapping[str, float] = field(default_factory=dict)
    """Target of each metric.

    A run must reach all targets. The mapping is empty if the workload only measures throughput.
    """
    variant: str = ""
    """Description of the network for tables. The string is empty if the workload has only one
    network.
    """
    stop: str = "steps:50"
    """Value of `stop=auto` for runs without a target."""
    default_set_by_framework: Mapping[str, str] = field(default_factory=dict)
    """Name of the hyperparameter set by framework. The mapping contains only frameworks whose set
    differs from `hyperparameter_set`. Some rounds allow an optimizer only in a few frameworks.
    """

    def set_for(self, framework: str) -> str:
        """Return the hyperparameter set of a framework."""
        return self.default_set_by_framework.get(framework, self.hyperparameter_set)


@dataclass(frozen=True, kw_only=True)
class LoggedSettings:
    """Settings in a log's `suite_run` record. The field names are the keys of the record.

    If a key is missing in a log, the setting has its default value.
    """

    profile: str = setting("", cli_key="profile")
    """`reference`, `demo`, or `synthetic`. The string is empty for logs that the suite did not
    write.
    """
    workload: str = setting("", cli_key="workload")
    framework: str = setting("", cli_key="framework")
    device: str = setting("", cli_key="device")
    """`cpu` or `cuda`."""
    devices: int | None = setting(None, cli_key="gpus", scales_with_devices=True)
    """Number of devices on all nodes."""
    nodes: int | None = setting(None, cli_key="nodes", scales_with_devices=True)
    cores_per_device: int | None = setting(None)
    threads_per_device: str = setting("auto", cli_key="cpu.threads_per_device")
    """Number of threads per device, or `auto`. `auto` means one thread per core. A demo uses fewer
    threads if foreign programs use the cores (`suite_condition`).
    """
    batch_rule: str = setting("", cli_key="batch")
    """`default`, `global:N`, or `per_device:N`.

    Results with strong scaling and results with weak scaling are never in the same table row.
    """
    global_batch_size: int | None = setting(None, scales_with_devices=True)
    """Global batch size in the workload's `batch_unit`."""
    lr_scaling: str = setting("", cli_key="lr_scaling")
    """`none`, `linear`, or `sqrt`."""
    precision: str = setting("", cli_key="precision")
    """`fp32`, `tf32`, `bf16` or `fp16`."""
    transport: str = setting("auto", cli_key="transport")
    """Transport of data between GPUs.

    `no_p2p` transfers data through host memory. `network` uses only the network protocol.
    topology.json lists the available links.
    """
    linear_backend: str = setting("", cli_key="framework.linear_backend")
    """Library for linear layers: `mkl` or `onednn`.

    The string is empty if the trainer does not support a choice (`TrainerInfo.linear_backend`).
    """
    graphs: str = setting("", cli_key="framework.graphs")
    """`on` if a training step with a full batch is launched as a CUDA graph
    (`TrainerInfo.max_cuda_graph_devices`).

    The string is empty otherwise.
    """
    kernels: str = setting("", cli_key="framework.kernels")
    """`off` if the framework's standard operators replace the suite's kernels. The string is empty
    otherwise.
    """
    hyperparameter_set: str = setting("", cli_key="workload.hyperparameter_set")
    rules: str = setting("", cli_key="rules")
    """Name of the round, such as `v0.7`."""
    stop: str = setting("target")
    """`target`, `epochs:N`, `samples:N` or `steps:N`."""
    max_epochs: int | None = setting(None)
    """Number of epochs after which a run that has not reached its target ends.

    The value is None for runs of fixed length, and in logs of older suite versions.
    """
    mode: str = setting("train", cli_key="mode")
    """`train`, `forward_backward`, `forward` or `inference` (suite/worker/loop.py)."""
    timing_warmup_steps: int = setting(0, cli_key="timing.warmup_steps")
    """Number of initial steps that step times and throughput exclude."""
    timing_each: str = setting("interval", cli_key="timing.each")
    """Method of timing steps: `steps` or `interval`.

    With `steps`, each step is timed separately, with a synchronization per step. With `interval`,
    many steps are timed together.
    """
    update: str = setting("sync", cli_key="update.kind")
    """Kind of parameter update: `sync` or `async`.

    With `sync`, all devices apply the same update, which uses the sum of the gradients of all
    devices. With `async`, a parameter server applies the gradients of each device separately.
    """
    straggler_ms: int = setting(0, cli_key="update.straggler_ms")
    """Milliseconds that the device with the highest index sleeps in each of its steps."""
    dataset: str = setting("", cli_key="workload.dataset")
    variant: str = setting("")
    """Value of `Defaults.variant`."""
    targets: Mapping[str, float] = setting({}, hashed=False)
    """Target of each metric."""
    falling_metrics: tuple[str, ...] = setting((), experiment_key=False)
    """Metrics that reach their target by falling, such as a loss (`Workload.falling_metrics`).

    The log contains this setting only if the workload has such metrics.
    """
    epoch_unit: str = setting("epochs", experiment_key=False)
    """Unit in which training up to the target is counted: `epochs` or `samples`
    (`Workload.epoch_unit`).

    The log contains this setting only if the unit is not `epochs`.
    """

    @property
    def asynchronous(self) -> bool:
        """Return whether a parameter server applies the gradients of each device separately."""
        return self.update == "async"

    @property
    def to_target(self) -> bool:
        """Return True if the run ends when it reaches its target.

        The result is False for runs of fixed length and for runs that do not train.
        """
        return self.stop == "target" and self.mode == "train"


@dataclass(frozen=True, kw_only=True)
class Settings(LoggedSettings):
    """All settings that determine the computation of a run.

    No setting has the value `auto`. The settings are stored in `run.json`.
    """

    # These fields are always set before a run, but some logs do not contain them.
    if TYPE_CHECKING:
        devices: int
        nodes: int
        cores_per_device: int
        global_batch_size: int
    seed: int = setting(0, logged=False, must_match_on_resume=False)
    oversubscribe: bool = setting(False, cli_key="oversubscribe", logged=False)
    data_dir: str = setting("", logged=False, must_match_on_resume=False)
    """Folder of the prepared data set. The string is empty for `profile=synthetic`."""
    round: Mapping[str, Json] = setting({}, logged=False, must_match_on_resume=False, hashed=False)
    """Value of `Round.figures` for the round of the run. Planning sets this field."""
    model: Mapping[str, Json] = setting({}, logged=False, hashed=False)
    hyperparameters: Mapping[str, Json] = setting({}, logged=False, hashed=False)
    hyperparameter_sources: Mapping[str, str] = setting({}, logged=False, hashed=False)
    options: Mapping[str, Json] = setting({}, logged=False, hashed=False)
    """Options of the workload: all fields of the workload's `Options` except hyperparameters and
    separate settings.
    """
