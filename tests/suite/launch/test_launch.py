"""The processes that a launcher starts on each host, and the environment of workers."""

import itertools
import json
from dataclasses import replace

import pytest

from suite.launch.base import (
    SERVER,
    SERVER_VARIABLE,
    WAITING_VARIABLES,
    WORKER,
    create_rendezvous,
    network_variables,
    worker_context_for,
)
from suite.launch.hosts import Rendezvous, hosts_of
from suite.launch.mxnet import MXNET, ROLE_VARIABLE
from suite.launch.network import LOOPBACK
from suite.launch.pytorch import PYTORCH
from suite.launch.tensorflow import TENSORFLOW
from tests.suite.two_hosts import HOSTS, make_run

FRAMEWORKS = [PYTORCH, TENSORFLOW, MXNET]
PORTS = (2000, 2001, 2002, 2003, 3000, 3001, 3002, 3003)
ENDPOINTS = [f"{'10.0.0.1' if port < 3000 else 'node-b.cluster'}:{port}" for port in PORTS]


def commands(framework, run, ports=None, server_port=0):
    hosts = hosts_of(run)
    rendezvous = Rendezvous(hosts, ports, server_port) if ports else create_rendezvous(hosts)
    return [framework.commands(run, "run.json", rendezvous, host) for host in hosts]


