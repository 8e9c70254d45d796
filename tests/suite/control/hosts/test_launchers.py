"""Machines of a command: host lists, hosts files, `launch=auto`, and ranks of MPI launchers."""

import os
import random
import shutil
import subprocess
from dataclasses import replace

import pytest

from suite.common.run_config import LaunchConfig
from suite.control.hosts import launchers
from suite.control.hosts.external import external_process, rank_here, refuse_ranks
from suite.control.hosts.open_hosts import agents_of, external_process_of, submits
from suite.control.hosts.submit import script, submit
from suite.launch.children import TOKEN
from tests.helpers import TOY_RUN, composed, one_line, run_suite_here

LAUNCH = LaunchConfig(wait_seconds=5.0, lease_seconds=5.0)
NCF = ("workload=ncf", "profile=demo")
ALLOCATION = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_NODELIST": "node[1-2,4]",
    "SLURM_JOB_CPUS_PER_NODE": "8(x2),4",
}
STEP = {"SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_STEP_NUM_TASKS": "2"}
MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["b", "a"], ["b", "a"]),
        (["node[1-3]"], ["node1", "node2", "node3"]),
        (["n[09-11]-ib", "x"], ["n09-ib", "n10-ib", "n11-ib", "x"]),
        (["r[1-2]n[1-2]"], ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_host_lists(texts, names):
    assert launchers.expanded(texts) == names


def test_host_lists_are_those_of_scontrol(tmp_path, monkeypatch):
    """Compare generated lists, in the form that SLURM writes, with the output of scontrol."""
    program = shutil.which("scontrol")
    if program is None:
        pytest.skip("slurm-client is not installed")
    (tmp_path / "slurm.conf").write_text("ClusterName=x\nSlurmctldHost=localhost\n")
    # Without a configuration file, scontrol does not start.
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    draw = random.Random(5)
    lists = []
    for _ in range(20):
        numbers = sorted(draw.sample(range(1, 120), draw.randint(1, 6)))
        width = draw.choice([1, 3])
        last = {number: number + draw.randint(0, 3) for number in numbers}
        ranges = ",".join(
            f"{n:0{width}d}" + f"-{end:0{width}d}" * (end > n) for n, end in last.items()
        )
        lists.append(f"{draw.choice(['node', 'gpu-a'])}[{ranges}]")
    for text in lists:
        done = subprocess.run(
            [program, "show", "hostnames", text], capture_output=True, text=True, check=True
        )
        assert launchers.expanded([text]) == list(dict.fromkeys(done.stdout.split())), text


@pytest.mark.parametrize(
    ("changes", "env", "by"),
    [
        ({}, {}, "local"), ({}, ALLOCATION, "slurm"), ({"hosts": ["a"]}, {}, "ssh"),
        ({"hosts": ["a"]}, ALLOCATION, "ssh"), ({"hostfile": "f"}, {}, "ssh"),
        ({"by": "local"}, ALLOCATION, "local"), ({"by": "external"}, STEP, "external"),
    ],
)  # fmt: skip
def test_auto_chooses_the_launcher_from_options_and_environment(changes, env, by):
    assert launchers.resolve_launcher_name(replace(LAUNCH, **changes), env) == by


def test_the_machines_of_a_hosts_file(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# ours\nb slots=8\n\na slots=8 # the old one\nnode[1-2]\n")
    assert launchers.machine_names(replace(LAUNCH, by="ssh", hostfile=str(file)), {}) == [
        "b",
        "a",
        "node1",
        "node2",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_hosts_file_of_any_editor(tmp_path, encoding, end):
    (tmp_path / "hosts").write_bytes(f"b slots=8{end}{end}a{end}".encode(encoding))
    assert launchers.machine_names(
        replace(LAUNCH, by="ssh", hostfile=str(tmp_path / "hosts")), {}
    ) == ["b", "a"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "launch=ssh needs machines. Set launch.hosts=[a,b] or launch.hostfile=FILE"),
        ({"hosts": ["a", "b", "a"]}, "launch: machine a is listed twice"),
        ({"hosts": ["a[1-"]}, "a[1-: expected a list of hosts"),
        *(
            ({"hosts": [f"-oProxyCommand={command}"]}, f"={command}: expected a host name")
            for command in ("touch x", "id")
        ),
        ({"hostfile": "/nowhere"}, "launch.hostfile=/nowhere: No such file or directory"),
        ({"hostfile": "/dev/null"}, "launch.hostfile=/dev/null: not a regular file"),
        ({"hosts": ["a"], "hostfile": "f"}, "launch.hosts and launch.hostfile are both set"),
    ],
)
def test_invalid_machine_lists_are_refused(changes, message):
    with pytest.raises(ValueError, match=one_line(message)):
        launchers.machine_names(replace(LAUNCH, by="ssh", **changes), {})


def test_the_arguments_of_srun_and_ssh():
    assert launchers.srun_argv("node2", ALLOCATION) == [
        "srun", "--overlap", "-N1", "-n1", "--nodelist=node2", "--cpus-per-task=4",
        "--cpu-bind=none", "--unbuffered", "--quiet",
    ]  # fmt: skip
    assert launchers.ssh_argv("me@b", 10.0) == [
        "ssh",
        "-T",
        "-o",
        "BatchMode=yes",
        "-o",
        "ConnectTimeout=8",
        "me@b",
    ]


def test_a_launcher_of_a_plugin_is_selected_by_its_name(tmp_path):
    words = (*TOY_RUN, "launch=here", f"output={tmp_path / 'out'}")
    done = run_suite_here(tmp_path, *words, "launch.hosts=[a]", toy=True, exits=0)
    assert "target reached" in done.stdout
    done = run_suite_here(
        tmp_path, *words, "launch.hosts=[a]", "nodes=2", "gpus=2", toy=True, exits=2
    )
    assert "nodes=2: 1 named (a). Set nodes=1 or less, or name more in launch.hosts" in done.stderr


LOCAL = (*NCF, "launch.by=local")


@pytest.mark.parametrize(
    ("jobs", "env"),
    [
        ([NCF], {}),
        ([NCF], ALLOCATION),
        # The first job cannot be divided among its machines and is refused later. The second job
        # runs on this machine.
        ([(*LOCAL, "gpus=1", "nodes=2"), (*LOCAL, "gpus=2", "nodes=1")], {}),
    ],
)
def test_one_machine_needs_no_agents(jobs, env):
    assert agents_of([composed(*words) for words in jobs], env=env) is None


@pytest.mark.parametrize(
    ("jobs", "env", "message"),
    [
        (
            [(*NCF, "gpus=4", "nodes=4")],
            ALLOCATION,
            "has 3 (node1, node2, node4). Set nodes=3 or less",
        ),
        ([(*LOCAL, "gpus=2", "nodes=2")], {}, "nodes=2: launch=local uses only this machine"),
        (
            [(*NCF, "launch.by=slurm"), (*NCF, "launch.by=ssh")],
            {},
            "launch: the jobs of a command must have the same",
        ),
    ],
)
def test_too_few_machines_are_refused(jobs, env, message):
    with pytest.raises(ValueError, match=one_line(message)):
        agents_of([composed(*words) for words in jobs], env=env)


def test_the_rank_comes_from_the_launchers_variables():
    assert rank_here({}) is None
    step, mpi = rank_here(STEP), rank_here(MPI)
    assert (step.number, step.local, step.count) == (1, 0, 2)
    assert (mpi.number, mpi.local, mpi.count) == (1, 1, 4)
    assert rank_here({"RANK": "0", "WORLD_SIZE": "2"}).local == 0
    with pytest.raises(
        ValueError, match=r"^launch: SLURM and OpenMPI .*SLURM_PROCID=1, OMPI_COMM_WORLD_RANK=1"
    ):
        rank_here({**STEP, **MPI})


MPI_LAUNCHERS = {
    "OpenMPI": MPI,
    "MPICH": {
        "PMI_RANK": "1",
        "PMI_SIZE": "4",
        "MPI_LOCALRANKID": "1",
        "MPI_LOCALNRANKS": "2",
        "PMI_FD": "8",
    },
    "MVAPICH": {
        "MV2_COMM_WORLD_RANK": "1",
        "MV2_COMM_WORLD_SIZE": "4",
        "MV2_COMM_WORLD_LOCAL_RANK": "1",
    },
    "MVAPICH 3": {
        "MVP_COMM_WORLD_RANK": "1",
        "MVP_COMM_WORLD_SIZE": "4",
        "MVP_COMM_WORLD_LOCAL_RANK": "1",
    },
    "Flux": {"FLUX_TASK_RANK": "1", "FLUX_JOB_SIZE": "4", "FLUX_TASK_LOCAL_ID": "1"},
    "jsrun": {
        "JSM_NAMESPACE_RANK": "1",
        "JSM_NAMESPACE_SIZE": "4",
        "JSM_NAMESPACE_LOCAL_RANK": "1",
    },
}
PALS = {"PMI_RANK": "1", "PMI_SIZE": "4", "PALS_RANKID": "1", "PALS_LOCAL_RANKID": "1"}


@pytest.mark.parametrize(
    ("launcher", "env"),
    [*MPI_LAUNCHERS.items(), ("MPICH", PALS)],
    ids=[*MPI_LAUNCHERS, "Cray PALS"],
)
def test_every_mpi_launcher_is_recognized(launcher, env):
    rank = rank_here(env)
    assert (rank.number, rank.local, rank.count, rank.source) == (1, 1, 4, launcher)
    with pytest.raises(
        ValueError, match=rf"^this is process 1 of 4 that {launcher} started\. Set launch=external"
    ):
        refuse_ranks(env)
    with pytest.raises(ValueError, match="needs a secret that all processes share"):
        external_process(replace(LAUNCH, by="external"), env)


def test_launchers_that_agree_are_one_launcher_and_a_single_process_does_not_count():
    """Check the precedence if several launchers have set variables.

    `srun --mpi=pmi2` sets the variables of SLURM and of PMI. A shell in `srun --pty` is process 0
    of 1.
    """
    mpich, slurm = (
        MPI_LAUNCHERS["MPICH"],
        {"SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_TASKS": "4"},
    )
    assert rank_here({**slurm, **mpich}).source == "SLURM"
    assert (
        rank_here(
            {
                **slurm,
                "SLURM_PROCID": "0",
                "SLURM_LOCALID": "0",
                "SLURM_STEP_NUM_TASKS": "1",
                **mpich,
            }
        ).number
        == 1
    )
    with pytest.raises(ValueError, match=r"^launch: MVAPICH and MPICH .*PMI_RANK=1"):
        rank_here({**mpich, **MPI_LAUNCHERS["MVAPICH"], "MV2_COMM_WORLD_RANK": "2"})
    with pytest.raises(ValueError, match=r"^launch: PMI_RANK=9: expected an integer from 0 to 3"):
        rank_here({**mpich, "PMI_RANK": "9"})
    assert rank_here({"PMI_RANK": "1"}) is None


LONG = "a" * 300


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"RANK": "x"}, "RANK=x: expected an integer from 0 to 1"),
        ({"RANK": "-1"}, "RANK=-1: expected an integer from 0 to 1"),
        ({"RANK": "2"}, "RANK=2: expected an integer from 0 to 1"),
        ({"LOCAL_RANK": "-1"}, "LOCAL_RANK=-1: expected an integer from 0 to 1"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE=0: expected an integer from 1"),
        ({"WORLD_SIZE": "9" * 20}, "WORLD_SIZE=9{20}: expected an integer from 1"),
        ({"MASTER_PORT": "99999"}, "MASTER_PORT=99999: expected an integer from 1 to 65535"),
        ({"MASTER_PORT": "abc"}, "MASTER_PORT=abc: expected an integer from 1 to 65535"),
        (
            {"MASTER_ADDR": LONG},
            "MASTER_ADDR=aaaa.*: expected a host name or an IP address of at most 253 characters",
        ),
        ({"MASTER_ADDR": f"{LONG[:64]}.org", "RANK": "1"}, "MASTER_ADDR=aaaa"),
        ({"MASTER_ADDR": "a b", "RANK": "1"}, "MASTER_ADDR=a b: expected a host name"),
    ],
)
def test_invalid_variables_of_launchers_are_named(changes, message):
    whole = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", TOKEN: "s", **changes}
    with pytest.raises(ValueError, match=rf"^launch: {message}"):
        external_process(LAUNCH, whole)


