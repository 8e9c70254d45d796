"""`launch=kubernetes`: the same command as an Indexed Job or a JobSet, every pod of which runs it under `launch=external`."""

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
from suite.control.hosts.choose import launch_of
from suite.control.hosts.submit import Need, need_of, needs_gpus
from suite.launch.children import TOKEN
from suite.plan.device_choice import uneven
from suite.plan.load import load_workload_and_framework
from suite.plan.settings import resolve_settings
from suite.plan.unsupported import UnsupportedError

FILE = "kubernetes.yaml"
KEYS = ("submit", "image", "data", "logs", "node_selector", "jobset")
"""Of `launch.*`, those that have a meaning here alone."""

GROUP = 1000
"""Of the image's user (containers/Dockerfile), whom claims must let write."""
WAIT_SECONDS = 600
"""That pods wait for each other unless `launch.wait_seconds` is typed: one may have to pull the image, and others not."""
MAX_RESTARTS = 3
"""Of all pods of a JobSet together. A Job restarts a pod alone, without which the others cannot go on: it has none."""
NAME_LETTERS = 40
"""Names of pods have at most 63 letters, of which JobSet takes up to 17 for what it appends."""
ANSWER_SECONDS = 60.0
_IMAGE = re.compile(r"[\w./:@-]+")
_VOLUME = re.compile(r"/[^\s,:]+|[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_LABEL = re.compile(
    r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?=([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?"
)


def is_meant(jobs: Sequence[Composed]) -> bool:
    """Whether a command is to become a job of Kubernetes. Raises ValueError for keys that are of no other launch."""
    launch, untouched = launch_of([one.config for one in jobs]), LaunchConfig()
    if launch.by == "kubernetes":
        return True
    for key in KEYS:
        value = getattr(launch.kubernetes, key)
        if value != getattr(untouched.kubernetes, key):
            raise ValueError(
                f"launch.kubernetes.{key}={value}: launch.by is {launch.by}; set launch=kubernetes, or omit this key"
            )
    return False


def hand_over(arguments: Sequence[str], jobs: Sequence[Composed], output: Path) -> list[str]:
    """Write the job into `output`, and submit it where that is asked for; returns what to print. Under `dry_run` that is the
    file itself, and nothing is written.

    Raises ValueError for what cannot be right wherever it runs, and with kubectl's own words. What the pods lack is said there.
    """
    configs = [one.config for one in jobs]
    launch, need, name = launch_of(configs), need_of(configs), name_of(output)
    _check(jobs, launch)
    text = yaml.safe_dump_all(documents(arguments, launch, need, name, output.name), sort_keys=False)
    if configs[0].dry_run:
        return text.splitlines()
    file = output / FILE
    if file.exists():
        raise ValueError(
            f"{file} is there already, and may be edited: it is not overwritten; type another output=FOLDER"
        )
    output.mkdir(parents=True, exist_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)  # it holds the secret
    device = "GPU(s)" if need.gpus else "CPU device(s)"
    apply = ["kubectl", "apply", f"--filename={file}"]
    begun = [f"{file}: {need.nodes} pod(s) with {need.devices} {device} each"]
    if launch.kubernetes.submit:
        _submit(apply, file)
        begun.append(
            f"submitted as {name}; it writes to {output.name} in launch.kubernetes.logs={launch.kubernetes.logs}"
        )
    else:
        begun.append(f"  {shlex.join(apply)}")
    ((key, value),) = _labels(name).items()
    label = f"{key}={value}"
    return [
        *begun,
        f"  kubectl get pods --selector={label}",
        f"  kubectl logs --follow --tail=-1 --selector={label},batch.kubernetes.io/job-completion-index=0",
        f"  {shlex.join(['kubectl', 'delete', f'--filename={file}'])}",
    ]


def name_of(output: Path) -> str:
    """A name that all objects of a command may have, after its folder: letters, digits and single dashes."""
    return f"suite-{re.sub(r'[^a-z0-9]+', '-', output.name.lower())}"[:NAME_LETTERS].rstrip("-")


def documents(
    arguments: Sequence[str], launch: LaunchConfig, need: Need, name: str, folder: str
) -> list[dict[str, Any]]:
    """The secret and the job; for a Job a Service too, by which pods find the first one: a JobSet makes its own.

    `folder`: of the runs, below `launch.kubernetes.logs`.
    """
    secret = _object("v1", "Secret", name, stringData={"token": secrets.token_hex(16)})
    spec = {
        "completions": need.nodes,
        "parallelism": need.nodes,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"metadata": {"labels": _labels(name)}, "spec": _pod(arguments, launch, need, name, folder)},
    }
    if launch.kubernetes.jobset:
        replicated = [{"name": "run", "template": {"spec": spec}}]
        of_set = {"failurePolicy": {"maxRestarts": MAX_RESTARTS}, "replicatedJobs": replicated}
        return [secret, _object("jobset.x-k8s.io/v1alpha2", "JobSet", name, spec=of_set)]
    headless = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": _labels(name)}
    return [secret, _object("v1", "Service", name, spec=headless), _object("batch/v1", "Job", name, spec=spec)]


def _object(version: str, kind: str, name: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": _labels(name)}, **content}


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/instance": name}


def _pod(arguments: Sequence[str], launch: LaunchConfig, need: Need, name: str, folder: str) -> dict[str, Any]:
    places = {
        kind: _place(kind, getattr(launch.kubernetes, kind))
        for kind in ("data", "logs")
        if getattr(launch.kubernetes, kind)
    }
    first = f"{name}-run-0-0" if launch.kubernetes.jobset else f"{name}-0"
    index = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    limits = {"nvidia.com/gpu": need.devices} if need.gpus else {"cpu": need.cores} if need.cores else {}
    container = {
        "name": "suite",
        "image": launch.kubernetes.image,
        "command": ["suite", "run", *_words(arguments, f"{places['logs']}/{folder}")],
        "env": [
            {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": index}}},
            {"name": "WORLD_SIZE", "value": str(need.nodes)},
            {"name": "MASTER_ADDR", "value": f"{first}.{name}"},
            {"name": TOKEN, "valueFrom": {"secretKeyRef": {"name": name, "key": "token"}}},
            *([{"name": "SUITE_DATA_DIR", "value": places["data"]}] if "data" in places else []),
        ],
        "resources": {"limits": limits},
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            *({"name": kind, "mountPath": place} for kind, place in places.items()),
        ],
    }
    shm = {"name": "shm", "emptyDir": {"medium": "Memory"}}
    apart = {"labelSelector": {"matchLabels": _labels(name)}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "restartPolicy": "Never",
        **({} if launch.kubernetes.jobset else {"subdomain": name}),
        "enableServiceLinks": False,  # a service called `master` would set MASTER_PORT
        "nodeSelector": dict(str(label).split("=", 1) for label in launch.kubernetes.node_selector),
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
        "securityContext": {"fsGroup": GROUP},
        "containers": [container],
        "volumes": [shm, *(_volume(kind, getattr(launch.kubernetes, kind)) for kind in places)],
    }


def _place(kind: str, source: str) -> str:
    """Where it stands in a pod: a folder of the node at its own path, a claim at the image's /data or /logs."""
    return source if source.startswith("/") else f"/{kind}"


def _volume(kind: str, source: str) -> dict[str, Any]:
    if source.startswith("/"):
        return {"name": kind, "hostPath": {"path": source, "type": "Directory"}}
    return {"name": kind, "persistentVolumeClaim": {"claimName": source}}


def _words(arguments: Sequence[str], output: str) -> list[str]:
    """Those of the command that hold in a pod too. What is there already is taken up: all pods may be started again."""
    ours = {
        "output",
        "resume",
        "dry_run",
        "--dry-run",
        "launch",
        "launch.by",
        *(f"launch.kubernetes.{key}" for key in KEYS),
    }
    kept = [word for word in arguments if word.partition("=")[0] not in ours]
    waits = any(word.startswith("launch.wait_seconds=") for word in kept)
    wait = [] if waits else [f"launch.wait_seconds={WAIT_SECONDS}"]
    return [*kept, "launch=external", *wait, f"output={output}", "resume=true"]


def _check(jobs: Sequence[Composed], launch: LaunchConfig) -> None:
    """Raise ValueError, in one line, for what no cluster could run."""
    if not _IMAGE.fullmatch(launch.kubernetes.image or ""):
        given = f"launch.kubernetes.image={launch.kubernetes.image}" if launch.kubernetes.image else "launch=kubernetes"
        raise ValueError(f"{given}: expected an image; set launch.kubernetes.image=NAME:TAG (docs/environments.md)")
    if not launch.kubernetes.logs:
        raise ValueError(
            "launch=kubernetes: logs inside a pod would be lost with the pod; set launch.kubernetes.logs=CLAIM, or "
            "launch.kubernetes.logs=/FOLDER of every node"
        )
    for kind in ("data", "logs"):
        source = getattr(launch.kubernetes, kind)
        if not _VOLUME.fullmatch(source or "unset"):
            raise ValueError(
                f"launch.kubernetes.{kind}={source}: expected the name of a claim (lower-case letters, digits, - and .) or a "
                f"folder of every node, without spaces; set launch.kubernetes.{kind}=CLAIM or launch.kubernetes.{kind}=/FOLDER"
            )
    labels = launch.kubernetes.node_selector
    for label in labels if isinstance(labels, list) else [labels]:
        if not _LABEL.fullmatch(str(label)):
            raise ValueError(
                f"launch.kubernetes.node_selector: {label} is not a label; set launch.kubernetes.node_selector=[KEY=VALUE]"
            )
    for one in jobs:
        config = replace(one.config, device="cuda") if needs_gpus(one.config) else one.config
        if (error := uneven(config.gpus, config.nodes)) is not None:
            raise error
        try:
            workload, framework = load_workload_and_framework(config)
            resolve_settings(config, workload, framework, (), lambda missing: None)
        except UnsupportedError:  # a cell of a study says so
            if one.cell is None:
                raise


def _submit(words: Sequence[str], file: Path) -> None:
    """Raises ValueError with kubectl's own words; the file stays."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        wrong = lines[-1] if done.returncode else ""
    except FileNotFoundError:
        wrong = "kubectl is not installed here"
    except subprocess.TimeoutExpired:
        wrong = f"kubectl does not answer within {ANSWER_SECONDS:g} s"
    if wrong:
        raise ValueError(f"launch=kubernetes: {wrong}; the job stands in {file}: type {shlex.join(words)}")
