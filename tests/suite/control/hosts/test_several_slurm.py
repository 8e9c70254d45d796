"""Runs on two machines under SLURM: without root, with a time limit, and after a requeue."""

import pwd
import sys
from pathlib import Path

from tests.helpers import TOY_RUN, only, status, wait_until
from tests.suite.control.hosts import test_several as several

folder, two = several.folder, several.two  # fixtures
USER = "nobody"


def test_a_run_of_a_user_without_root(two, folder):
    """Check that all files of the run belong to the user, and that no temporary file is left."""
    for machine in two.all:
        machine.open_to_all(Path(sys.base_prefix))
    folder.chmod(0o777)
    user_env = {
        "HOME": "/tmp",
        "SUITE_DATA_DIR": str(folder / "data"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    words = ["salloc", "-N2", "--quiet", *several.command(*TOY_RUN, "gpus=2", "nodes=2")]
    two.hub.run(words, folder, user=USER, timeout=120, env=several.surroundings(folder, **user_env))
    run_folder = only(folder.glob("logs/*/*/run_0"))
    assert status(run_folder)["status"] == "success"
    assert {path.stat().st_uid for path in run_folder.rglob("*")} == {pwd.getpwnam(USER).pw_uid}
    several.clean(two)
    assert not any(list(node.tmp.glob("suite-run-*")) for node in two.nodes)


def job(two):
    return only(two.hub.run(["squeue", "--noheader", "--format=%i"]).stdout.split())


def test_a_job_that_slurm_puts_back_into_the_queue_resumes(two, folder):
    """Check a requeued job: its second start resumes the unfinished runs.

    `launch=slurm` submits the command.
    """
    words = [
        *TOY_RUN,
        "gpus=2",
        "nodes=2",
        "workload.misbehave=sleep",
        "stop=epochs:2",
        "launch=slurm",
    ]
    done = several.run(two, folder, *words)
    number = job(two)
    assert number in done.stdout
    run_folder = wait_until("the run starts", lambda: list(folder.glob("logs/*/*/run_0")))[0]
    wait_until("it trains", lambda: len(list(run_folder.glob(".worker-?.json"))) == 2)
    two.hub.run(["scontrol", "requeue", number])
    wait_until("it is interrupted", lambda: status(run_folder)["status"] == "interrupted")
    wait_until(
        "it waits", lambda: "PENDING" in two.hub.run(["scontrol", "show", "job", number]).stdout
    )
    # Without this, SLURM would wait for two minutes.
    two.hub.run(["scontrol", "update", f"JobId={number}", "StartTime=now"])

    def finished():
        folders = folder.glob("logs/*/*/run_0/status.json")
        return [path for path in folders if status(path.parent)["status"] == "success"]

    wait_until("the second attempt ends well", finished)
    wait_until("the job leaves", lambda: not two.hub.run(["squeue", "--noheader"]).stdout)
    assert not several.ours(two)
