"""TensorFlow: one process per device.

The processes use `MultiWorkerMirroredStrategy`, configured through TF_CONFIG.
"""

from __future__ import annotations

import json

from suite.common.runspec import Host, RunSpec
from suite.launch.base import (
    WITHOUT_PROXY,
    Command,
    Framework,
    arithmetic_variables,
    server_commands,
    server_variables,
    thread_variables,
    worker,
)
from suite.launch.hosts import Rendezvous

COMMON_VARIABLES = {
    "TF_CPP_MIN_LOG_LEVEL": "1",
    **WITHOUT_PROXY,
    "KERAS_BACKEND": "tensorflow",
    # /dev/null/keras cannot exist, so Keras neither reads nor writes keras.json
    "KERAS_HOME": "/dev/null/keras",
    "TF_USE_LEGACY_KERAS": "0",
}
"""Environment variables of all processes.

The variables set the Keras options that the trainers need. These options override the user's shell
and keras.json.
"""


def _commands(run: RunSpec, run_file: str, rendezvous: Rendezvous, host: Host) -> list[Command]:
    endpoints = rendezvous.endpoints
    commands = server_commands(run, run_file, rendezvous, host, COMMON_VARIABLES)
    for process in host.replicas:
        task = {"cluster": {"worker": endpoints}, "task": {"type": "worker", "index": process}}
        env = {
            **thread_variables(run.settings.cores_per_device),
            "TF_CONFIG": json.dumps(task),
            **COMMON_VARIABLES,
            **arithmetic_variables(run),
            **server_variables(run, rendezvous),
        }
        commands.append(worker(process, len(endpoints), run_file, env))
    return commands


# Runs with several devices or asynchronous updates need gRPC servers, which listen on all
# interfaces.
TENSORFLOW = Framework(
    name="tensorflow",
    environments={"cpu": "tensorflow-cpu", "cuda": "tensorflow-cuda"},
    packages=("tensorflow", "tensorflow-cpu"),
    processes=lambda devices, device: devices,
    commands=_commands,
    listens_everywhere=lambda settings: settings.devices > 1 or settings.asynchronous,
    title="TensorFlow",
    colour=2,
    tuning_variables=("TF_",),
    max_error_vs_float64={"sgd": 2.7e-7, "lars": 3.2e-7, "adam": 2.4e-7, "adamw": 2.4e-7},
)
