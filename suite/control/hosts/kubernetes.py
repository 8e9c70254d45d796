"""Convert a command with `launch=kubernetes` to a Kubernetes Indexed Job or JobSet.

The pods of the Job or JobSet run the command with `launch=external`.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from suite.common.run_config import LaunchConfig
from suite.config.compose import Composed
from suite.control.hosts.open_hosts import launch_of
from suite.control.hosts.submit import SchedulerResources, needs_gpus, required_resources
from suite.launch.children import TOKEN
from suite.plan.device_choice import uneven
from suite.plan.load import load_workload_and_framework
from suite.plan.settings import resolve_settings
from suite.plan.unsupported import UnsupportedError

FILE = "kubernetes.yaml"
KEYS = ("submit", "image", "data", "logs", "node_selector", "jobset")
"""Keys under `launch.kubernetes` that apply only to `launch=kubernetes`."""

GROUP = 1000
"""Group id of the container image's user (containers/Dockerfile). The group needs write access
to the volume claims.
"""
WAIT_SECONDS = 600
"""Default of `launch.wait_seconds` in pods, in seconds.

The default is high because some pods may have to pull the image first.
"""
MAX_RESTARTS = 3
"""Maximum number of times that a JobSet restarts all of its pods.

A plain Job is created without restarts. A plain Job would restart only the failed pod, but the
other pods cannot continue after a failure.
"""
NAME_LETTERS = 40
"""Maximum number of characters in an object's name.

Pod names are limited to 63 characters, of which JobSet needs up to 17 for its suffix.
"""
ANSWER_SECONDS = 60.0
"""Time limit for kubectl in seconds."""
_IMAGE = re.compile(r"[\w./:@-]+")
_VOLUME = re.compile(r"/[^\s,:]+|[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_LABEL = re.compile(
    r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?=([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?"
)


def is_meant(jobs: Sequence[Composed]) -> bool:
    """Check whether a command uses `launch=kubernetes`.

    Raises ValueError if `launch.kubernetes.*` keys are set together with a different launcher.
    """
    launch, defaults = launch_of([job.config for job in jobs]), LaunchConfig()
    if launch.by == "kubernetes":
        return True
    for key in KEYS:
        value = getattr(launch.kubernetes, key)
        if value != getattr(defaults.kubernetes, key):
            raise ValueError(
                f"launch.kubernetes.{key}={value}: launch.by is {launch.by}. Set launch=kubernetes,"
                " or omit this key"
            )
    return False


def hand_over(arguments: Sequence[str], jobs: Sequence[Composed], output: Path) -> list[str]:
    """Write the Kubernetes manifest of a command, and optionally submit it.

    The manifest is written to the output folder. The manifest is submitted if
    `launch.kubernetes.submit` is set. The function only detects errors that do not depend on the
    machine. The pods check their resources when they start.

    Args:
        arguments: Arguments of the command.
        jobs: Composed configuration of each job.
        output: Folder of the runs.

    Returns:
        Lines to print, which contain the commands that show the job's progress. With `dry_run`, the
        lines are the content of the manifest, and no file is written.

    Raises:
        ValueError: The settings are invalid, the file exists, or kubectl failed. If kubectl failed,
            the message contains kubectl's error.
    """
    configs = [job.config for job in jobs]
    launch, need, name = launch_of(configs), required_resources(configs), name_of(output)
    _check(jobs, launch)
    text = yaml.safe_dump_all(
        documents(arguments, launch, need, name, output.name), sort_keys=False
    )
    if configs[0].dry_run:
        return text.splitlines()
    file = output / FILE
    if file.exists():
        raise ValueError(
            f"{file} exists and may have been edited, so it is not overwritten. Set output=FOLDER"
            " to a new folder"
        )
    output.mkdir(parents=True, exist_ok=True)
    with open(
        os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as stream:
        stream.write(text)  # the manifest contains the secret token
    device = "GPU(s)" if need.gpus else "CPU device(s)"
    apply = ["kubectl", "apply", f"--filename={file}"]
    lines = [f"{file}: {need.nodes} pod(s) with {need.devices} {device} each"]
    if launch.kubernetes.submit:
        _submit(apply, file)
        lines.append(
            f"submitted as {name}. It writes to {output.name} in"
            f" launch.kubernetes.logs={launch.kubernetes.logs}"
        )
    else:
        lines.append(f"  {shlex.join(apply)}")
    ((key, value),) = _labels(name).items()
    label = f"{key}={value}"
    return [
        *lines,
        f"  kubectl get pods --selector={label}",
        (
            "  kubectl logs --follow --tail=-1"
            f" --selector={label},batch.kubernetes.io/job-completion-index=0"
        ),
        f"  {shlex.join(['kubectl', 'delete', f'--filename={file}'])}",
    ]


def name_of(output: Path) -> str:
    """Derive the name of a command's Kubernetes objects from its output folder's name.

    The name consists of letters, digits, and single hyphens.
    """
    return f"suite-{re.sub(r'[^a-z0-9]+', '-', output.name.lower())}"[:NAME_LETTERS].rstrip("-")


def documents(
    arguments: Sequence[str], launch: LaunchConfig, need: SchedulerResources, name: str, folder: str
) -> list[dict[str, Any]]:
    """Return the Kubernetes objects of a command: the secret and the Job or JobSet.

    For a Job, the objects also include a Service, through which the pods find the first pod. A
    JobSet creates this Service itself.

    Args:
        arguments: Arguments of the command.
        launch: `launch.*` settings of the command.
        need: Machines and devices of the command.
        name: Name of the objects.
        folder: Folder of the runs, below `launch.kubernetes.logs`.
    """
    secret = _object("v1", "Secret", name, stringData={"token": secrets.token_hex(16)})
    spec = {
        "completions": need.nodes,
        "parallelism": need.nodes,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {
            "metadata": {"labels": _labels(name)},
            "spec": _pod(arguments, launch, need, name, folder),
        },
    }
    if launch.kubernetes.jobset:
        replicated = [{"name": "run", "template": {"spec": spec}}]
        job_set = {"failurePolicy": {"maxRestarts": MAX_RESTARTS}, "replicatedJobs": replicated}
        return [secret, _object("jobset.x-k8s.io/v1alpha2", "JobSet", name, spec=job_set)]
    headless = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": _labels(name)}
    return [
        secret,
        _object("v1", "Service", name, spec=headless),
        _object("batch/v1", "Job", name, spec=spec),
    ]


def _object(version: str, kind: str, name: str, **content: Any) -> dict[str, Any]:
    """Return a Kubernetes object that has the labels of the command."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "labels": _labels(name)},
        **content,
    }


