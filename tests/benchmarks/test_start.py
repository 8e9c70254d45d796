"""Each benchmark starts as its first lines say, with --help: all in one process, where each finds what it would find alone."""

import json
import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
COMMAND = re.compile(r"^\s*python (?:-m (?P<module>benchmarks\.[\w.]+)|(?P<script>benchmarks/\w+\.py))", re.MULTILINE)
NEED_A_FRAMEWORK = {"benchmarks.gpu.right", "benchmarks.gpu.why"}
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
    texts = [path.read_text(encoding="utf-8") for path in (PROJECT / "benchmarks").rglob("*.py")]
    docs = [text.split('"""')[1] for text in texts if text.startswith('"""')]
    found = [match for doc in docs for match in COMMAND.finditer(doc)]
    return sorted({match["module"] or match["script"] for match in found} - NEED_A_FRAMEWORK)


def test_each_benchmark_starts_as_its_first_lines_say(tmp_path):
    started = commands()
    assert {"benchmarks/gnmt_step.py", "benchmarks/image_feeding.py", "benchmarks.two_machines"} <= set(started)
    command = [sys.executable, "-E", "-c", STARTS, json.dumps([str(PROJECT), started])]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert (ended.returncode, json.loads(ended.stdout or "null")) == (0, {}), ended.stderr
