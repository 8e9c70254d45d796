"""Runs on two machines made of namespaces: launchers, equality with one machine, and faults."""

import contextlib
import itertools
import json
import os
import random
import re
import signal
import sys
import time

import psutil
import pytest

from tests.helpers import (
    PROJECT,
    TOY,
    TOY_RUN,
    events,
    only,
    run_events,
    status,
    suite_here,
    wait_until,
)

SSH = ("launch=ssh", "launch.hosts=[node1,node2]")
SLEEPING = (*TOY_RUN, "gpus=2", "nodes=2", "workload.misbehave=sleep", "stop=epochs:1000")
OURS = ("suite.agent", "suite.worker", "run_suite.py")


@pytest.fixture(scope="module")
def two(machines_of_module):
    return machines_of_module(2, ssh=True, slurm=True)


@pytest.fixture
def folder(two, tmp_path):
    folder = two.folder / tmp_path.name
    folder.mkdir()
    return folder


def surroundings(folder, **changes):
    path = os.pathsep.join([str(TOY), str(PROJECT), os.environ.get("PYTHONPATH", "")])
    variables = {
        "PYTHONPATH": path,
        "SUITE_LOG_DIR": str(folder / "logs"),
        "COLUMNS": "200",
        "CUDA_VISIBLE_DEVICES": "",
    }
    return {**variables, **changes}


def command(*words):
    return [sys.executable, PROJECT / "run_suite.py", *words]


def settled(two):
    """Return whether both nodes are idle and SLURM has no pending messages.

    A message that was under way while a cable was unplugged fails seconds after the cable is back.
    SLURM then marks the node as silent, and steps wait for a minute.
    """
    waiting = int(re.search(r"Agent count:\s*(\d+)", two.hub.run(["sdiag"]).stdout)[1])
    return not waiting and two.hub.run(["sinfo", "-hr", "-tidle", "-o%D"]).stdout.strip() == "2"


def run(two, folder, *words, before=(), check=True, machine=None, **changes):
    """Run a command to its end, on the hub or on `machine`.

    If `check` is true, the command must succeed.
    """
    if before:
        wait_until("SLURM", lambda: settled(two))
    env = surroundings(folder, **changes)
    return (machine or two.hub).run(
        [*before, *command(*words)], folder, timeout=240, check=check, env=env
    )


@contextlib.contextmanager
def started(two, folder, *words, before=()):
    """Start a run and yield its folder and its controller once it trains on both machines."""
    if before:
        wait_until("SLURM", lambda: settled(two))
    controller = two.hub.start(
        [*before, *command(*words)], folder / "out", folder, env=surroundings(folder)
    )

    def trains():
        assert controller.client.poll() is None, (folder / "out").read_text()
        heartbeats = [
            json.loads(path.read_text()) for path in folder.glob("logs/*/*/run_0/.worker-?.json")
        ]
        return len(heartbeats) == 2 and all(
            heartbeat["phase"] == "train" and heartbeat["step"] > 2 for heartbeat in heartbeats
        )

    try:
        wait_until("training", trains)
        yield only(folder.glob("logs/*/*/run_0")), controller
    finally:
        controller.end()


def ours(two):
    found = {}
    for process in itertools.chain.from_iterable(two.processes().values()):
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if any(word in line for word in OURS) and process.status() != psutil.STATUS_STOPPED:
                found[process.pid] = line[:200]
    return found


def listening(two):
    """Return the addresses on which Python processes of all nodes listen."""
    lines = [
        line.split()
        for node in two.nodes
        for line in node.run(["ss", "-Hltnp"]).stdout.splitlines()
    ]
    found = {line[3].rpartition(":")[0] for line in lines if "python" in line[-1]}
    assert found
    return found


def clean(two):
    wait_until("all processes end", lambda: not ours(two))


def processes_on(machine, *words):
    found = []
    for process in machine.processes():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if line.startswith(words[0]) and all(word in line for word in words):
                found.append(process)
    return found


def process_on(machine, *words):
    return min(processes_on(machine, *words), key=lambda process: process.create_time())


def ended(run_folder):
    """Return `status.json` once it contains how the run ended.

    A fault that is not detected would end as `hung` only after minutes.
    """
    return wait_until(
        "the end", lambda: (found := status(run_folder))["status"] != "running" and found
    )


