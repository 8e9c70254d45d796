"""Cells of a study that cannot run: all remaining cells run, and the table shows the reason."""

import json
from types import SimpleNamespace

import pytest

from suite.common.study_file import Study, StudyCell
from suite.control import supervise
from suite.control.cells import PlannedCell, impossible, write_study
from suite.launch.hosts import AvailableHost
from suite.plan import capacity
from suite.plan.capacity import TooLarge, check_memory
from suite.plan.job import Plan
from suite.plan.load import load_workload_and_framework
from suite.plan.settings import resolve_settings
from suite.plan.unsupported import MissingResourceError, UnsupportedError
from tests import helpers
from tests.helpers import run_suite_here, suite_here

STUDY = Study("own", "One.", "full", axes={"gpus": ("1", "2")})


def test_a_cell_that_cannot_run_is_kept_with_its_reason(tmp_path):
    cells = [StudyCell(STUDY, {"gpus": "1"}), StudyCell(STUDY, {"gpus": "2"})]
    lacking = Plan(
        None, (MissingResourceError("gpus=2: there is one"), ValueError("no data")), None
    )
    assert impossible(Plan(None, (), None), cells[0]) is None
    error = impossible(lacking, cells[1])
    write_study(tmp_path, [PlannedCell("one", cells[0], None), PlannedCell("two", cells[1], error)])
    written = json.loads((tmp_path / "study-own.json").read_text())
    lacks = {"job": "two", "values": {"gpus": "2"}, "shown": "–", "reason": "gpus=2: there is one"}
    assert written["cells"] == [{"job": "one", "values": {"gpus": "1"}}, lacks]


def test_only_unsupported_cells_of_a_study_are_skipped():
    assert (
        impossible(
            Plan(None, (ValueError("mistyped"), UnsupportedError("no")), None), StudyCell(STUDY, {})
        )
        is None
    )
    assert impossible(Plan(None, (UnsupportedError("no"),), None), None) is None


class Large:
    """A workload whose activations need 1 GiB per sample."""

    @staticmethod
    def activation_bytes(settings):
        return 1 << 30

    @staticmethod
    def state_bytes(settings):
        return 0


def settings(**changes):
    of_two_gpus = {
        "device": "cuda",
        "mode": "train",
        "global_batch_size": 64,
        "devices": 2,
        "nodes": 1,
    }
    return SimpleNamespace(**of_two_gpus | changes)


def test_a_batch_that_does_not_fit_a_gpu_is_found_beforehand(monkeypatch):
    gpus = [SimpleNamespace(memory_bytes=80 << 30), SimpleNamespace(memory_bytes=16 << 30)]
    monkeypatch.setattr(capacity.devices, "gpus", lambda: gpus)
    # 16 samples per device need exactly the memory of the smaller GPU.
    check_memory(Large, settings(global_batch_size=32))
    check_memory(Large, settings(mode="forward"))
    with pytest.raises(TooLarge) as error:
        check_memory(Large, settings())
    assert str(error.value).endswith(
        " 32 GiB, but only 16.0 GiB of memory per GPU are available. Set batch=global:16"
    )
    assert error.value.shown == "OOM"
    # Without a visible GPU, its memory cannot be checked.
    monkeypatch.setattr(capacity.devices, "gpus", lambda: [])
    check_memory(Large, settings(global_batch_size=10**9))


def test_the_gpu_memory_of_each_machine_is_checked(monkeypatch):
    monkeypatch.setattr(capacity.devices, "gpus", lambda: [SimpleNamespace(memory_bytes=1 << 30)])
    nodes = [
        AvailableHost(f"{gib}", "", "", (), {"gpus": [{"memory_bytes": gib << 30}]})
        for gib in (80, 16)
    ]
    check_memory(Large, settings(global_batch_size=32, nodes=2), nodes)
    with pytest.raises(
        TooLarge, match=r"16\.0 GiB of memory per GPU are available\. Set batch=global:16$"
    ):
        check_memory(Large, settings(nodes=2), nodes)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("transport=no_p2p",), "transport=no_p2p: CPU cores have no peer-to-peer links"),
        (("precision=fp16",), "precision (for ncf in pytorch)=fp16: allowed: "),
        (("precision=tf32",), "precision=tf32: only GPUs support it"),
        (("nodes=2", "gpus=2"), "nodes=2: no machines are named. Set launch.hosts=[a,b]"),
        (("gpus=4096",), "gpus=4096: 4096 CPU device(s)"),
        (
            ("gpus=2", "batch=global:1", "oversubscribe=true"),
            "batch=global:1: 1 sample(s) per step cannot be divided",
        ),
    ],
)
def test_a_limit_of_the_machine_or_framework_is_an_unsupported_error(overrides, message):
    config = helpers.composed("workload=ncf", "profile=demo", "device=cpu", *overrides)
    with pytest.raises(UnsupportedError) as error:
        resolve_settings(config, *load_workload_and_framework(config))
    assert str(error.value).startswith(message)


