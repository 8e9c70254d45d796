"""Environments: their commands, their configurations, and `suite env`."""

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from suite.cli import main
from suite.commands import env
from suite.common.paths import PROJECT, data_root, env_root, log_root
from suite.common.run_config import EnvironmentConfig
from suite.environments import locks, venvs
from suite.environments.check_environment import damage
from suite.environments.environment import (
    Environment,
    describe,
    installed_versions,
    libraries_of,
    resolve,
)
from tests.helpers import subcommand


def test_a_command_has_its_prefix_first_and_mapped_paths():
    environment = Environment(
        "custom", ("docker", "run", "img"), "python3", {"/data": "/mnt/d", "/data/big": "/big"}
    )
    arguments = (
        "-m",
        "suite.worker.main",
        Path("/data/ml/run.json"),
        "/data/big/x",
        "/database",
        "--n=/data/x",
    )
    assert environment.command(*arguments) == [
        "docker", "run", "img", "python3", "-m", "suite.worker.main",
        "/mnt/d/ml/run.json", "/big/x", "/database", "--n=/data/x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("host", "inside"),
    [
        ("/a", "/x"), ("/a/", "/x"), ("/a/b/c d", "/y/c d"), ("/a/bc", "/x/bc"),
        ("/", "/"), ("a/b", "a/b"), ("/ä/ö", "/z/ö"),
    ],
)  # fmt: skip
def test_the_longest_mapped_folder_wins(host, inside):
    assert (
        Environment("e", (), "python", {"/a": "/x", "/a/b": "/y", "/ä/": "/z"}).map_path(host)
        == inside
    )


@pytest.mark.parametrize(
    ("variable", "function", "default"),
    [
        ("SUITE_DATA_DIR", data_root, "data"),
        ("SUITE_LOG_DIR", log_root, "logs"),
        ("SUITE_ENV_DIR", env_root, ".envs"),
    ],
)
def test_roots_follow_the_environment_variables(monkeypatch, tmp_path, variable, function, default):
    monkeypatch.delenv(variable, raising=False)
    assert function() == PROJECT / default
    monkeypatch.setenv(variable, str(tmp_path / "with späce"))
    assert function() == tmp_path / "with späce"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"name": "current", "command_prefix": ["numactl", "-N0"], "path_map": {}, "python": None},
         Environment("current", ("numactl", "-N0"), sys.executable, {})),
        ({"name": "custom", "command_prefix": ["srun"], "python": "python3",
          "path_map": {"/a": "/b"}},
         Environment("custom", ("srun",), "python3", {"/a": "/b"})),
    ],
)  # fmt: skip
def test_an_environment_uses_the_running_python_or_a_user_defined_python(root, config, expected):
    assert resolve(EnvironmentConfig(**config), "torch") == expected


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"name": "auto"}, r"torch does not exist .* suite env create torch$"),
        ({"name": "mxnet-cpu"}, r"mxnet-cpu does not exist .* suite env create mxnet-cpu$"),
        ({"name": "torch-cu126"}, r"torch-cu126 is unfinished .* suite env create torch-cu126$"),
        (
            {"name": "tensorflow-cup"},
            r"unknown, allowed: apptainer, auto, .*did you mean 'tensorflow-cpu'\?",
        ),
        ({"name": "custom"}, r"environment\.python"),
        ({"name": "current", "python": "python3"}, r"environment\.python"),
    ],
)
def test_an_unusable_environment_is_refused_with_the_command_to_run(root, config, message):
    (root / "torch-cu126" / "bin").mkdir(parents=True)
    (root / "torch-cu126" / "bin" / "python").symlink_to(sys.executable)
    with pytest.raises(ValueError, match=message):
        resolve(EnvironmentConfig(**config), "torch")


def test_an_environment_without_a_lock_is_used(root):
    (root / "mine" / "bin").mkdir(parents=True)
    (root / "mine" / "bin" / "python").symlink_to(sys.executable)
    (root / "mine" / "pyvenv.cfg").touch()
    assert resolve(EnvironmentConfig(**{"name": "mine"}), "torch").python == str(
        root / "mine" / "bin" / "python"
    )


def test_a_framework_gets_the_folders_of_its_libraries(root, monkeypatch):
    """Check MXNet's CUDA build, which loads libcudnn.so.8 by name.

    The packages of the lock install this library in a separate folder.
    """
    python = root / "mxnet-cuda" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert libraries_of("mxnet-cuda", python) == libraries_of("torch", python) == ()
    packages = root / "mxnet-cuda" / "lib" / "python3.11" / "site-packages" / "nvidia"
    for name in ("cudnn", "cublas"):
        (packages / name / "lib").mkdir(parents=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/own")
    words = libraries_of("mxnet-cuda", python)
    assert words == ("env", f"LD_LIBRARY_PATH={packages}/cublas/lib:{packages}/cudnn/lib:/own")
    shown = subprocess.run(
        [*words, "printenv", "LD_LIBRARY_PATH"], capture_output=True, text=True, check=True
    ).stdout
    assert shown.strip().endswith(":/own")


def test_versions_are_read_by_the_environments_python_with_its_prefix():
    prefixed = Environment("custom", ("env", "--chdir=/", "--"), sys.executable)
    found = installed_versions(prefixed, ["pytest", "no-such-package"])
    assert found == {"pytest": pytest.__version__, "no-such-package": None}


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("sleep 60", "within 1 s"), ("echo boom >&2; exit 3", "boom"),
        ("exit 3", "exit code 3"), ("echo hello", "'hello'"), ("", "No such file"),
    ],
)  # fmt: skip
def test_a_python_that_is_missing_or_does_not_respond_is_an_error_of_one_line(
    tmp_path, script, message
):
    python = tmp_path / "python"
    if script:
        python.write_text(f"#!/bin/sh\n{script.replace('sleep', 'exec sleep')}\n")
        python.chmod(0o755)
    with pytest.raises(ValueError, match=message) as caught:
        describe(
            Environment("odd", (), str(python)),
            ["x"],
            timeout_seconds=1 if "sleep" in script else 120,
        )
    assert "\n" not in str(caught.value)
    assert str(python) in str(caught.value)