def _labels(name: str) -> dict[str, str]:
    """Return the label by which the Kubernetes objects of a command can be selected."""
    return {"app.kubernetes.io/instance": name}


def _pod(
    arguments: Sequence[str], launch: LaunchConfig, need: SchedulerResources, name: str, folder: str
) -> dict[str, Any]:
    """Return the specification of a pod.

    The parameters are the same as those of `documents`.
    """
    mount_paths = {
        kind: _mount_path(kind, getattr(launch.kubernetes, kind))
        for kind in ("data", "logs")
        if getattr(launch.kubernetes, kind)
    }
    first = f"{name}-run-0-0" if launch.kubernetes.jobset else f"{name}-0"
    index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    limits = (
        {"nvidia.com/gpu": need.devices} if need.gpus else {"cpu": need.cores} if need.cores else {}
    )
    container = {
        "name": "suite",
        "image": launch.kubernetes.image,
        "command": ["suite", "run", *_pod_arguments(arguments, f"{mount_paths['logs']}/{folder}")],
        "env": [
            {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": index}}},
            {"name": "WORLD_SIZE", "value": str(need.nodes)},
            {"name": "MASTER_ADDR", "value": f"{first}.{name}"},
            {"name": TOKEN, "valueFrom": {"secretKeyRef": {"name": name, "key": "token"}}},
            *(
                [{"name": "SUITE_DATA_DIR", "value": mount_paths["data"]}]
                if "data" in mount_paths
                else []
            ),
        ],
        "resources": {"limits": limits},
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            *({"name": kind, "mountPath": path} for kind, path in mount_paths.items()),
        ],
    }
    shm = {"name": "shm", "emptyDir": {"medium": "Memory"}}
    anti_affinity = {
        "labelSelector": {"matchLabels": _labels(name)},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {
        "restartPolicy": "Never",
        **({} if launch.kubernetes.jobset else {"subdomain": name}),
        # With service links, a service with the name `master` would set MASTER_PORT in the pods.
        "enableServiceLinks": False,
        "nodeSelector": dict(str(label).split("=", 1) for label in launch.kubernetes.node_selector),
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [anti_affinity]}
        },
        "securityContext": {"fsGroup": GROUP},
        "containers": [container],
        "volumes": [
            shm,
            *(_volume(kind, getattr(launch.kubernetes, kind)) for kind in mount_paths),
        ],
    }