WITHOUT_LINKS = {"NCCL_P2P_DISABLE"}


TRANSPORTS = {
    "auto": set(),
    "no_p2p": WITHOUT_LINKS,
    "network": {*WITHOUT_LINKS, "NCCL_SHM_DISABLE"},
}


@pytest.mark.parametrize(("transport", "env"), TRANSPORTS.items())
def test_the_transport_changes_only_the_environment_of_the_workers(
    monkeypatch, tmp_path, transport, env
):
    started = []
    command = SimpleNamespace(arguments=(), env={"OWN": "1"}, name="worker-0", is_server=False)
    environment = SimpleNamespace(
        map_path=str, command=lambda *words: list(words), of_process=lambda *_: environment
    )
    host = SimpleNamespace(interface="", address="127.0.0.1")
    machine = SimpleNamespace(
        folder=tmp_path, start=lambda name, argv, worker_env, private: started.append(worker_env)
    )
    monkeypatch.setattr(
        supervise, "create_rendezvous", lambda hosts, ports: SimpleNamespace(hosts=[host])
    )
    supervisor = supervise.Supervisor.__new__(supervise.Supervisor)
    supervisor.run_spec, supervisor.hosts, supervisor.environment = (
        SimpleNamespace(settings=SimpleNamespace(transport=transport)),
        [host],
        environment,
    )
    supervisor.framework = SimpleNamespace(
        commands=lambda *_: [command], listens_everywhere=lambda settings: False
    )
    supervisor.monitor = SimpleNamespace(
        controls=[machine], children={}, servers=set(), command_hosts={}
    )
    supervisor._start()
    (worker_env,) = started
    assert worker_env["OWN"] == "1"
    assert TRANSPORTS["network"] & worker_env.keys() == env


@pytest.mark.slow
def test_a_study_succeeds_although_some_cells_do_not_run(tmp_path):
    """Check a plugin's study with a run that exhausts memory and a cell with too many devices."""
    output = tmp_path / "out"
    done = run_suite_here(tmp_path, "study=toy_endings", f"output={output}", toy=True, exits=0)
    assert "toy-plain-demo-4096dev-workload.misbehave=no: –: gpus=4096" in done.stdout
    table = [
        line
        for line in done.stdout.splitlines()
        if line.startswith("| no ") or line.startswith("| oom ")
    ]
    assert [[cell.strip() for cell in line.split("|")[1:4]] for line in table][1:] == [
        ["oom", "1 (a)", "OOM"],
        ["no", "4096 (b)", "not possible"],
        ["oom", "4096 (b)", "not possible"],
    ]
    assert "(a) process 0: MemoryError: no more" in done.stdout
    assert "samples/s" in done.stdout
    again = run_suite_here(
        tmp_path, "study=toy_endings", f"output={output}", "resume=true", toy=True, exits=0
    )
    assert "finished earlier" in again.stdout
    printed = suite_here(tmp_path, "report", output).stdout
    assert "## Study toy\\_endings" in printed or "## Study toy_endings" in printed
    html = tmp_path / "page.html"
    assert suite_here(tmp_path, "report", output, "--html", html).returncode == 0
    assert "Study toy_endings" in html.read_text()


def test_a_study_without_a_runnable_cell_is_refused(tmp_path):
    done = run_suite_here(tmp_path, "study=toy_endings", "gpus=4096", toy=True, exits=2)
    assert done.stderr.startswith("run_suite.py: gpus=4096: 4096 CPU device(s)")
    assert not (tmp_path / "logs").exists()
