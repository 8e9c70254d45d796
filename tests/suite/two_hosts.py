"""A run on two pretended hosts of four devices each, or on this machine; only what launching reads
has a value.
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
    known = {
        "settings": settings,
        "dataset_info": DatasetInfo(1, 1, {}, ""),
        "folder": folder,
        "cores": cores,
        "hosts": hosts,
    }
    known |= {"labels": (), "deviations": ()}
    return RunSpec(**{**{field.name: "" for field in fields(RunSpec)}, **known, "schema": SCHEMA})
