"""Each benchmark starts as its first lines say, with --help: all in one process, where each finds what it would find alone."""

import json
import re
import subprocess
import sys

import pytest

from suite.common.registry import load_framework
from suite.common.run_config import EnvironmentConfig
from suite.environments.environment import resolve
from tests.helpers import PROJECT

SCRIPTS = [*(PROJECT / "benchmarks").glob("*.py"), *(PROJECT / "benchmarks" / "gpu").glob("*.py")]
COMMAND = re.compile(r"^\s*python (?:-m (?P<module>benchmarks\.[\w.]+)|(?:benchmarks/)?(?P<script>\w+\.py))", re.M)
NEED_PYTORCH = {"benchmarks.gpu.right", "benchmarks.gpu.roofline", "benchmarks.gpu.why"}
STARTS = """
import contextlib, io, json, runpy, sys
project, commands = json.loads(sys.argv[1])
path, failed = sys.path[1:], {}
for command in commands:
    script = command.endswith(".py")
    sys.path[:] = [f"{project}/benchmarks" if script else project, *path]
    for name, module in [*sys.modules.items()]:
        lies_in = str(getattr(module, "__file__", ""))
        if lies_in.startswith((f"{project}/benchmarks/", f"{project}/testing/", f"{project}/tests/")):
            del sys.modules[name]
    sys.argv = [command, "--help"]
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            if script:
                runpy.run_path(f"{project}/{command}", run_name="__main__")
            else:
                runpy.run_module(command, run_name="__main__", alter_sys=True)
        failed[command] = "went on"
    except SystemExit as ended:
        if ended.code or "usage: " not in said.getvalue():
            failed[command] = f"{ended.code}: {said.getvalue()}"
    except Exception as error:
        failed[command] = repr(error)
print(json.dumps(failed))
"""


def commands():
    """What the first lines of the benchmarks say to type: `benchmarks/x.py`, or `benchmarks.x` after `-m`."""
    texts = [path.read_text(encoding="utf-8") for path in SCRIPTS]
    docs = [text.split('"""')[1] for text in texts if text.startswith('"""')]
    found = [match for doc in docs for match in COMMAND.finditer(doc)]
    return {match["module"] or f"benchmarks/{match['script']}" for match in found}


def started(commands, python, folder):
    """A command that did not print its help, to what it did."""
    command = [*python, "-E", "-c", STARTS, json.dumps([str(PROJECT), sorted(commands)])]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_each_script_says_how_it_is_started():
    """But for the plain loops in benchmarks/bare, which import nothing of the suite and take what their callers give."""
    ran = {path.relative_to(PROJECT) for path in SCRIPTS if '__name__ == "__main__"' in path.read_text("utf-8")}
    names = {path: ".".join(path.with_suffix("").parts).removesuffix(".__main__") for path in ran}
    assert len(ran) > 25
    assert [path for path, name in names.items() if not {str(path), name} & commands()] == []


def test_each_benchmark_starts_as_its_first_lines_say(tmp_path):
    assert started(commands() - NEED_PYTORCH, [sys.executable], tmp_path) == {}


@pytest.mark.framework
def test_those_of_pytorch_start_in_its_environment(tmp_path):
    environment = resolve(EnvironmentConfig(), load_framework("pytorch").environments["cpu"])
    assert started(NEED_PYTORCH, environment.command(), tmp_path) == {}
