"""Pipes, devices and endless files as input: commands end without much memory or a traceback."""

import contextlib
import os
import resource
import signal
from pathlib import Path

import pytest

from testing.fake_logs import write_run
from tests.helpers import refusal, run_suite_here, suite_here

SPECIAL = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "sparse": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
}
RUN_FILES = (
    "telemetry.jsonl",
    "run.json",
    "status.json",
    "topology.json",
    "metrics.jsonl",
    "result_0.txt",
)
MORE_BYTES, SECONDS = 4 << 30, 120  # V8 draws the figures and reserves more memory than it uses.

pytestmark = pytest.mark.usefixtures("bounded")


@pytest.fixture(params=SPECIAL.values(), ids=SPECIAL)
def make(request):
    return request.param


@pytest.fixture
def bounded():
    """Turn a test that blocks, or needs more memory than MORE_BYTES, into an error."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MORE_BYTES, limits[1]))
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"still busy after {SECONDS} s"))
    signal.alarm(SECONDS)
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_AS, limits)
        stack.callback(signal.alarm, 0)
        yield


def test_special_files_next_to_a_log_do_not_stop_commands(tmp_path, make):
    for name in RUN_FILES:
        run = write_run(tmp_path / "logs", f"ncf-{name}", status={"status": "success"})
        (run / name).unlink(missing_ok=True)
        make(run / name)
    for arguments in (
        ["check"],
        ["package", "--submitter", "me"],
        ["report"],
        ["tables"],
        ["compare"],
    ):
        folders = (
            [tmp_path / "logs", tmp_path / "logs"]
            if arguments == ["compare"]
            else [tmp_path / "logs"]
        )
        done = suite_here(
            tmp_path,
            *arguments,
            *folders,
            *([tmp_path / "out"] if arguments[0] == "package" else []),
        )
        assert done.returncode in (0, 1, 2), done.stderr
        assert "Traceback" not in done.stderr
        if arguments == ["report"]:
            assert f"{len(RUN_FILES) - 1}" in done.stdout, "logs next to special files are read"


def test_special_files_in_arguments_are_refused_in_one_line(tmp_path, make):
    make(tmp_path / "x")
    (tmp_path / "conf/hyperparameters/ncf").mkdir(parents=True)
    make(tmp_path / "conf/hyperparameters/ncf/mine.yaml")
    user_set = (f"--config-dir={tmp_path / 'conf'}", "workload.hyperparameter_set=mine")
    for done, name in (
        (
            run_suite_here(
                tmp_path, "workload=ncf", "launch=ssh", f"launch.hostfile={tmp_path / 'x'}"
            ),
            tmp_path / "x",
        ),
        (
            run_suite_here(tmp_path, "workload=ncf", "profile=demo", "dry_run=true", *user_set),
            "mine.yaml",
        ),
        (suite_here(tmp_path, "check", tmp_path / "x"), tmp_path / "x"),
        (
            suite_here(tmp_path, "check", "--rules", tmp_path / "x", tmp_path / "conf"),
            tmp_path / "x",
        ),
        (
            suite_here(tmp_path, "scaling", "demo", "--devices", "8", "--system", tmp_path / "x"),
            tmp_path / "x",
        ),
    ):
        assert str(name) in refusal(done)
