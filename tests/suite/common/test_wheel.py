"""The package that `pip install .` installs works outside the checkout.

It contains all needed files, and commands write into the current directory.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv

import pytest

from suite.common.paths import env_root
from tests.helpers import PROJECT, only

SOURCES = [
    "suite", "workloads", "conf", "environments", "logs/published", "run_suite.py", "setup.py",
    "setup.cfg", "pyproject.toml", "README.md", "LICENSE",
]  # fmt: skip
FOUND_IN_THE_CHECKOUT = (
    "PYTHONPATH",
    "PYTHONHOME",
    "SUITE_LOG_DIR",
    "SUITE_DATA_DIR",
    "SUITE_ENV_DIR",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return a virtual environment with the package, which uses this Python's dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    for name in SOURCES:
        target = folder / "source" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copyfile
        copy(PROJECT / name, target)
    env = {name: value for name, value in os.environ.items() if name not in FOUND_IN_THE_CHECKOUT}
    venv.create(folder / "env", with_pip=False, symlinks=True)
    site = only((folder / "env" / "lib").glob("python3.*/site-packages"))
    (site / "dependencies.pth").write_text(f"{sysconfig.get_paths()['purelib']}\n")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "-q",
        "--disable-pip-version-check",
        "--no-input",
        "--python",
        folder / "env",
    ]
    install = [
        "install",
        "--no-deps",
        "--no-build-isolation",
        "--ignore-installed",
        folder / "source",
    ]
    subprocess.run([*pip, *install], check=True, env=env)
    return folder / "env", site, env


@pytest.fixture
def call(installed, tmp_path):
    folder, _, env = installed

    def called(*arguments, **extra):
        command = [str(folder / "bin" / "suite"), *map(str, arguments)]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, env={**env, **extra}
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return called


def test_the_package_contains_locks_published_results_rules_and_sets(call, installed, tmp_path):
    listed = call("env", "list")
    assert f"environments in {tmp_path / '.envs'}\n" in listed
    for lock in ("torch", "tensorflow-cpu", "mxnet-cpu"):
        assert f"\n{lock} " in listed
    assert "\n- 7 results." in call("published", "list", "--workload", "ncf")
    assert call(
        "check", PROJECT / "tests/data/logs/ncf_demo.txt", "--rules", "ncf_demo"
    ).startswith("PASS")
    assert f"[{tmp_path / 'logs'}]" in call("run", "--help")
    text = call("run", "workload=ncf", "workload.hyperparameter_set=nvidia_v0.5", "--help")
    assert re.search(r"^  global_batch_size 1048576 +published: NVIDIA v0\.5", text, re.MULTILINE)
    assert not list(tmp_path.iterdir())  # These commands write no file.


@pytest.mark.framework
def test_ncfs_demo_runs_outside_the_checkout(call, installed, tmp_path):
    """Run one epoch and its evaluation; further epochs read the same files."""
    folder, site, env = installed
    copy = tmp_path / "copy"  # the files that `suite env create` copies into an environment
    code = (
        "import sys, pathlib; from suite.environments import suite_package as own;"
        " own.copy_into(pathlib.Path(sys.argv[1]))"
    )
    subprocess.run([folder / "bin" / "python", "-c", code, copy], check=True, env=env, cwd=tmp_path)
    copied = {path.name.partition("-")[0] for path in copy.iterdir()}
    assert copied == {"suite", "workloads", "run_suite.py", "time_to_target"}
    overrides = (
        "environment.name=custom",
        f"environment.python={env_root() / 'torch' / 'bin' / 'python'}",
        f"environment.command_prefix=['env','PYTHONPATH={copy}']",
    )
    output = call("run", "workload=ncf", "profile=demo", "stop=epochs:1", *overrides)
    run = only((tmp_path / "logs").glob("*/*/run_0"))
    assert f"{run.parent.name}/run_0" in output
    assert "finished" in output
    assert (tmp_path / "data" / "ml-demo" / "manifest.json").is_file()
    assert "PASS" in call("check", "logs")
    assert '"commit": null' in (run / "run.json").read_text()
    assert not [path.name for path in site.iterdir() if path.name in ("logs", "data", ".envs")]