def _mount_path(kind: str, source: str) -> str:
    """Return the path of a volume in a pod.

    A folder of the cluster node has the same path in the pod. A volume claim is mounted at /data or
    /logs.
    """
    return source if source.startswith("/") else f"/{kind}"


def _volume(kind: str, source: str) -> dict[str, Any]:
    """Return the volume of a pod for a folder of the cluster node or for a volume claim."""
    if source.startswith("/"):
        return {"name": kind, "hostPath": {"path": source, "type": "Directory"}}
    return {"name": kind, "persistentVolumeClaim": {"claimName": source}}


def _pod_arguments(arguments: Sequence[str], output: str) -> list[str]:
    """Return the arguments of the command that runs in a pod.

    The arguments include `resume=true`, because all pods may be restarted.
    """
    replaced_keys = {
        "output",
        "resume",
        "dry_run",
        "--dry-run",
        "launch",
        "launch.by",
        *(f"launch.kubernetes.{key}" for key in KEYS),
    }
    kept = [word for word in arguments if word.partition("=")[0] not in replaced_keys]
    waits = any(word.startswith("launch.wait_seconds=") for word in kept)
    wait = [] if waits else [f"launch.wait_seconds={WAIT_SECONDS}"]
    return [*kept, "launch=external", *wait, f"output={output}", "resume=true"]


def _check(jobs: Sequence[Composed], launch: LaunchConfig) -> None:
    """Raise ValueError for settings that are invalid on every Kubernetes cluster.

    The error message is a single line.
    """
    if not _IMAGE.fullmatch(launch.kubernetes.image or ""):
        setting = (
            f"launch.kubernetes.image={launch.kubernetes.image}"
            if launch.kubernetes.image
            else "launch=kubernetes"
        )
        raise ValueError(
            f"{setting}: expected an image. Set launch.kubernetes.image=NAME:TAG"
            " (docs/how-to/install_and_environments.md)"
        )
    if not launch.kubernetes.logs:
        raise ValueError(
            "launch=kubernetes: logs inside a pod would be lost with the pod. Set"
            " launch.kubernetes.logs=CLAIM, or launch.kubernetes.logs=/FOLDER of every node"
        )
    for kind in ("data", "logs"):
        source = getattr(launch.kubernetes, kind)
        if not _VOLUME.fullmatch(source or "unset"):
            raise ValueError(
                f"launch.kubernetes.{kind}={source}: expected the name of a claim (lower-case"
                " letters, digits, - and .) or a folder of every node, without spaces. Set"
                f" launch.kubernetes.{kind}=CLAIM or launch.kubernetes.{kind}=/FOLDER"
            )
    labels = launch.kubernetes.node_selector
    for label in labels if isinstance(labels, list) else [labels]:
        if not _LABEL.fullmatch(str(label)):
            raise ValueError(
                f"launch.kubernetes.node_selector: {label} is not a label. Set"
                " launch.kubernetes.node_selector=[KEY=VALUE]"
            )
    for job in jobs:
        config = replace(job.config, device="cuda") if needs_gpus(job.config) else job.config
        if (error := uneven(config.gpus, config.nodes)) is not None:
            raise error
        try:
            workload, framework = load_workload_and_framework(config)
            resolve_settings(config, workload, framework, (), lambda missing: None)
        except UnsupportedError:  # the file of the study reports this error for the cell
            if job.cell is None:
                raise


def _submit(argv: Sequence[str], file: Path) -> None:
    """Submit the manifest with kubectl.

    Raises ValueError with kubectl's error message if kubectl fails. The manifest file is not
    deleted if kubectl fails.
    """
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
            check=False,
        )
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        error = lines[-1] if done.returncode else ""
    except FileNotFoundError:
        error = "kubectl is not installed here"
    except subprocess.TimeoutExpired:
        error = f"kubectl does not answer within {ANSWER_SECONDS:g} s"
    if error:
        raise ValueError(
            f"launch=kubernetes: {error}. The job is in {file}. Run: {shlex.join(argv)}"
        )