@pytest.mark.parametrize("launch", ["auto", "local", "slurm", "ssh"])
@pytest.mark.parametrize("around", [{}, ALLOCATION])
def test_one_of_several_processes_does_not_start_the_whole_run(launch, around):
    configs = [composed("workload=ncf", "profile=demo", f"launch.by={launch}", "launch.hosts=[a]")]
    with pytest.raises(
        ValueError, match=r"^this is process 1 of 2 that SLURM started\. Set launch=external"
    ):
        external_process_of(configs, {**around, **STEP})
    with pytest.raises(ValueError, match=r"^launch: RANK=-1: expected an integer from 0 to 1"):
        external_process_of(configs, {**around, "RANK": "-1", "WORLD_SIZE": "2"})
    refuse_ranks({**STEP, "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"})


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({}, "launch=external: no environment variable contains the rank of this process"),
        ({"RANK": "1"}, "launch=external: RANK is set, but WORLD_SIZE is not"),
        (
            STEP,
            (
                "launch=external needs a secret that all processes share. Run: export"
                " SUITE_LAUNCH_TOKEN="
            ),
        ),
        (
            {**MPI, "OMPI_COMM_WORLD_LOCAL_RANK": "0", TOKEN: "s"},
            "Set MASTER_ADDR to the address of its machine",
        ),
    ],
)
def test_an_external_launcher_with_missing_variables_is_refused(env, message):
    with pytest.raises(ValueError, match=one_line(message)):
        external_process(replace(LAUNCH, by="external"), env)


def test_the_submitted_script_runs_the_command(tmp_path):
    config = composed("workload=ncf", "profile=demo", "launch.by=slurm")
    assert submits([config], {})
    assert not submits([config], ALLOCATION)
    words = ["-m", "workload=ncf", "gpus=2,4", "nodes=1,2", "launch=slurm"]
    last = script(
        [*words, "launch.slurm.sbatch=[--partition=gpu]", "output=x"], tmp_path
    ).splitlines()[-1]
    assert last.startswith("exec ")
    assert last.endswith(
        f"run_suite.py -m workload=ncf gpus=2,4 nodes=1,2 launch=slurm output={tmp_path}"
        " resume=true"
    )


@pytest.mark.parametrize(
    ("when", "again"), [("off", False), ("every:1", True), ("every:30min", True)]
)
def test_a_job_that_writes_checkpoints_may_be_started_again(tmp_path, monkeypatch, when, again):
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\necho 7\n')
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    config = composed("workload=ncf", "profile=demo", "launch.by=slurm", f"checkpoint.when={when}")
    assert submit([], [config], tmp_path / "output")[0].startswith("submitted as job 7")
    assert ("--requeue" in (tmp_path / "words").read_text().split()) == again