def env(framework, **changes):
    (((command,),),) = (commands(framework, make_run(**changes)),)
    return command.env


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_numerical_libraries_get_the_cores_of_a_device(framework):
    assert env(framework)["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_fp32_on_gpus_disables_tf32(framework):
    on_gpu = {"device": "cuda", "transport": "auto"}
    assert env(framework, **on_gpu)["NVIDIA_TF32_OVERRIDE"] == "0"
    for changes in (
        {**on_gpu, "precision": "tf32"},
        {**on_gpu, "precision": "bf16"},
        {"device": "cpu"},
    ):
        assert "NVIDIA_TF32_OVERRIDE" not in env(framework, **changes)


@pytest.mark.parametrize("framework", [PYTORCH, MXNET], ids=lambda framework: framework.name)
def test_malloc_uses_huge_pages_on_cpu_cores_unless_the_user_sets_tunables(framework, monkeypatch):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    assert "glibc.malloc.hugetlb=1" in env(framework)["GLIBC_TUNABLES"].split(":")
    assert "GLIBC_TUNABLES" not in env(framework, device="cuda")
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=2")
    assert "GLIBC_TUNABLES" not in env(framework)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_threads_of_a_demo_on_cpu_cores_spin_briefly_unless_the_user_sets_a_policy(
    framework, monkeypatch
):
    """Check the OpenMP frameworks. TensorFlow uses its thread pool instead of OpenMP."""
    for name in WAITING_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert env(framework, profile="demo").get("GOMP_SPINCOUNT") == (
        None if framework is TENSORFLOW else "1000"
    )
    for changes in (
        {"profile": "reference"},
        {"profile": "synthetic"},
        {"profile": "demo", "device": "cuda"},
    ):
        assert "GOMP_SPINCOUNT" not in env(framework, **changes)
    for name, value in (("OMP_WAIT_POLICY", "ACTIVE"), ("GOMP_SPINCOUNT", "5")):
        with monkeypatch.context() as user:
            user.setenv(name, value)
            assert not set(WAITING_VARIABLES) & set(env(framework, profile="demo"))


@pytest.mark.parametrize("framework", [PYTORCH, TENSORFLOW], ids=lambda framework: framework.name)
@pytest.mark.parametrize(("hosts", "devices"), [((), 2), (HOSTS, 8)], ids=["one host", "two hosts"])
def test_each_device_has_a_process_with_the_rendezvous_address(framework, hosts, devices):
    """Check the rendezvous: the first process's address in PyTorch, all addresses in TensorFlow."""
    by_host = commands(framework, make_run(hosts, device="cuda", devices=devices), PORTS[:devices])
    assert [len(host) for host in by_host] == ([4, 4] if hosts else [2])
    endpoints = ENDPOINTS if hosts else ["127.0.0.1:2000", "127.0.0.1:2001"]
    for process, command in enumerate(itertools.chain(*by_host)):
        assert (command.name, command.arguments) == (f"worker-{process}", (*WORKER, "run.json"))
        assert (command.env["RANK"], command.env["WORLD_SIZE"]) == (str(process), str(devices))
        if framework is PYTORCH:
            assert f"{command.env['MASTER_ADDR']}:{command.env['MASTER_PORT']}" == endpoints[0]
        else:
            task = {"cluster": {"worker": endpoints}, "task": {"type": "worker", "index": process}}
            assert json.loads(command.env["TF_CONFIG"]) == task


@pytest.mark.parametrize(("hosts", "devices"), [((), 2), (HOSTS, 8)], ids=["one host", "two hosts"])
def test_mxnet_has_one_process_for_the_gpus_of_a_host_and_a_server_on_each_of_two_hosts(
    hosts, devices
):
    by_host = commands(MXNET, make_run(hosts, device="cuda", devices=devices), PORTS[:devices])
    rendezvous = {
        "DMLC_PS_ROOT_URI": "10.0.0.1",
        "DMLC_PS_ROOT_PORT": "0",
        "DMLC_NUM_SERVER": "2",
        "DMLC_NUM_WORKER": "2",
    }
    for process, (*serving, command) in enumerate(by_host):
        assert [each.name for each in serving] == (
            [*["scheduler"][process:], f"server-{process}"] if hosts else []
        )
        assert (command.name, command.arguments) == (f"worker-{process}", (*WORKER, "run.json"))
        rank = (command.env["RANK"], command.env["WORLD_SIZE"])
        assert rank == (str(process), str(len(by_host)))
        roles = ["scheduler", "server"][process:]
        assert [each.env["SUITE_STORE_ROLE"] for each in serving] == roles[: len(serving)]
        assert [each.is_server for each in (*serving, command)] == [True] * len(serving) + [False]
        for each in (*serving, command) if hosts else ():
            expected = {"DMLC_NODE_HOST": ("10.0.0.1", "node-b.cluster")[process], **rendezvous}
            assert expected.items() <= each.env.items()
        assert command.env.get("DMLC_ROLE") == ("worker" if hosts else None)


@pytest.mark.parametrize(("hosts", "devices"), [((), 2), (HOSTS, 8)], ids=["one host", "two hosts"])
def test_mxnet_has_a_process_for_each_cpu_device_and_servers(hosts, devices):
    by_host = commands(MXNET, make_run(hosts, devices=devices), PORTS[:devices])
    workers = [[command for command in host if not command.is_server] for host in by_host]
    each = devices // len(by_host)
    for number, host in enumerate(by_host):
        serving = [command.name for command in host if command.is_server]
        assert serving == [*["scheduler"][number:], f"server-{number}" if hosts else "server"]
        assert [worker.name for worker in workers[number]] == [
            f"worker-{each * number + index}" for index in range(each)
        ]
    for process, command in enumerate(itertools.chain(*workers)):
        assert (command.arguments, command.env["DMLC_ROLE"]) == ((*WORKER, "run.json"), "worker")
        assert (command.env["RANK"], command.env["WORLD_SIZE"]) == (str(process), str(devices))
    for values in (command.env for host in by_host for command in host):
        assert (values["DMLC_NUM_WORKER"], values["DMLC_NUM_SERVER"]) == (
            str(devices),
            str(len(by_host)),
        )
        assert values[SERVER_VARIABLE].endswith(values["DMLC_PS_ROOT_PORT"])


def test_mxnet_alone_has_no_store():
    ((command,),) = commands(MXNET, make_run(devices=1), PORTS[:1])
    assert not [name for name in command.env if name.startswith("DMLC") or name == SERVER_VARIABLE]


@pytest.mark.parametrize(("framework", "device"), itertools.product(FRAMEWORKS, ["cpu", "cuda"]))
def test_every_process_has_its_host(framework, device):
    hosts = hosts_of(make_run(HOSTS, device=device, devices=8))
    each = 1 if (framework, device) == (MXNET, "cuda") else 4
    assert framework.hosts_of_processes(hosts, device) == (hosts[0],) * each + (hosts[1],) * each


def test_a_worker_context_has_the_devices_of_its_host():
    run = make_run(HOSTS, device="cuda", devices=8)
    contexts = [worker_context_for(run, process, 8) for process in range(8)]
    assert [context.host for context in contexts] == ["node-a"] * 4 + ["node-b"] * 4
    assert [list(context.replica_ids) for context in contexts] == [[number] for number in range(8)]
    assert {
        (context.world_size, context.local_world_size, context.num_replicas) for context in contexts
    } == {(8, 4, 8)}
    whole = worker_context_for(run, 1, 2)
    assert (whole.host, whole.replica_ids, whole.local_world_size) == ("node-b", range(4, 8), 1)


ODD = (replace(HOSTS[0], devices=(2, 3)), replace(HOSTS[1], devices=(6, 1), first_replica=2))
OF_CORES = (replace(HOSTS[0], cores=tuple(range(8))), replace(HOSTS[1], cores=tuple(range(10, 18))))
FOUR = ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]


