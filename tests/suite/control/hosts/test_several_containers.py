"""Runs on two machines in containers, with a docker daemon and an agent outside on each machine."""

import contextlib
import json

import pytest

from testing.machines import needs
from testing.machines.docker import IMAGE, daemon
from tests.helpers import TOY, TOY_RUN, only, refusal, status
from tests.suite.control.hosts import test_several as several
from tests.suite.environments.test_docker import words


@pytest.fixture(scope="module")
def two(machines_of_module, tmp_path_factory):
    if reason := needs.missing(needs.DOCKER):
        pytest.skip(reason)
    cluster = machines_of_module(2, ssh=True)
    with contextlib.ExitStack() as stack:
        for machine in cluster.all:
            daemon_folder = cluster.folder / f"docker-{machine.name}"
            daemon_folder.mkdir()
            stack.enter_context(daemon(daemon_folder, machine))
        yield cluster


folder = several.folder  # fixtures
IN_DOCKER = (*words(), f"environment.options=['--env=PYTHONPATH={TOY}']")


def containers(two):
    words = ["docker", "ps", "--all", "--format={{.Names}}"]
    return [name for machine in two.all for name in machine.run(words).stdout.split()]


def test_a_run_in_containers_on_two_machines(two, folder):
    several.run(two, folder, *TOY_RUN, *IN_DOCKER, "gpus=2", "nodes=2", *several.SSH)
    run_folder = only(folder.glob("logs/*/*/run_0"))
    assert status(run_folder)["status"] == "success"
    assert (
        json.loads((run_folder / "run.json").read_text())["environment"]["container"]["image"]
        == IMAGE
    )
    assert containers(two) == []


@pytest.mark.parametrize("kind", ["rank", "client"])
def test_a_fault_is_named_and_no_container_is_left(two, folder, kind):
    with several.started(two, folder, *several.SLEEPING, *IN_DOCKER, *several.SSH) as (
        run_folder,
        _,
    ):
        found = {
            "rank": lambda: several.processes_on(two["node2"], "", "suite.worker.main")[-1],
            "client": lambda: several.process_on(two["node2"], "docker run", "suite.worker.main"),
        }[kind]()
        found.kill()
        several.assert_node2_is_named(run_folder, "")
        several.clean(two)
    assert containers(two) == []


def test_an_image_that_one_machine_lacks_is_refused(two, folder):
    two["node2"].run(["docker", "tag", IMAGE, "other:1"])
    two["node2"].run(["docker", "rmi", IMAGE])
    try:
        done = several.run(
            two, folder, *TOY_RUN, *IN_DOCKER, "gpus=2", "nodes=2", *several.SSH, check=False
        )
    finally:
        two["node2"].run(["docker", "tag", "other:1", IMAGE])
    line = refusal(done)
    assert "node2" in line
    assert IMAGE in line