def assert_node2_is_named(run_folder, reason):
    found = ended(run_folder)
    assert (found["status"], found["process"], found["node"]) == ("rank_died", 1, "node2"), found
    assert re.search(reason, found["reason"]), found


WAYS = {
    "ssh": ((), SSH),
    "slurm": (("salloc", "-N2", "--quiet"), ()),
    "external": (
        ("salloc", "-N2", "--quiet", "srun", "-N2", "--ntasks-per-node=1"),
        ("launch=external",),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_run_on_two_machines(two, folder, way):
    """Check that the run has the folder of one machine, and that no file is left elsewhere."""
    before, words = WAYS[way]
    token = "c0ffee-of-this-test"
    done = run(
        two, folder, *TOY_RUN, "gpus=2", "nodes=2", *words, before=before, SUITE_LAUNCH_TOKEN=token
    )
    assert token not in done.stdout + done.stderr
    kept = [
        path for root in (folder, *(node.tmp for node in two.nodes)) for path in root.rglob("*")
    ]
    assert not [path for path in kept if path.is_file() and token.encode() in path.read_bytes()]
    run_folder = only(folder.glob("logs/*/*/run_0"))
    files = {path.name for path in run_folder.iterdir() if path.is_file()}
    assert files == {
        "run.json",
        "result_0.txt",
        "metrics.jsonl",
        "status.json",
        "worker-0.log",
        "worker-1.log",
    }
    assert status(run_folder)["status"] == "success"
    recorded = json.loads((run_folder / "run.json").read_text())
    found = [(host["name"], host["address"], host["interface"]) for host in recorded["hosts"]]
    assert found == [(f"node{n}", f"10.77.0.{n}", "eth0") for n in (1, 2)]
    assert [node["host"] for node in recorded["hardware"]["nodes"]] == ["node1", "node2"]
    (identity,) = [
        value for key, value, _ in events(run_folder / "result_0.txt") if key == "suite_run"
    ]
    assert (identity["devices"], identity["nodes"]) == (2, 2)
    assert [key for key, _, _ in run_events(run_folder / "result_0.txt")].count("run_stop") == 1
    clean(two)
    assert not any(list(node.tmp.glob("suite-run-*")) for node in two.nodes)


def test_a_submitted_command_runs_on_two_machines(two, folder):
    """Check a command on the login node that becomes one job on two machines."""
    words = (
        *TOY_RUN,
        "gpus=2",
        "nodes=2",
        "launch=slurm",
        "launch.slurm.sbatch=[--time=5]",
        f"output={folder / 'out'}",
    )
    done = run(two, folder, *words)
    number = re.search(r"submitted as job (\d+)", done.stdout).group(1)
    for follow in (
        f"squeue -j {number}",
        f"tail -F {folder}/out/slurm-{number}.log",
        f"scancel {number}",
    ):
        assert follow in done.stdout
    run_folder = wait_until("a run", lambda: list(folder.glob("out/*/run_0/status.json")))[0].parent
    assert ended(run_folder)["status"] == "success"
    assert {path.name for path in run_folder.glob("worker-*.log")} == {
        "worker-0.log",
        "worker-1.log",
    }
    wait_until("the job", lambda: not two.hub.run(["squeue", "-h"]).stdout)
    clean(two)


def test_logs_on_a_file_system_that_only_the_controller_sees(two, folder):
    """Check a log folder in node1's local /tmp while half of the workers run on node2."""
    run(two, folder, *TOY_RUN, "gpus=2", "nodes=2", *SSH, "output=/tmp/mine", machine=two["node1"])
    names = {path.name for path in two["node1"].tmp.glob("mine/*/run_0/*")}
    assert {"worker-0.log", "worker-1.log", "result_0.txt"} <= names
    assert not (two["node2"].tmp / "mine").exists()


@pytest.mark.framework
@pytest.mark.parametrize(
    ("framework", "ways"),
    [
        ("pytorch", ("slurm",)),
        *(pytest.param(name, ("slurm",), marks=pytest.mark.full)
          for name in ("tensorflow", "mxnet", "jax")),
        pytest.param("pytorch", ("ssh", "external"), marks=pytest.mark.full),
    ],
)  # fmt: skip
def test_two_machines_train_bitwise_like_one_machine(two, folder, framework, ways):
    """Check that NCF's loss on two machines is bitwise equal to the loss on one machine.

    The sum of two gradients does not depend on their order.
    """
    # The fastest framework trains to the target, so that its log can be checked.
    whole = framework == "mxnet"
    ncf = (
        "workload=ncf",
        f"framework={framework}",
        "profile=demo",
        "gpus=2",
        "device=cpu",
        "seed=1",
    )
    ncf = ncf if whole else (*ncf, "stop=epochs:1")
    run(two, folder, *ncf, "oversubscribe=true", f"output={folder / 'one'}")
    for way in ways:
        before, words = WAYS[way]
        words = (*words, "nodes=2", f"output={folder / way}")
        run(two, folder, *ncf, *words, before=before, SUITE_LAUNCH_TOKEN="secret")
    first, *losses_of_two = (
        blocks(only(folder.glob(f"{name}/*/run_0"))) for name in ("one", *ways)
    )
    assert losses_of_two == [first] * len(ways)
    run_folder = only(folder.glob(f"{ways[0]}/*/run_0"))
    for node in ("node1", "node2"):
        assert (
            json.loads((run_folder / node / "topology.json").read_text())["kernel"]
            == os.uname().release
        )
        header, *samples = map(
            json.loads, (run_folder / node / "telemetry.jsonl").read_text().splitlines()
        )
        assert header["window"] == "run_start to run_stop"
        assert samples
        assert all(sample["run_processes"] > 0 for sample in samples)
    if whole:
        suite_here(folder, "check", run_folder / "result_0.txt", exits=0)


@pytest.mark.framework
@pytest.mark.full
def test_a_run_resumes_on_both_machines(two, folder):
    """Check a checkpoint that one machine writes and both machines restore."""
    words = (
        "workload=ncf",
        "framework=mxnet",
        "profile=demo",
        "gpus=2",
        "device=cpu",
        "seed=1",
        "stop=epochs:6",
    )
    words = (*words, "nodes=2", "checkpoint=every:1", *SSH)
    done = run(two, folder, *words, f"output={folder / 'whole'}")
    assert done.returncode == 0, done.stdout + done.stderr
    cut = (*words, f"output={folder / 'cut'}")
    controller = two.hub.start(command(*cut), folder / "out", folder, env=surroundings(folder))
    wait_until(
        "two checkpoints", lambda: len(list(folder.glob("cut/*/run_0/checkpoint_*.npz"))) == 2
    )
    controller.end()
    clean(two)
    done = run(two, folder, *cut, "resume=true")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "resumed from" in done.stdout, done.stdout
    whole, cut = (only(folder.glob(f"{name}/*/run_0")) for name in ("whole", "cut"))
    assert blocks(cut) == blocks(whole)
    assert len(list(cut.glob("checkpoint_*.npz"))) == 2


@pytest.mark.framework
@pytest.mark.full
def test_a_job_that_slurm_starts_again_resumes(two, folder):
    """Check a job after a preemption, which `scontrol requeue` simulates."""
    words = (
        "workload=ncf",
        "framework=mxnet",
        "profile=demo",
        "gpus=2",
        "device=cpu",
        "seed=1",
        "stop=epochs:20",
    )
    words = (
        *words,
        "nodes=2",
        "checkpoint=every:1",
        "launch=slurm",
        "launch.slurm.sbatch=[--time=9]",
    )
    done = run(two, folder, *words, f"output={folder / 'cut'}")
    number = re.search(r"submitted as job (\d+)", done.stdout).group(1)
    wait_until(
        "two checkpoints", lambda: len(list(folder.glob("cut/*/run_0/checkpoint_*.npz"))) == 2
    )
    two.hub.run(["scontrol", "requeue", number])
    wait_until("it resumes", lambda: list(folder.glob("cut/*/superseded/run_0-1")), 300)
    assert ended(only(folder.glob("cut/*/run_0")))["status"] == "success"
    keys = [key for key, _, _ in events(only(folder.glob("cut/*/run_0/result_0.txt")))]
    assert (keys.count("run_start"), keys.count("suite_continued")) == (1, 1)


def blocks(run_folder):
    rows = map(json.loads, (run_folder / "metrics.jsonl").read_text().splitlines())
    return [(row["loss"], row["quality"]) for row in rows]


def agent_on(machine):
    return process_on(machine, "", "-m suite.agent")


SILENT = r"machine node2 is lost: silent for \d+ s \(launch\.lease_seconds=5\)"
FAULTS = {
    "rank": (
        lambda two: process_on(two["node2"], "", "suite.worker.main").kill(),
        "process 1 on node2 died",
    ),
    "agent": (lambda two: agent_on(two["node2"]).kill(), "machine node2 is lost"),
    "silent agent": (lambda two: agent_on(two["node2"]).suspend(), SILENT),
    "cable": (lambda two: two.unplug(two["node2"]), SILENT),
}


@contextlib.contextmanager
def inflicted(two, kind):
    """Inflict a fault, yield its expected reason in `status.json`, and plug the cable in again."""
    inflict, reason = FAULTS[kind]
    inflict(two)
    try:
        yield reason
    finally:
        two.plug(two["node2"])


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        *((kind, "ssh") for kind in FAULTS),
        *(pytest.param(kind, "slurm", marks=pytest.mark.full) for kind in FAULTS),
    ],
)
def test_a_fault_is_named_and_nothing_is_left(two, folder, way, kind):
    before, words = WAYS[way]
    with started(two, folder, *SLEEPING, *words, before=before) as (run_folder, controller):
        with inflicted(two, kind) as reason:
            assert_node2_is_named(run_folder, reason)
            clean(two)
        assert controller.client.wait(240) == 1