@pytest.mark.parametrize(
    ("hosts", "changes", "processes", "devices", "cores"),
    [
        (HOSTS, {"device": "cuda", "devices": 8}, 8, [[device] for device in FOUR * 2], [()] * 8),
        (HOSTS, {"device": "cuda", "devices": 8}, 2, [FOUR, FOUR], [(), ()]),
        (ODD, {"device": "cuda", "devices": 4}, 4,
         [["cuda:2"], ["cuda:3"], ["cuda:6"], ["cuda:1"]], [()] * 4),
        ((), {"device": "cuda", "devices": 4}, 4, [[device] for device in FOUR], [()] * 4),
        ((), {"device": "cuda", "devices": 4}, 1, [FOUR], [()]),
        (*(OF_CORES, {"devices": 8, "cores_per_device": 2}, 8, [["cpu"]] * 8),
         [(0, 1), (2, 3), (4, 5), (6, 7), (10, 11), (12, 13), (14, 15), (16, 17)]),
        (OF_CORES, {"devices": 8, "cores_per_device": 2}, 2, [["cpu"] * 4] * 2,
         [tuple(range(8)), tuple(range(10, 18))]),
        ((), {"cores": (2, 5), "devices": 4, "cores_per_device": 1}, 4, [["cpu"]] * 4,
         [(2,), (5,), (2,), (5,)]),
        ((), {"cores": (4, 7, 9), "devices": 3, "cores_per_device": 1}, 1, [["cpu"] * 3],
         [(4, 7, 9)]),
    ],
    ids=["each", "a whole host", "not the first", "alone", "alone whole", "cores",
         "cores of a host", "shared in turn", "alone, all"],
)  # fmt: skip
def test_devices_and_cores_have_the_numbers_of_their_host(
    hosts, changes, processes, devices, cores
):
    run = make_run(hosts, **changes)
    contexts = [worker_context_for(run, process, processes) for process in range(processes)]
    assert [list(context.devices) for context in contexts] == devices
    assert [context.cores for context in contexts] == cores


def test_a_single_machine_uses_the_loopback_interface():
    alone, far = (*hosts_of(make_run(devices=2)), hosts_of(make_run(HOSTS, devices=8))[0])
    assert set(network_variables(alone).values()) == {"lo"}
    assert network_variables(far) == {}
    assert set(network_variables(replace(far, interface="ib0")).values()) == {"ib0"}


def test_ports_are_free_and_distinct():
    rendezvous = create_rendezvous(hosts_of(make_run(devices=8)))
    ports = {*rendezvous.ports, rendezvous.server_port}
    assert len(ports) == len(rendezvous.ports) + 1 == 9
    assert all(1024 <= port < 65536 for port in ports)
    assert (rendezvous.master_address, rendezvous.master_port) == (LOOPBACK, rendezvous.ports[0])
    assert rendezvous.server_endpoint == f"{LOOPBACK}:{rendezvous.server_port}"


def test_ports_of_another_machine_are_not_guessed():
    # RFC 5737 reserves this address for documentation.
    hosts = hosts_of(make_run((replace(HOSTS[0], address="192.0.2.1"), HOSTS[1]), devices=8))
    with pytest.raises(
        ValueError,
        match=(
            r"^host node-a: the ports of 192\.0\.2\.1 cannot be probed from this machine \([^\n]+\Z"
        ),
    ):
        create_rendezvous(hosts)


def asynchronous(framework, hosts=(), devices=2):
    return commands(
        framework,
        make_run(hosts, devices=devices, update="async"),
        PORTS[:devices],
        server_port=4000,
    )


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_asynchronous_workers_and_their_server_get_the_servers_address(framework):
    ((*servers, last),) = asynchronous(framework, devices=1)
    assert {(command.is_server, command.arguments) for command in servers} == {
        (True, (*SERVER, "run.json"))
    }
    assert {command.env[SERVER_VARIABLE] for command in (*servers, last)} == {"127.0.0.1:4000"}
    assert {command.env["OMP_NUM_THREADS"] for command in servers} == {"1"}
    assert (last.is_server, last.arguments[-3:]) == (False, (*WORKER, "run.json"))
    assert not any(
        command.is_server for command in commands(framework, make_run(devices=1), (2000,))[0]
    )


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_there_is_one_server_on_the_first_host(framework):
    first, second = asynchronous(framework, HOSTS, 8)
    assert [command.name for command in first if command.is_server][-1] == "server"
    assert not [command for command in second if command.is_server]
    hosts = hosts_of(make_run(HOSTS, devices=8))
    assert framework.hosts_of_processes(hosts, "cuda", "async") == (hosts[0],) * 4 + (hosts[1],) * 4


def test_mxnet_has_a_scheduler_a_server_and_a_worker_for_each_device():
    (by_name,) = [{command.name: command.env for command in host} for host in asynchronous(MXNET)]
    assert list(by_name) == ["scheduler", "server", "worker-0", "worker-1"]
    roles = [values.get("DMLC_ROLE", values.get(ROLE_VARIABLE)) for values in by_name.values()]
    assert roles == ["scheduler", "server", "worker", "worker"]
    for values in by_name.values():
        # With DMLC_ROLE, importing MXNet in a server would start to serve without an optimizer.
        assert ("DMLC_ROLE" in values) is ("RANK" in values)
        assert (values["DMLC_PS_ROOT_URI"], values["DMLC_PS_ROOT_PORT"]) == ("127.0.0.1", "4000")
        assert (values["DMLC_NUM_SERVER"], values["DMLC_NUM_WORKER"]) == ("1", "2")
    ranks = [
        (by_name[f"worker-{rank}"]["RANK"], by_name[f"worker-{rank}"]["WORLD_SIZE"])
        for rank in (0, 1)
    ]
    assert ranks == [("0", "2"), ("1", "2")]