def test_list_shows_every_lock_and_which_were_not_tried(root, capsys):
    assert main(["env", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line for line in lines[2:]}
    assert list(rows) == list(locks.framework_locks())
    assert all("missing" in row for row in rows.values())
    untried = {"jax-cuda", "jax-cuda12", "mxnet-cuda", "tensorflow-cuda"}
    assert {name for name, row in rows.items() if "not tried" in row} == untried


@pytest.mark.parametrize(
    ("words", "code", "out", "message"),
    [
        (["create", "tensorflow-cup"], 2, "", "did you mean 'tensorflow-cpu'?"),
        (["check", "tensorflow-cup"], 2, "", "did you mean 'tensorflow-cpu'?"),
        (["check", "torch"], 1, "torch: FAIL missing. Run: suite env create torch\n", ""),
    ],
)
def test_an_invalid_or_missing_environment_prints_one_line(root, capsys, words, code, out, message):
    assert main(["env", *words]) == code
    printed = capsys.readouterr()
    assert (printed.out, (printed.out + printed.err).count("\n")) == (out, 1)
    assert message in printed.err


@pytest.fixture
def site_packages(tmp_path, monkeypatch):
    """Return the packages folder of a ready environment `tiny`, with a package of two files.

    No Python is started.
    """
    monkeypatch.setenv("SUITE_ENV_DIR", str(tmp_path))
    fields = ((3, 10), (3, 13), "tiny", ("tiny",), (Requirement("tiny==1.5"),))
    lock = locks.Lock("tiny", tmp_path / "tiny.txt", "tried: here", *fields)
    site = tmp_path / "tiny" / "lib" / "python3.11" / "site-packages"
    (site / "tiny").mkdir(parents=True)
    (site / "tiny-1.5.dist-info").mkdir()
    (site / "tiny-1.5.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tiny\nVersion: 1.5\n"
    )
    (site / "tiny-1.5.dist-info" / "RECORD").write_text(
        "tiny/__init__.py,,\ntiny/core.py,,\ntiny/core.pyc,,\n"
    )
    for name in ("__init__.py", "core.py"):
        (site / "tiny" / name).touch()
    state = venvs.EnvironmentStatus("tiny", tmp_path / "tiny", lock, "ready", "", "3.11.7")
    monkeypatch.setattr(venvs, "status", lambda name: state)
    monkeypatch.setattr(locks, "framework_locks", lambda: {"tiny": lock})
    monkeypatch.setattr(
        venvs,
        "create",
        lambda name, **options: options["print_line"](f"{name}: made, {options['recreate']}"),
    )
    return site


def create(*names):
    return subcommand(env, "create", *names)


def test_several_environments_are_created_by_one_command(site_packages, capsys):
    assert create("tiny", "tiny") == 0
    assert capsys.readouterr().out == "tiny: made, False\n" * 2
    with pytest.raises(ValueError, match="environment other has no lock"):
        create("tiny", "other")
    assert not capsys.readouterr().out


def test_create_finds_a_damaged_environment_and_offers_to_recreate_it(
    site_packages, capsys, monkeypatch
):
    (site_packages / "tiny" / "core.py").unlink()
    monkeypatch.setattr(
        sys, "stdin", io.StringIO("y\n")
    )  # without a terminal, no question is asked
    lost = "1 file(s) of tiny are missing, such as tiny/core.py"
    with pytest.raises(ValueError, match=rf"{re.escape(lost)}. Run: suite env create") as error:
        create("tiny")
    assert "suite env create tiny --recreate, or to delete it: suite env remove tiny" in str(
        error.value
    )
    assert create("tiny", "--recreate") == 0
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    asked = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "y")
    assert create("tiny") == 0
    assert asked == [f"Environment tiny is damaged: {lost}. Delete and recreate it? [y/N] "]
    assert capsys.readouterr().out == "tiny: made, True\n" * 2


def test_a_package_of_another_version_is_damage(site_packages):
    (site_packages / "tiny-1.5.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tiny\nVersion: 1.4\n"
    )
    assert damage(venvs.status("tiny")) == "tiny 1.4 instead of 1.5"
    shutil.rmtree(site_packages / "tiny-1.5.dist-info")
    assert damage(venvs.status("tiny")) == "tiny missing instead of 1.5"
