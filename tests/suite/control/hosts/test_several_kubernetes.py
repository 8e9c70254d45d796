"""What the pods of `launch=kubernetes` run, each in a machine of namespaces with the names that pods have."""

import json
import os
import sys
from pathlib import Path

import yaml

from tests.helpers import PROJECT, TOY, TOY_RUN, only, run_suite_here, status


def test_pods_meet_and_train(machines, tmp_path):
    """Only the first pod's name in the Service is known to all, as it is in a cluster; the last pod starts first."""
    two = machines(2)
    for name in ("data", "logs"):
        (two.folder / name).mkdir()
    places = (f"launch.data={two.folder / 'data'}", f"launch.logs={two.folder / 'logs'}")
    words = (*TOY_RUN, "gpus=2", "nodes=2", "launch=kubernetes", "launch.image=x", *places)
    run_suite_here(tmp_path, *words, f"output={tmp_path / 'job'}", toy=True, exits=0)
    secret, _, job = yaml.safe_load_all((tmp_path / "job" / "kubernetes.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    name, token = job["metadata"]["name"], secret["stringData"]["token"]

    def started(index):
        node, from_cluster = two.nodes[index], {"RANK": str(index), "SUITE_LAUNCH_TOKEN": token}
        node.run(["hostname", f"{name}-{index}"])
        own = f"127.0.0.1 localhost\n{node.address} {name}-{index}\n"
        node.hosts_file.write_text(f"{own}{two.nodes[0].address} {name}-0.{name}\n")
        own = {one["name"]: one.get("value") or from_cluster[one["name"]] for one in container["env"]}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        image = {
            "PATH": path,
            "PYTHONPATH": f"{TOY}:{PROJECT}",
            "CUDA_VISIBLE_DEVICES": "",
            "SUITE_LOG_DIR": "/nowhere",
        }
        return node.start(container["command"], two.folder / f"{index}.out", variables={**image, **own})

    pods = [started(1), started(0)]
    codes = [pod.client.wait(240) for pod in pods]
    said = "".join((two.folder / f"{index}.out").read_text() for index in range(2))
    assert codes == [0, 0], said
    assert token not in said
    run_folder = only(two.folder.glob("logs/job/*/run_0"))
    assert status(run_folder)["status"] == "success"
    hosts = json.loads((run_folder / "run.json").read_text())["hosts"]
    assert [(host["name"], host["address"]) for host in hosts] == [
        (f"{name}-{index}", node.address) for index, node in enumerate(two.nodes)
    ]
