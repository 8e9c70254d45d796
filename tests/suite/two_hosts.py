"""A run on two simulated hosts with four devices each, or on this machine.

Only the fields that are needed to launch the run have values.
"""

from dataclasses import fields

from suite.common.runspec import SCHEMA, Host, RunSpec
from workloads.api import DatasetInfo, Settings

HOSTS = (
    Host("node-a", "10.0.0.1", 0, (0, 1, 2, 3), ()),
    Host("node-b", "node-b.cluster", 4, (0, 1, 2, 3), ()),
)


def make_run(hosts=(), cores=(), folder="", **changes):
    values = {"device": "cpu", "devices": 1, "cores_per_device": 3, "precision": "fp32", **changes}
    settings = Settings(**{**{field.name: "" for field in fields(Settings)}, **values})
    run_fields = {
        "settings": settings,
        "dataset_info": DatasetInfo(1, 1, {}, ""),
        "folder": folder,
        "cores": cores,
        "hosts": hosts,
    }
    run_fields |= {"labels": (), "deviations": ()}
    return RunSpec(
        **{**{field.name: "" for field in fields(RunSpec)}, **run_fields, "schema": SCHEMA}
    )
