"""A run on two pretended hosts of four devices each, or on this machine; only what launching reads has a value."""

from dataclasses import fields

from suite.common.runspec import SCHEMA, RunSpec
from workloads.api import Facts, Settings

HOSTS = (
    {"name": "node-a", "address": "10.0.0.1", "first_replica": 0, "devices": [0, 1, 2, 3], "cores": []},
    {"name": "node-b", "address": "node-b.cluster", "first_replica": 4, "devices": [0, 1, 2, 3], "cores": []},
)


def make_run(hosts=(), cores=(), folder="", **changes):
    values = {"device": "cpu", "devices": 1, "cores_per_device": 3, "precision": "fp32", **changes}
    settings = Settings(**{**{field.name: "" for field in fields(Settings)}, **values})
    known = {"settings": settings, "facts": Facts(1, 1, {}, ""), "folder": folder, "cores": cores, "hosts": hosts}
    return RunSpec(**{**{field.name: "" for field in fields(RunSpec)}, **known, "schema": SCHEMA})