@pytest.fixture
def on_a_small_disk(two):
    """Return a function that builds the start of a command with little disk space on node2.

    The function's argument is the free space in bytes on the disk where node2 keeps the files of a
    run.
    """
    node, mount_point = two["node2"], "/run/small"
    node.run(
        ["sh", "-ec", 'mkdir -p "$0" && mount -t tmpfs -o size=1m,mode=1777 none "$0"', mount_point]
    )
    export = (
        f'[ "$(hostname)" = node2 ] && export TMPDIR={mount_point};'
        ' SUITE_LAUNCH_TOKEN=secret exec "$0" "$@"'
    )

    def words(left_bytes):
        node.run(
            ["sh", "-c", f"head -c {(1 << 20) - left_bytes} /dev/zero > {mount_point}/filled"],
            check=False,
        )
        return (*WAYS["external"][0], "sh", "-c", export)

    yield words
    node.run(["umount", "--lazy", mount_point])


@pytest.mark.full
def test_a_disk_without_room_on_one_machine_is_named_at_the_start(two, folder, on_a_small_disk):
    words = (*TOY_RUN, "gpus=2", "nodes=2", "launch=external")
    done = run(two, folder, *words, before=on_a_small_disk(8192), check=False)
    assert done.returncode in (1, 2), done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert re.search("node2.*no space left", done.stdout + done.stderr, re.IGNORECASE), (
        done.stdout + done.stderr
    )
    clean(two)


