"""The NCF demo in real processes, checked by the stock checker.

PyTorch trains to the target. TensorFlow, JAX and MXNet train for an epoch.
"""

import json
import os
import re
import signal
import subprocess
import sys

import psutil
import pytest

from suite.compliance import generated_rules
from suite.launch.registered_frameworks import title_of
from suite.worker.heartbeat import read_heartbeat
from tests.helpers import (
    PROJECT,
    alive,
    can_connect,
    events,
    only,
    run_suite,
    status,
    suite,
    suite_env,
    wait_until,
    where_grpc_is_open,
)

FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet")
DEMO = ("workload=ncf", "profile=demo")
TWO_CORES = len(os.sched_getaffinity(0)) >= 2
SWEEPS = {
    "pytorch": ("1,2" if TWO_CORES else "1",),
    "tensorflow,jax,mxnet": ("2" if TWO_CORES else "1", "stop=epochs:1"),
}
"""Map frameworks to numbers of devices and further overrides.

test_ncf_frameworks.py checks for every framework that two devices compute the same as one.
"""
RUNS = (
    {"pytorch": 2, "tensorflow": 1, "jax": 1, "mxnet": 1}
    if TWO_CORES
    else dict.fromkeys(FRAMEWORKS, 1)
)


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    """Run sweeps over frameworks and devices, and return the output of the first sweep."""
    tmp_path, printed = tmp_path_factory.mktemp("demos"), []
    for frameworks, (devices, *words) in SWEEPS.items():
        overrides = (
            f"framework={frameworks}",
            f"gpus={devices}",
            "seed=1",
            *where_grpc_is_open(),
            *words,
        )
        done = run_suite(tmp_path, "-m", *DEMO, *overrides, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
        printed.append(done.stdout)
    return tmp_path, printed[0]


def run_folders(tmp_path):
    return sorted((tmp_path / "logs").glob("*/*/run_0"))


def scores_of(folder):
    """Return the HR@10 of a run's evaluations."""
    return [json.loads(line)["quality"]["hr_at_10"] for line in (folder / "metrics.jsonl").open()]


def test_the_target_is_reached_but_not_in_the_first_epoch(demos):
    tmp_path, output = demos
    folders = run_folders(tmp_path)
    assert len(folders) == sum(RUNS.values())
    assert {status(folder)["status"] for folder in folders} == {"success"}
    for folder in folders:
        scores = scores_of(folder)
        assert scores[0] < 0.3
        assert (
            len(scores) == 1
            if "pytorch" not in folder.parent.name
            else scores[-1] >= 0.635 > scores[-2]
        )
    assert "Not an MLPerf result" in output
    assert "speedup" in output or not TWO_CORES


@pytest.mark.full
@pytest.mark.parametrize("framework", FRAMEWORKS[1:])
def test_other_frameworks_reach_the_target(tmp_path, framework):
    words = (
        "-m",
        *DEMO,
        f"framework={framework}",
        "gpus=1,2",
        "oversubscribe=true",
        "seed=1",
        *where_grpc_is_open(),
    )
    assert run_suite(tmp_path, *words, timeout=900).returncode == 0
    folders = run_folders(tmp_path)
    assert [status(folder)["status"] for folder in folders] == ["success"] * 2
    for first, *_, before, last in map(scores_of, folders):
        assert first < 0.3
        assert last >= 0.635 > before


def test_quality_agrees_between_frameworks_and_device_counts(demos):
    """Check runs with the same weights, batches and negatives.

    The HR@10 after the first epoch differs by at most a few of 2,000 users.
    """
    first = {}
    for folder in run_folders(demos[0]):
        row = json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])
        first[folder.parent.name] = row
    quality = [row["quality"]["hr_at_10"] for row in first.values()]
    assert max(quality) - min(quality) <= 0.01, first
    losses = [row["loss"] for row in first.values()]
    assert max(losses) - min(losses) <= 1e-3 * min(losses), first


