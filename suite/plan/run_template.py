"""Build a job from a partial job whose environment and data set exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from suite import __version__
from suite.common.git_state import git_state
from suite.common.labels import Label, LabelKind, profile_label
from suite.common.run_config import RunConfig
from suite.common.runspec import RunSpec
from suite.common.source_code import code_deviations, expected_digest
from suite.common.study_file import StudyCell
from suite.launch.hosts import AvailableHost, assign_devices
from suite.machine import devices
from suite.machine.visible import NULL_DEVICE
from suite.plan.capacity import check_inputs
from suite.plan.device_choice import visible_gpus
from suite.plan.job import Job, PartialJob, division_of
from suite.plan.validate_workload import check_workload
from workloads.api import DatasetInfo, Settings, Workload


def make_job(
    draft: PartialJob,
    config: RunConfig,
    name: str,
    output: Path,
    cell: StudyCell | None,
    overrides: Sequence[str],
) -> Job:
    """Build a job from a partial job whose environment and data set exist.

    Args:
        draft: The partial job. `environment` and `dataset_info` must not be None.
        config: The composed configuration of the job.
        name: Name of the job and of its folder.
        output: Folder in which the job folder is created.
        cell: The study cell to which the job belongs.
        overrides: Command-line overrides that repeat the job.

    Raises:
        ValueError: The settings are incompatible with the data set, or the batches do not fit into
            memory.
    """
    workload, framework, settings, env = (
        draft.workload,
        draft.framework,
        draft.settings,
        draft.environment,
    )
    dataset_info = draft.dataset_info
    assert env is not None
    assert dataset_info is not None
    of_run = workload(settings, dataset_info)
    check_workload(of_run)
    check_inputs(of_run, draft.hosts)
    fixed_labels, cores = _labels(settings, dataset_info, draft.hosts)
    deviations = draft.deviations(of_run) or code_deviations(workload.name, framework.name)
    installed = {name: version for name, version in draft.versions.items() if version is not None}
    versions = {"suite": __version__, **installed}
    framework_version = next(
        (versions[name] for name in framework.packages if name in versions), "unknown"
    )
    hardware = _hardware(draft.hosts)
    template = RunSpec(
        run_index=0,
        runs_required=workload.runs_required,
        folder="",
        settings=settings,
        dataset_info=dataset_info,
        labels=fixed_labels,
        division=division_of(deviations),
        deviations=deviations,
        cores=cores,
        cache_cleared=False,
        watchdog_seconds=float(config.watchdog_seconds),
        setup_watchdog_seconds=float(config.setup_watchdog_seconds),
        identity=_identity(config, settings, workload, framework_version, hardware),
        environment=asdict(env),
        versions=versions,
        git=git_state(),
        code_digest=expected_digest(workload.name, framework.name),
        hardware=hardware,
        hosts=assign_devices(draft.hosts, settings.devices, settings.device == "cpu")
        if draft.hosts
        else (),
        study=cell.study.name if cell is not None else "",
        study_cell=cell.texts if cell is not None else (),
        overrides=tuple(overrides),
        checkpoint=config.checkpoint.when,
        checkpoint_final=config.checkpoint.final,
        environment_variables=draft.environment_variables,
        open_network=bool(config.framework.allow_open_grpc),
    )
    return Job(
        name=name,
        workload=workload,
        folder=output / name,
        run_count=draft.run_count,
        template=template,
        fixed_seed=config.seed,
        framework=framework,
        environment=env,
        system=config.system,
    )


def _hardware(hosts: Sequence[AvailableHost]) -> Mapping[str, Any]:
    """Return the hardware of this machine, or of the first host if the run uses hosts.

    With several hosts, `nodes` contains the hardware of each host.
    """
    if not hosts:
        return devices.hardware()
    nodes = [
        {"address": host.address, "interface": host.interface, **host.hardware} for host in hosts
    ]
    return {**hosts[0].hardware, **({"nodes": nodes} if len(hosts) > 1 else {})}


def _labels(
    settings: Settings, dataset_info: DatasetInfo, hosts: Sequence[AvailableHost] = ()
) -> tuple[tuple[Label, ...], tuple[int, ...]]:
    """Return the labels of the run, and the CPU cores that its devices can use.

    The cores are those of the first machine. On GPUs, no cores are returned.
    """
    labels = [profile_label(settings.profile)] if settings.profile != "reference" else []
    cores: tuple[int, ...] = ()
    if settings.device == "cpu":
        labels.append(Label(LabelKind.CPU))
        cores = hosts[0].cores if hosts else devices.cpu_cores()
        least = min((len(host.cores) for host in hosts), default=len(cores))
        if settings.devices * settings.cores_per_device > least * max(1, len(hosts)):
            labels.append(Label(LabelKind.OVERSUBSCRIBED))
    if settings.device == "cuda" and any(
        NULL_DEVICE in gpu["name"] for gpus in visible_gpus(hosts) for gpu in gpus
    ):
        labels.append(Label(LabelKind.NULL_DEVICE))
    if settings.asynchronous:
        labels.append(Label(LabelKind.ASYNC))
    if settings.straggler_ms:
        labels.append(Label(LabelKind.STRAGGLER, f"{settings.straggler_ms} ms"))
    return (*labels, *(Label(LabelKind.DATA, note) for note in dataset_info.notes)), cores


def _identity(
    config: RunConfig,
    settings: Settings,
    workload: type[Workload],
    framework_version: str,
    hardware: Mapping[str, Any],
) -> dict[str, str]:
    """Return the identifying fields for the first lines of the log."""
    if settings.device == "cuda":
        device_name = str(hardware["gpus"][0]["name"])
    else:
        device_name = f"{settings.cores_per_device} core(s) of {hardware['cpu_model']}"
    platform, price = config.system.submission_platform, config.system.price_per_device_hour
    return {
        "benchmark": workload.mlperf_name,
        "sample_unit": workload.sample_unit,
        "batch_unit": workload.batch_unit,
        "submission_org": config.profile.submission_org,
        "submission_status": config.profile.submission_status,
        "submission_platform": f"{settings.devices}x {device_name}"
        if platform == "auto"
        else platform,
        "system": config.system.name,
        "device_name": device_name,
        "framework_version": framework_version,
        "price_per_device_hour": "" if price is None else f"{float(price):g}",
    }