@pytest.mark.full
def test_agents_killed_at_any_moment_leave_no_process_and_a_run_that_can_be_repeated(two, folder):
    rng = random.Random(1)
    for number in range(10):
        words = (
            *TOY_RUN,
            "gpus=2",
            "nodes=2",
            "workload.misbehave=slow",
            *SSH,
            f"output={folder / str(number)}",
        )
        controller = two.hub.start(
            command(*words), folder / f"{number}.out", folder, env=surroundings(folder)
        )
        time.sleep(rng.uniform(0.5, 5.0))
        for agent in processes_on(two[rng.choice(["node1", "node2"])], "", "-m suite.agent")[:1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                agent.kill()
        assert controller.client.wait(240) in (0, 1, 2)
        clean(two)
        run(two, folder, *words, "resume=true")
        assert status(only(folder.glob(f"{number}/*/run_0")))["status"] == "success"


@pytest.mark.framework
@pytest.mark.parametrize("kind", [pytest.param("rank", marks=pytest.mark.full), "cable"])
def test_a_survivor_that_fails_first_is_not_named(two, folder, kind):
    """Check that the lost machine is named, although a process on node1 fails first.

    Gloo's processes fail in the middle of an epoch if a peer is gone.
    """
    words = ("workload=ncf", "profile=demo", "gpus=2", "nodes=2", "device=cpu", "stop=epochs:500")
    with started(two, folder, *words, before=WAYS["slurm"][0]) as (run_folder, _):
        assert listening(two) <= {node.address for node in two.nodes}
        with inflicted(two, kind) as reason:
            assert_node2_is_named(run_folder, reason)
            clean(two)


@pytest.mark.parametrize("victim", ["client", "controller"])
@pytest.mark.parametrize("way", ["ssh", "slurm"])
def test_all_processes_end_if_the_client_or_controller_is_killed(two, folder, way, victim):
    """Check that all processes end if an ssh or SLURM client or the controller is killed.

    The status names a killed client. No process is left to record the end of the controller.
    """
    before, words = WAYS[way]
    client = {"ssh": "ssh -T", "slurm": "srun --overlap"}[way]
    killed = {
        "client": (client, "node2"),
        "controller": (f"{sys.executable} {PROJECT / 'run_suite.py'}",),
    }[victim]
    with started(two, folder, *SLEEPING, *words, before=before) as (run_folder, _):
        process_on(two.hub, *killed).kill()
        if victim == "client":
            assert_node2_is_named(run_folder, f"{client.split()[0]} ended with killed by SIGKILL")
        clean(two)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(
            pytest.param(extra, marks=pytest.mark.full)
            for extra in (signal.SIGUSR1, signal.SIGUSR2)
        ),
    ],
    ids=lambda number: number.name,
)
def test_a_signal_interrupts_a_run_that_can_be_resumed(two, folder, number):
    with started(two, folder, *SLEEPING, *SSH) as (run_folder, controller):
        process_on(two.hub, f"{sys.executable} {PROJECT / 'run_suite.py'}").send_signal(number)
        assert controller.client.wait(240) == 130
    assert status(run_folder)["status"] == "interrupted"
    output = run_folder.parent.parent
    assert f"output={output} resume=true" in (folder / "out").read_text()
    shorter = (*SLEEPING[:-2], "stop=epochs:1", *SSH, f"output={output}")
    refused = run(two, folder, *shorter, "resume=true", check=False)
    assert "is unfinished, and this command does not match it" in refused.stderr
    alone = run(two, folder, f"output={output}", "resume=true", "dry_run=true", check=False)
    assert f"{run_folder}" in alone.stdout
    done = run(two, folder, *shorter, check=False)
    assert "stop=epochs_1" in done.stdout
    clean(two)


