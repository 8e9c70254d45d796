"""Temporary folders of killed commands are removed, and finished runs cannot be hidden.

The next call removes the folder that a killed command left. A finished run that was moved to
`superseded` cannot be omitted from a package.
"""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from suite.common import registry
from suite.packaging.write import PackageOptions, package
from suite.results.logs.collect import collect
from testing.fake_logs import write_run
from tests.helpers import suite_env, suite_here, wait_until
from tests.suite.packaging.package_logs import our_run

KILLED = """import os, signal, sys
from suite.packaging import write
from workloads.api.fingerprints import FINGERPRINTS, PUBLISHED_DATASETS
from workloads.common.data import generated
# tests/conftest.py sets the same fingerprints.
FINGERPRINTS.update(dict.fromkeys(PUBLISHED_DATASETS, {"verified": "written by tests"}))
def killed(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)
write._check_written_tree = killed
generated.manifests.publish = killed
from suite.cli import main
main(sys.argv[1:])
"""


def killed(tmp_path, *arguments):
    """Run `suite …`, kill it before its output is renamed, and return the new names in tmp_path."""
    before = set(os.listdir(tmp_path))
    command = [sys.executable, "-c", KILLED, *map(str, arguments)]
    done = subprocess.run(
        command, env=suite_env(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return set(os.listdir(tmp_path)) - before


@pytest.fixture
def runs(tmp_path):
    """Return the folder with the logs of a result that can be packaged."""
    return ncf_runs(tmp_path / "logs")


def ncf_runs(folder):
    for index in range(registry.load_workload("ncf").runs_required):
        our_run(folder / "job", index)
    return folder


OPTIONS = ("--submitter", "EXAMPLE")


def test_the_next_package_removes_the_folder_of_a_killed_command(tmp_path, runs):
    (tmp_path / ".out.mine").mkdir()
    (first,) = killed(tmp_path, "package", runs, tmp_path / "out", *OPTIONS)
    assert first.startswith(".out.")
    (second,) = killed(tmp_path, "package", runs, tmp_path / "out", *OPTIONS)
    assert second != first
    assert not (tmp_path / first).exists(), "the second call removes what the first left"
    other_names = killed(tmp_path, "package", runs, tmp_path / "other", *OPTIONS)
    suite_here(tmp_path, "package", runs, tmp_path / "out", *OPTIONS, exits=0)
    assert set(os.listdir(tmp_path)) == {
        "logs",
        "out",
        ".out.mine",
        *other_names,
    }, "folders of other commands are kept"
    assert not list((tmp_path / "out").rglob(".suite*"))


def test_a_refused_package_removes_the_folder_of_a_killed_command(tmp_path, runs):
    killed(tmp_path, "package", runs, tmp_path / "out", *OPTIONS)
    shutil.rmtree(runs / "job" / "run_1")
    suite_here(tmp_path, "package", runs, tmp_path / "out", *OPTIONS, exits=2)
    assert os.listdir(tmp_path) == ["logs"]


def test_the_next_demo_data_removes_the_folder_of_a_killed_call(tmp_path):
    arguments = ("data", "make-demo", "ml-demo", "--to", tmp_path / "data")
    (left,) = killed(tmp_path, *arguments)
    assert left.startswith(".data.")
    (again,) = killed(tmp_path, *arguments)
    assert again != left
    assert not (tmp_path / left).exists()
    suite_here(tmp_path, *arguments, exits=0)
    assert os.listdir(tmp_path) == ["data"]


def test_existing_demo_data_remove_the_folder_of_a_killed_call(tmp_path):
    arguments = ("data", "make-demo", "ml-demo", "--to", tmp_path / "data")
    (left,) = killed(tmp_path, *arguments)
    shutil.copytree(tmp_path / left, tmp_path / "kept")
    suite_here(tmp_path, *arguments, exits=0)
    (tmp_path / "kept").rename(tmp_path / left)
    assert "already generated" in suite_here(tmp_path, *arguments, exits=0).stdout
    assert os.listdir(tmp_path) == ["data"]


def test_two_concurrent_calls_keep_the_folders_of_each_other(tmp_path):
    arguments = ("data", "make-demo", "ml-demo", "--to", str(tmp_path / "data"))
    stopped = KILLED.replace("SIGKILL", "SIGSTOP").replace(" = killed", " = stopping(publish)")
    stopped = stopped.replace(
        "write._check_written_tree = stopping(publish)\n",
        "publish = generated.manifests.publish\n"
        "def stopping(after):\n    return lambda *arguments: (killed(), after(*arguments))[1]\n",
    )
    command = [sys.executable, "-c", stopped, *arguments]
    with subprocess.Popen(
        command, env=suite_env(tmp_path), cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        wait_until("it stops", lambda: "T" in state_of(process.pid))
        suite_here(tmp_path, *arguments, exits=0)
        assert len(os.listdir(tmp_path)) == 2, "the folder of the stopped process is kept"
        process.send_signal(signal.SIGCONT)
        assert "ml-demo" in process.communicate(timeout=120)[0]
    assert os.listdir(tmp_path) == ["data"]


def state_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def move_to_superseded(runs, metadata):
    """Write a log into superseded/ whose run_stop has this metadata; None omits run_stop."""
    source = runs / "job" / "run_0" / "result_0.txt"
    folder = runs / "job" / "superseded" / "run_0-1"
    folder.mkdir(parents=True)
    lines = [line for line in source.read_text().splitlines() if '"run_stop"' not in line]
    stop = {"key": "run_stop", "value": None, "time_ms": 1, "metadata": metadata}
    lines += [f":::MLLOG {json.dumps(stop)}"] if metadata is not None else []
    (folder / "result_0.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    "metadata", [{"status": "success"}, {"status": "aborted"}, {"status": "success", "reason": ""}]
)
@pytest.mark.parametrize("status", [None, "interrupted", "success"])
def test_a_finished_run_in_superseded_refuses_the_package(tmp_path, runs, metadata, status):
    move_to_superseded(runs, metadata)
    if status is not None:
        (runs / "job" / "superseded" / "run_0-1" / "status.json").write_text(
            json.dumps({"status": status})
        )
    with pytest.raises(
        ValueError,
        match=r"is a finished run in superseded/, but finished runs count. Move its folder",
    ):
        package([runs], tmp_path / "out", PackageOptions(submitter="EXAMPLE"))
    assert os.listdir(tmp_path) == ["logs"]


@pytest.mark.parametrize("status", ["success", "target_missed"])
@pytest.mark.parametrize("log", ["without its end", "compressed", "deleted"])
def test_status_json_shows_that_a_run_without_its_log_was_finished(tmp_path, runs, log, status):
    move_to_superseded(runs, None)
    folder = runs / "job" / "superseded" / "run_0-1"
    if log == "compressed":
        (folder / "result_0.txt.gz").write_bytes(
            gzip.compress((folder / "result_0.txt").read_bytes())
        )
    if log != "without its end":
        (folder / "result_0.txt").unlink()
    (folder / "status.json").write_text(json.dumps({"status": status}))
    with pytest.raises(ValueError, match="is a finished run in superseded/"):
        package([runs], tmp_path / "out", PackageOptions(submitter="EXAMPLE"))


@pytest.mark.parametrize(
    "metadata", [None, {"status": "aborted", "reason": "OSError: no space left"}]
)
def test_an_unfinished_attempt_in_superseded_is_counted_in_a_note(tmp_path, runs, metadata):
    move_to_superseded(runs, metadata)
    packaged = package([runs], tmp_path / "out", PackageOptions(submitter="EXAMPLE"))
    assert any(note.startswith("not counted: 1 attempts") for note in packaged.notes)


@pytest.mark.parametrize("place", ["ncf/run_1/result_1.txt", "loop", "ncf/loop"])
@pytest.mark.parametrize(
    "command", ["report", "check", "export tensorboard", "compare --published dgx1-article"]
)
def test_a_log_or_folder_that_links_to_itself_is_reported_without_a_traceback(
    tmp_path, place, command
):
    write_run(tmp_path / "logs", "ncf")
    link = tmp_path / "logs" / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(link)
    name, *options = command.split()
    tracker = [options.pop(0)] if name == "export" else []
    for path in (tmp_path / "logs", link):
        done = suite_here(tmp_path, name, *tracker, path, *options)
        assert "Traceback" not in done.stdout + done.stderr
        assert path != link or done.returncode == 2
    done = suite_here(tmp_path, "package", tmp_path / "logs", tmp_path / "out")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert [run.status for run in collect([tmp_path / "logs"])].count("success") == 1