def test_suite_check_and_the_stock_checker_accept_the_logs(demos):
    """Check that `suite check` and the stock checker accept the same rules."""
    logs = [folder / "result_0.txt" for folder in run_folders(demos[0])]
    done = suite(demos[0], "check", *logs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "demo target has no relation to MLPerf" in done.stdout
    assert "ncf_demo" in done.stdout
    rules = demos[0] / "ncf_demo.yaml"
    rules.write_text(generated_rules.rule_text("ncf_demo"))
    command = [
        sys.executable,
        "-m",
        "mlperf_logging.compliance_checker",
        "--ruleset",
        "0.7.0",
        "--config",
        rules,
    ]
    command += ["--werror", "--log_output", demos[0] / "checker.log", logs[0]]
    stock = subprocess.run(command, capture_output=True, text=True, cwd=demos[0])
    assert stock.returncode == 0, stock.stdout + stock.stderr


def test_suite_report_shows_every_row(demos):
    done = suite(demos[0], "report", demos[0] / "logs")
    assert done.returncode == 0, done.stderr
    # The table of a single framework has no framework column.
    to_target, short = done.stdout.split("## NCF demo")[1:]
    assert len(re.findall(r"^\| +[12] ", to_target, re.MULTILINE)) == RUNS["pytorch"]
    assert all(
        short.count(f"\n| {title_of(framework)}") == RUNS[framework] for framework in FRAMEWORKS[1:]
    )


def test_log_and_run_json_contain_the_settings(demos):
    for folder in run_folders(demos[0]):
        found = {key: value for key, value, _ in events(folder / "result_0.txt")}
        assert found["submission_org"] == "DEMO - not an MLPerf result"
        assert (found["submission_status"], found["submission_division"]) == ("research", "open")
        assert found["suite_run"]["labels"][:2] == ["demo", "cpu"]
        assert found["cache_clear"] is True
        assert (found["train_samples"], found["eval_samples"]) == (83_545, 2_000)
        assert found["suite_gradients"] == {"bytes": 4 * 176_241, "tensors": 12, "buckets": 1}
        run = json.loads((folder / "run.json").read_text())
        assert (run["schema"], run["settings"]["rules"]) == (2, "v0.5")
        assert set(run["settings"]["hyperparameter_sources"]) >= {
            "learning_rate",
            "beta1",
            "global_batch_size",
        }
        assert run["versions"]["mlperf-logging"] == "4.1.68"
        assert run["hardware"]["cpu_model"]
        assert set(run["git"]) == {"commit", "dirty"}
        assert run["environment"]["python"]


@pytest.mark.parametrize(
    ("framework", "controller_polls"),
    [
        *((framework, "at once") for framework in ("pytorch", "tensorflow")),
        ("pytorch", "when all are gone"),
        pytest.param("tensorflow", "when all are gone", marks=pytest.mark.full),
        *(
            pytest.param("mxnet", when, marks=pytest.mark.full)
            for when in ("at once", "when all are gone")
        ),
        pytest.param("jax", "at once", marks=pytest.mark.full),
    ],
)
def test_a_killed_process_ends_the_run_and_is_named(tmp_path, framework, controller_polls):
    """Check that the controller detects the killed process in every framework.

    Otherwise, the run's watchdog would end the run later, with a different status.
    """
    command = [
        sys.executable,
        str(PROJECT / "run_suite.py"),
        *DEMO,
        f"framework={framework}",
        "gpus=2",
    ]
    command += [
        "oversubscribe=true",
        "workload.target=0.99",
        "workload.max_epochs=1000",
        *where_grpc_is_open(),
    ]
    controller = subprocess.Popen(
        command, env=suite_env(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        workers = wait_for_workers(tmp_path, controller, 2)
        # gRPC of JAX maps IPv4 addresses into IPv6.
        addresses = [text.removeprefix("::ffff:") for text in listening(controller.pid)]
        everywhere = [address for address in addresses if not address.startswith("127.")]
        if framework != "tensorflow" or not where_grpc_is_open():
            assert not everywhere, everywhere
        if framework == "tensorflow" and not where_grpc_is_open():
            servers = json.loads(workers[0].environ()["TF_CONFIG"])["cluster"]["worker"]
            stranger = 65534 if os.getuid() == 0 else os.getuid()
            assert not any(
                can_connect(int(server.rpartition(":")[2]), stranger) for server in servers
            )
        if controller_polls == "at once":
            os.kill(workers[1].pid, signal.SIGKILL)
        else:
            controller.send_signal(signal.SIGSTOP)
            workers[0].suspend()
            os.kill(workers[1].pid, signal.SIGKILL)
            workers[0].resume()
            # MXNet's remaining worker waits for its server.
            ending = workers[1:] if framework == "mxnet" else workers
            wait_until("they are gone", lambda: not any(map(alive, ending)))
            controller.send_signal(signal.SIGCONT)
        output, _ = controller.communicate(timeout=240)  # before the watchdog, which needs 300 s
    finally:
        controller.kill()  # also a stopped one
    assert controller.returncode == 1
    assert b"process 1" in output, output.decode()
    assert not any(map(alive, workers))
    folder = only(run_folders(tmp_path))
    assert status(folder)["status"] == "rank_died"
    assert status(folder)["process"] == 1


def wait_for_workers(tmp_path, controller, count):
    """Return the worker processes in order, after the first evaluation."""

    def beaten():
        assert controller.poll() is None, controller.communicate()[0].decode()
        return [folder for folder in run_folders(tmp_path) if (folder / "metrics.jsonl").exists()]

    try:
        folder = only(wait_until("the first evaluation", beaten))
        return [psutil.Process(read_heartbeat(folder, number).pid) for number in range(count)]
    except BaseException:
        controller.kill()
        raise


def listening(pid):
    """Return the addresses that a process and its descendants listen on."""
    processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    sockets = [socket for process in processes for socket in process.net_connections("inet")]
    return [socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN]