def test_scancel_interrupts(two, folder):
    with started(two, folder, *SLEEPING, before=WAYS["slurm"][0]) as (run_folder, _):
        two.hub.run(["scancel", "--user", str(os.getuid())])
        found = ended(run_folder)
        assert found["status"] == "interrupted", found
        clean(two)


def test_two_runs_at_once_on_the_same_machines_succeed(two, folder):
    both = []
    for name in ("left", "right"):
        words = command(*TOY_RUN, "gpus=2", "nodes=2", *SSH, f"output={folder / name}")
        both.append(two.hub.start(words, folder / f"{name}.out", folder, env=surroundings(folder)))
    assert [controller.client.wait(120) for controller in both] == [0, 0]
    assert len(list(folder.glob("*/*/run_0/result_0.txt"))) == 2


REFUSED = {
    "unreachable": (
        ("launch=ssh", "launch.hosts=[node1,nowhere]"),
        "nowhere is lost: ssh ended with exit code 255: ",
    ),
    "refused key": (
        ("launch=ssh", "launch.hosts=[node1,nobody@node2]"),
        "nobody@node2: Permission denied",
    ),
    "silence": (SSH, "node2"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_unreachable_machines_are_refused_before_a_run_starts(two, folder, kind):
    words, message = REFUSED[kind]
    if kind == "silence":
        two.unplug(two["node2"])
    try:
        done = run(two, folder, *TOY_RUN, "gpus=2", "nodes=2", *words, check=False)
    finally:
        two.plug(two["node2"])
    assert done.returncode != 0
    line = only(line for line in done.stderr.splitlines() if line.startswith("run_suite.py: "))
    assert message in line
    assert "Traceback" not in done.stderr
    assert not list(folder.glob("logs/*/*/run_0"))


def test_a_machine_that_loses_all_its_processes_is_named(machines, tmp_path):
    two = machines(2, ssh=True)
    with started(two, two.folder, *SLEEPING, *SSH) as (run_folder, _):
        two["node2"].kill_all()
        assert_node2_is_named(run_folder, "node2")
        clean(two)
