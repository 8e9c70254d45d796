"""The import contracts apply to a workload that they do not mention."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import PROJECT

GOOD = {
    "workloads/tides/__init__.py": '"""A new workload."""\n',
    "workloads/tides/workload.py": "from workloads.api import Workload as Workload\n",
    "workloads/tides/pytorch.py": (
        "import torch as torch\n\nfrom workloads.tides import workload as workload\n"
    ),
}
WRONG = [
    *(
        ("workloads.tides.workload", name)
        for name in ("tensorflow", "pandas", "workloads.ncf.metrics", "suite")
    ),
    *(("workloads.zoo.workload", name) for name in ("pandas", "workloads.tides.pytorch")),
    ("workloads.maskrcnn.workload", "torch"),
    ("workloads.common.schedules", "workloads.tides"),
    ("suite.common.paths", "workloads.tides.workload"),
]
"""Modules, and modules that they must not import."""


@pytest.fixture
def copy(tmp_path):
    for folder in ("suite", "workloads"):
        shutil.copytree(
            PROJECT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    (tmp_path / "tests").mkdir()
    for name in ("pyproject.toml", "tests/__init__.py", "tests/import_contracts.py"):
        shutil.copy(PROJECT / name, tmp_path / name)
    for name, text in GOOD.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def lint(folder):
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    env = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "500"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_a_new_workload_is_checked_without_a_new_contract(copy):
    code, output = lint(copy)
    assert code == 0, output
    for importer, imported in WRONG:
        with (copy / f"{importer.replace('.', '/')}.py").open("a") as file:
            file.write(f"import {imported}\n")
    code, output = lint(copy)
    assert code == 1
    for importer, imported in WRONG:
        assert f"{importer} -> {imported} " in f"{output} ", (
            f"{imported} is allowed: {output[-3000:]}"
        )
