"""The digest of a run's code is equal for equal files, and differs for any different file."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from suite.common.paths import PROJECT
from suite.common.source_code import blob_id, code_folders, digest_below, expected_digest
from suite.control.open_reasons import code_deviation
from suite.control.run_status import RunStatus
from suite.control.supervise import Supervisor
from suite.environments.environment import Environment
from suite.launch.mxnet import MXNET
from suite.results.logs.reader import read
from suite.worker.heartbeat import WorkerStatus
from tests.helpers import TOY_RUN, events, only, run_suite, status
from tests.suite.two_hosts import make_run

REPORT = """
import json, sys
sys.argv = ["worker"]
import suite.worker.main
from suite.common.source_code import loaded_code
exec(compile(open(sys.stdin.fileno()).read(), "", "exec"))
code = loaded_code("ncf", "pytorch")
print(json.dumps([code.digest, code.root]))
"""


def report(folder, first="", path=()):
    """Run `first`, import the code in `folder` in a new process, and return the digest and root."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, folder)))}
    done = subprocess.run(
        [sys.executable, "-c", REPORT],
        input=first,
        capture_output=True,
        text=True,
        env=env,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """Return a second checkout with the same code."""
    folder = tmp_path_factory.mktemp("second")
    skipped = shutil.ignore_patterns("__pycache__")
    for name in ("suite", "workloads", "conf"):
        shutil.copytree(PROJECT / name, folder / name, ignore=skipped)
    shutil.copy(PROJECT / "setup.cfg", folder)
    return folder


@pytest.fixture
def second(copied, tmp_path):
    return shutil.copytree(copied, tmp_path / "second")


def test_the_digest_depends_only_on_content(second):
    expected = expected_digest("ncf", "pytorch")
    assert report(PROJECT) == [expected, str(PROJECT)]
    assert report(second) == [expected, str(second)]
    assert digest_below(second, "ncf", "pytorch") == expected
    # The example is from "Pro Git", section "Git Objects".
    assert blob_id(b"what is up, doc?") == "bd9dbf5aae1a3862dd1526723246b20206e5fc37"
    assert expected_digest("ssd", "pytorch") != expected


EDITS = {
    "a line": lambda folder: (folder / "workloads/ncf/workload.py").open("a").write("\n"),
    "a file that is imported late": (
        lambda folder: (folder / "workloads/common/late.py").write_text("x = 1\n")
    ),
    "a file that is gone": lambda folder: (folder / "suite/agent/facts.py").unlink(),
    "a file of a framework": lambda folder: (
        (folder / "workloads/frameworks/pytorch/__init__.py").open("a").write("\n")
    ),
    "a new file directly in workloads": lambda folder: (folder / "workloads/new.py").touch(),
    "two files exchanged": lambda folder: (
        (folder / "suite/machine/cgroups.py").rename(folder / "kept.py"),
        (folder / "suite/machine/gpu_cores.py").rename(folder / "suite/machine/cgroups.py"),
        (folder / "kept.py").rename(folder / "suite/machine/gpu_cores.py"),
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_checkout_has_a_different_digest(second, edit):
    EDITS[edit](second)
    assert digest_below(second, "ncf", "pytorch") != expected_digest("ncf", "pytorch")


def test_code_that_no_worker_imports_does_not_count(second):
    (second / "suite/results/extra.py").write_text("x = 1\n")
    (second / "workloads/ssd/extra.py").write_text("x = 1\n")
    (second / "docs").mkdir()
    assert digest_below(second, "ncf", "pytorch") == expected_digest("ncf", "pytorch")


STRANGERS = {
    "a module from another folder": (
        "sys.path.insert(0, 'extra'); import workloads; workloads.__path__.insert(0, 'extra')\n"
        "import workloads.stranger"
    ),
    "a file in place of a module": (
        "import importlib.util as u\nspec = u.spec_from_file_location('workloads.ncf.workload',"
        " 'extra/stranger.py')\nsys.modules['workloads.ncf.workload'] = m ="
        " u.module_from_spec(spec); spec.loader.exec_module(m)"
    ),
    "compiled code alone": (
        "import py_compile; py_compile.compile('extra/stranger.py', 'workloads/common/bare.pyc')\n"
        "import workloads.common.bare"
    ),
}


@pytest.mark.parametrize("trick", STRANGERS)
def test_modules_from_elsewhere_change_the_digest(second, trick):
    (second / "extra").mkdir()
    (second / "extra/stranger.py").write_text("x = 1\n")
    digest, _ = report(second, STRANGERS[trick])
    assert digest != expected_digest("ncf", "pytorch")


def test_a_worker_imports_only_code_in_code_folders(second):
    """Keep the expected digest after all modules of the workload were imported."""
    imports = "import suite.common.registry as r; r.load_workload('ncf')"
    assert report(second, imports)[0] == expected_digest("ncf", "pytorch")
    assert {Path(name).parts[0] for name in code_folders("ncf", "pytorch")} == {
        "suite",
        "workloads",
    }


CODES = {
    "equal": (("expected", "expected"), None),
    "the second differs": (("expected", "other"), 1),
    "all differ": (("other", "other"), 0),
    "a version that reports no digest": (("", ""), 0),
    "a worker that reports no digest": (("expected", ""), 1),
}


@pytest.mark.parametrize("case", CODES)
@pytest.mark.parametrize("status_name", ["success", "target_missed"])
def test_a_run_is_open_if_any_of_its_workers_had_other_code(tmp_path, case, status_name):
    digests, worker = CODES[case]
    run = replace(make_run(devices=2, update="async", folder=str(tmp_path)), code_digest="expected")
    supervisor = Supervisor(run, MXNET, Environment("mxnet-cpu", (), sys.executable), None)
    log = tmp_path / f"result_{run.run_index}.txt"
    records = [("suite_run", '{"profile": "demo"}'), ("run_stop", "null")]
    form = ':::MLLOG {{"key": "{}", "value": {}, "time_ms": 1500000000000, "metadata": {{}}}}\n'
    log.write_text("".join(form.format(key, value) for key, value in records))
    beats = [
        WorkerStatus(process, 1, code_digest=digest, code_root="/other")
        for process, digest in enumerate(digests)
    ]
    deviation = code_deviation(run, beats, supervisor.environment.name)
    assert supervisor._append_open_reasons(
        RunStatus(status_name), [deviation] if deviation else []
    ) == RunStatus(status_name)
    reasons = [value["reasons"] for key, value, _ in events(log) if key == "suite_open"]
    if worker is None:
        assert reasons == []
        return
    ((reason,),) = reasons
    assert reason.startswith(
        f"worker {worker} imported other code than the controller's checkout {PROJECT} has"
    )
    assert "suite env create mxnet-cpu" in reason
    assert read(log).division == "open"


@pytest.mark.slow
def test_workers_of_another_checkout_make_the_run_open(second, tmp_path):
    """Run workers with the code of a second checkout, as if two checkouts shared an environment."""
    path = "environment.command_prefix=[env,'PYTHONPATH={}']"
    toy = PROJECT / "tests" / "data" / "toy"
    (second / "workloads/common/late.py").write_text("x = 1\n")
    for name, folder in (("same", PROJECT), ("other", second)):
        prefix = path.format(os.pathsep.join(map(str, (toy, folder))))
        run_suite(tmp_path, *TOY_RUN, f"output={tmp_path / name}", prefix, toy=True, exits=0)
    logs = {
        name: only((tmp_path / name).glob("*/run_0")) / "result_0.txt" for name in ("same", "other")
    }
    found = {
        name: [value for key, value, _ in events(log) if key == "suite_open"]
        for name, log in logs.items()
    }
    assert found["same"] == []
    ((reason,),) = (value["reasons"] for value in found["other"])
    assert str(second) in reason
    assert status(logs["other"].parent)["status"] == "success"
    runs = {
        name: next(value for key, value, _ in events(log) if key == "suite_run")
        for name, log in logs.items()
    }
    expected = json.loads((logs["other"].parent / "run.json").read_text())["code_digest"]
    assert runs["same"]["code_digest"] == expected
    assert runs["other"]["code_digest"] != expected
