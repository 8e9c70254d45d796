"""What the pods of `launch=kubernetes` run, each in a machine of namespaces with the names that
pods have.
"""

import json
import os
import sys
from pathlib import Path

import pytest
import yaml

from tests.helpers import PROJECT, TOY, TOY_RUN, only, run_suite_here, status


@pytest.mark.parametrize("count", [1, 2])
def test_pods_meet_and_train(machines, tmp_path, count):
    """Only the first pod's name in the Service is known to all, as it is in a cluster; the last pod
    starts first.
    """
    up = machines(count)
    folder, nodes = up.folder, up.nodes
    for name in ("data", "logs"):
        (folder / name).mkdir()
    places = (
        f"launch.kubernetes.data={folder / 'data'}",
        f"launch.kubernetes.logs={folder / 'logs'}",
    )
    words = (
        *TOY_RUN,
        f"gpus={count}",
        f"nodes={count}",
        "launch=kubernetes",
        "launch.kubernetes.image=x",
        *places,
    )
    run_suite_here(tmp_path, *words, f"output={tmp_path / 'job'}", toy=True, exits=0)
    secret, _, job = yaml.safe_load_all((tmp_path / "job" / "kubernetes.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    name, token = job["metadata"]["name"], secret["stringData"]["token"]

    def started(index):
        node, from_cluster = nodes[index], {"RANK": str(index), "SUITE_LAUNCH_TOKEN": token}
        node.run(["hostname", f"{name}-{index}"])
        own = f"127.0.0.1 localhost\n{node.address} {name}-{index}\n"
        node.hosts_file.write_text(f"{own}{nodes[0].address} {name}-0.{name}\n")
        own = {
            one["name"]: one.get("value") or from_cluster[one["name"]] for one in container["env"]
        }
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        image = {"PATH": path, "PYTHONPATH": f"{TOY}:{PROJECT}", "SUITE_LOG_DIR": "/nowhere"}
        return node.start(container["command"], folder / f"{index}.out", env={**image, **own})

    pods = [started(index) for index in reversed(range(count))]
    codes = [pod.client.wait(240) for pod in pods]
    said = "".join((folder / f"{index}.out").read_text() for index in range(count))
    assert codes == [0] * count, said
    assert token not in said
    run_folder = only(folder.glob("logs/job/*/run_0"))
    assert status(run_folder)["status"] == "success"
    hosts = json.loads((run_folder / "run.json").read_text())["hosts"]
    assert [host["name"] for host in hosts] == [f"{name}-{index}" for index in range(count)]
    assert (
        [host["address"] for host in hosts] == ["127.0.0.1"]
        if count == 1
        else [node.address for node in nodes]
    )
