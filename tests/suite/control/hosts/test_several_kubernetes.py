"""The pods of `launch=kubernetes`, each in a machine of namespaces with the host name of a pod."""

import json
import os
import sys
from pathlib import Path

import pytest
import yaml

from tests.helpers import PROJECT, TOY, TOY_RUN, only, run_suite_here, status


@pytest.mark.parametrize("count", [1, 2])
def test_pods_meet_and_train(machines, tmp_path, count):
    """Check that pods meet and train if the last pod starts first.

    As in a cluster, all pods can resolve only the first pod's name in the Service.
    """
    up = machines(count)
    folder, nodes = up.folder, up.nodes
    for name in ("data", "logs"):
        (folder / name).mkdir()
    claims = (
        f"launch.kubernetes.data={folder / 'data'}",
        f"launch.kubernetes.logs={folder / 'logs'}",
    )
    words = (
        *TOY_RUN,
        f"gpus={count}",
        f"nodes={count}",
        "launch=kubernetes",
        "launch.kubernetes.image=x",
        *claims,
    )
    run_suite_here(tmp_path, *words, f"output={tmp_path / 'job'}", toy=True, exits=0)
    secret, _, job = yaml.safe_load_all((tmp_path / "job" / "kubernetes.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    name, token = job["metadata"]["name"], secret["stringData"]["token"]

    def started(index):
        node, from_cluster = nodes[index], {"RANK": str(index), "SUITE_LAUNCH_TOKEN": token}
        node.run(["hostname", f"{name}-{index}"])
        local_names = f"127.0.0.1 localhost\n{node.address} {name}-{index}\n"
        node.hosts_file.write_text(f"{local_names}{nodes[0].address} {name}-0.{name}\n")
        pod_env = {
            entry["name"]: entry.get("value") or from_cluster[entry["name"]]
            for entry in container["env"]
        }
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        image = {"PATH": path, "PYTHONPATH": f"{TOY}:{PROJECT}", "SUITE_LOG_DIR": "/nowhere"}
        return node.start(container["command"], folder / f"{index}.out", env={**image, **pod_env})

    pods = [started(index) for index in reversed(range(count))]
    codes = [pod.client.wait(240) for pod in pods]
    output = "".join((folder / f"{index}.out").read_text() for index in range(count))
    assert codes == [0] * count, output
    assert token not in output
    run_folder = only(folder.glob("logs/job/*/run_0"))
    assert status(run_folder)["status"] == "success"
    hosts = json.loads((run_folder / "run.json").read_text())["hosts"]
    assert [host["name"] for host in hosts] == [f"{name}-{index}" for index in range(count)]
    assert (
        [host["address"] for host in hosts] == ["127.0.0.1"]
        if count == 1
        else [node.address for node in nodes]
    )
