"""User-defined plugins: installed once, trained in each framework, and refused if invalid."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from suite.common import registry
from suite.common.paths import env_root
from suite.environments import plugin_install
from suite.environments.captured_command import CommandResult
from suite.environments.environment import Environment
from tests.helpers import PROJECT, events, only, run_suite, run_suite_here, suite_here

LINES = PROJECT / "tests" / "data" / "plugin_lines"
RUN = ("workload=lines", "framework=numpy", "profile=demo")


@pytest.fixture
def envs(tmp_path):
    """Return variables with a separate folder for environments, in which PyTorch's is a link."""
    folder = tmp_path / "envs"
    folder.mkdir()
    (folder / "torch").symlink_to(env_root() / "torch")
    return {"SUITE_ENV_DIR": str(folder), "SUITE_DATA_DIR": str(tmp_path / "data")}


@pytest.fixture(autouse=True)
def plugins_forgotten():
    """Forget the plugin that a command has imported, since each test has a different copy."""
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "lines"]:
        del sys.modules[name]
    registry.refresh()


@pytest.fixture
def as_pip_would(monkeypatch):
    """Replace pip, which takes 2 s, by a function that writes the package and its metadata."""

    def pip(command, *_, **__):
        source, target = Path(command[-1]), Path(command[command.index("--target") + 1])
        project, mark, points = (
            (source / "pyproject.toml").read_text().partition("[project.entry-points")
        )
        name = re.search('^name = "(.*)"', project, re.MULTILINE)[1]
        info = target / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        groups = re.sub(r'\[project\.entry-points\."(.*)"\]', r"[\1]", mark + points)
        (info / "entry_points.txt").write_text(groups.replace('"', ""))
        shutil.copytree(source / "lines", target / "lines")
        return CommandResult(0, "", "")

    monkeypatch.setattr(plugin_install, "captured", pip)


def copied(tmp_path, name, file="", text=""):
    """Return a copy of the plugin, with `text` added at the start of a file."""
    folder = tmp_path / name
    shutil.copytree(LINES, folder)
    if file:
        (folder / file).write_text(text + (folder / file).read_text())
    return folder


def folders(tmp_path):
    return sorted(path.name for path in (tmp_path / "envs" / "plugins").iterdir())


@pytest.mark.parametrize("devices", [(2,), pytest.param((1, 2), marks=pytest.mark.full)])
def test_a_sweep_over_a_plugins_workload_and_both_frameworks(tmp_path, envs, devices):
    before = sorted(LINES.rglob("*"))
    run_suite(
        tmp_path,
        *("-m", "workload=lines", "framework=pytorch,numpy", "profile=demo"),
        *(f"gpus={','.join(map(str, devices))}", "seed=1", "device=cpu", "oversubscribe=true"),
        f"plugins=[{LINES}]",
        **envs,
        exits=0,
    )
    logs = sorted((tmp_path / "logs").glob("*/*/run_0/result_0.txt"))
    assert [log.parent.parent.name for log in logs] == [
        f"lines-{framework}-demo-{count}dev-cpu-oversubscribe=true-seed=1"
        for framework in ("numpy", "pytorch")
        for count in devices
    ]
    quality = [[value for key, value, _ in events(log) if key == "eval_accuracy"] for log in logs]
    # Order, start, and update rule are equal in all runs, so only rounding differs.
    for values in quality[1:]:
        assert values == pytest.approx(quality[0], abs=1e-5)
    assert quality[0][-1] >= 0.95
    run = json.loads((logs[-1].parent / "run.json").read_text())
    assert run["versions"]["suite-lines"] == "1.0"
    assert run["environment"]["python_path"] == [
        str(tmp_path / "envs" / "plugins" / only(folders(tmp_path)))
    ]
    report = suite_here(tmp_path, "report", tmp_path / "logs").stdout
    table = report[report.rindex("| framework") :]
    rows = [
        line.split("|")[1].strip()
        for line in table.splitlines()
        if line.startswith(("| numpy", "| PyTorch"))
    ]
    assert rows == ["numpy"] * len(devices) + ["PyTorch"] * len(devices)
    assert [path for path in sorted(LINES.rglob("*")) if "__pycache__" not in path.parts] == before


def test_a_plugin_is_installed_once_for_each_content(tmp_path, envs):
    plugin = copied(tmp_path, "mine ä, b")
    help_text = run_suite_here(tmp_path, "--help", f"plugins={plugin}", **envs).stdout
    allowed = re.search(r"^ *workload= +(.*)$", help_text, re.MULTILINE)[1].split(", ")
    assert {"ncf", "lines"} <= set(allowed)
    first = only(folders(tmp_path))
    stamp = (tmp_path / "envs" / "plugins" / first).stat().st_mtime_ns
    run_suite_here(tmp_path, *RUN, f"plugins=['{plugin}']", **envs, exits=0)
    assert folders(tmp_path) == [first]
    assert (tmp_path / "envs" / "plugins" / first).stat().st_mtime_ns == stamp
    absent = subprocess.run(
        [sys.executable, "-c", "import lines"], capture_output=True, cwd=tmp_path
    )
    assert absent.returncode == 1, "the controller's own environment has changed"


def test_a_changed_or_renamed_file_is_a_separate_installation(tmp_path, envs, as_pip_would):
    plugin = copied(tmp_path, "mine")
    # Both names have the same position in the sorted list of files.
    added, renamed = plugin / "lines" / "added.py", plugin / "lines" / "after.py"
    for change, expected in (
        (lambda: added.write_text(""), 1),
        (lambda: None, 1),
        (lambda: added.write_text("added = 1"), 2),
        (lambda: added.rename(renamed), 3),
    ):
        change()
        assert run_suite_here(tmp_path, "--help", f"plugins={plugin}", **envs).returncode == 0
        assert len(folders(tmp_path)) == expected


@pytest.mark.full
def test_a_plugin_can_be_a_wheel(tmp_path, envs):
    options = (
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--wheel-dir",
        str(tmp_path),
    )
    source = str(copied(tmp_path, "source"))
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, source], check=True, capture_output=True
    )
    wheel = only(tmp_path.glob("*.whl"))
    run_suite_here(tmp_path, *RUN, f"plugins={wheel}", "--cfg", "job", **envs, exits=0)
    assert only(folders(tmp_path)).startswith("suite_lines-")


def test_a_plugin_can_be_an_installed_distribution(tmp_path, envs):
    arguments = ("workload=toy", "framework=plain", "profile=demo", "plugins=[toy>=1.0]")
    assert run_suite_here(tmp_path, *arguments, "--cfg", "job", toy=True).returncode == 0
    without = (
        f"environment.python={sys.executable}",
        "environment.command_prefix=[env,-u,PYTHONPATH]",
    )
    done = run_suite_here(tmp_path, *arguments, "environment=custom", *without, toy=True, exits=2)
    message = (
        "plugins=toy>=1.0: environment custom has no toy, but the controller has 1.0. Set plugins"
        " to the path of its folder"
    )
    assert message in done.stderr


def test_the_python_path_inside_an_environment(monkeypatch):
    code = "import os, sys; print(os.getpid(), os.environ['PYTHONPATH'], *sys.argv[1:])"
    here = Environment(
        "current", (), sys.executable, {"/plugins": "/inside"}, ("/plugins/a", "/other/b c")
    )
    monkeypatch.setenv("PYTHONPATH", "/own")
    for prefix, path in (
        ((), "/inside/a:/other/b c:/own"),
        (("env", "-u", "PYTHONPATH"), "/inside/a:/other/b c"),
    ):
        environment = Environment("e", prefix, here.python, here.path_map, here.python_path)
        process = subprocess.Popen(
            environment.command("-c", code, "$x 'y'"), stdout=subprocess.PIPE, text=True
        )
        assert process.communicate()[0] == f"{process.pid} {path} $x 'y'\n"


def test_the_example_is_short_and_needs_no_change_of_the_suite():
    code = [
        line
        for path in LINES.rglob("*.py")
        for line in path.read_text().splitlines()
        if line.strip()
    ]
    assert len(code) <= 150
    ours = [
        path for name in ("suite", "workloads", "conf") for path in (PROJECT / name).rglob("*.*")
    ]
    ours = [path for path in ours if path.suffix != ".pyc"]
    assert not [
        path
        for path in ours
        if b"suite-lines" in path.read_bytes() or b"lines-demo" in path.read_bytes()
    ]


def changed(tmp_path, name, change):
    """Return a copy of the plugin whose project file was changed by a function."""
    folder = copied(tmp_path, name)
    project = folder / "pyproject.toml"
    project.write_text(change(project.read_text()))
    return folder


def without_entry_points(tmp_path):
    return changed(tmp_path, "no", lambda text: text.partition("[project.entry-points")[0])


def second_distribution(tmp_path):
    return changed(tmp_path, "o", lambda text: text.replace("suite-", "other-"))


def bad_study(tmp_path, entry_point="lines:STUDY"):
    point = f'\n[project.entry-points."suite.studies"]\nlines_study = "{entry_point}"\n'
    folder = changed(tmp_path, "study", lambda text: text + point)
    (folder / "lines" / "__init__.py").write_text('STUDY = {"axes": {"gpus": [1, 2]}}\n')
    return folder


def bad_trainers(tmp_path):
    folder = copied(tmp_path, "bad")
    (folder / "lines" / "trainers.py").write_text(
        "TRAINERS = {'numpy': 'lines.numpy_trainer:LinesTrainer'}\n"
    )
    return folder


def incomplete(tmp_path):
    folder = copied(tmp_path, "bad")
    path = folder / "lines" / "workload.py"
    path.write_text(
        path.read_text().replace("def shapes", "def shape").replace("def open_data", "def open")
    )
    return folder


MISSING = "import nothing_like_this\n"
WRONG = {
    "no such path": (lambda _: "/nowhere", "plugins=/nowhere: no folder or wheel /nowhere exists"),
    "no such distribution": (lambda _: "[nowhere]", "no distribution of this name is installed in"),
    "no package": (lambda tmp_path: (tmp_path / "empty").mkdir() or "[empty]",
     "is not a package: it needs a pyproject.toml"),
    "another file": (lambda _: LINES / "pyproject.toml", "expected a folder or a wheel (.whl)"),
    "the suite": (lambda _: PROJECT, "is the suite itself"),
    "other version": (lambda _: "['hydra-core>9']", "To use it, set plugins=hydra-core"),
    "another distribution": (lambda _: "hydra-core", "hydra-core is not a plugin of the suite"),
    "no entry points": (without_entry_points,
     "suite-lines is not a plugin of the suite: it has no entry point in suite.workloads"),
    "study": (bad_study,
     "study=lines_study: its description has no sentence. "
     "See conf/study/batch_size.yaml for an example"),
    "import of a study": (lambda tmp_path: bad_study(tmp_path, "lines:NONE"),
     "its study 'lines_study' cannot be imported"),
    "import": (lambda tmp_path: copied(tmp_path, "bad", "lines/workload.py", MISSING),
     "cannot be imported: ModuleNotFoundError: No module named 'nothing_like_this'. "
     "It must be importable"),
    "import of a trainer": (
     lambda tmp_path: copied(tmp_path, "bad", "lines/torch_trainer.py", MISSING),
     "trainer lines.pytorch cannot be used in environment torch: "
     "ModuleNotFoundError: No module named"),
    "a missing method": (incomplete,
     "its workload 'lines' is incomplete. Define open_data() and shapes() in Lines."),
    "trainers": (bad_trainers,
     "its workload 'lines' cannot be imported: ValueError: lines.trainers:TRAINERS: "
     "expected a mapping of names to"),
    "build": (lambda tmp_path: copied(tmp_path, "bad", "pyproject.toml", "= 1"),
     "pip cannot install it"),
    "same names": (lambda tmp_path: f"[{LINES},{second_distribution(tmp_path)}]",
     "other-lines and suite-lines both define workload 'lines'. "
     "Use only other-lines or only suite-lines"),
    "same distribution": (lambda tmp_path: f"[{LINES},{copied(tmp_path, 'again')}]",
     "are both named suite-lines. Remove one of them"),
    "a sweep over plugins": (lambda _: "a,b",
     "expected a single list for the whole command. Set plugins=[a,b]"),
    "read only": (lambda tmp_path: (tmp_path / "envs" / "plugins").touch() or LINES,
     "plugins cannot be written (File exists). Set SUITE_ENV_DIR"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_an_invalid_plugin_prints_one_line(tmp_path, envs, request, name):
    if name != "build":
        request.getfixturevalue("as_pip_would")
    make, expected = WRONG[name]
    done = run_suite_here(
        tmp_path,
        "workload=lines",
        "profile=demo",
        "device=cpu",
        f"plugins={make(tmp_path)}",
        **envs,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert expected in done.stderr
    # The note that the developer's environment is outdated does not count.
    lines = [line for line in done.stderr.splitlines() if "is outdated" not in line]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert not (tmp_path / "logs").exists()


def test_a_dry_run_shows_a_new_plugin_and_installs_nothing(tmp_path, envs):
    (tmp_path / "temporary").mkdir()
    words = (*RUN, f"plugins=[{LINES}]", "dry_run=true")
    shown = run_suite(tmp_path, *words, **envs, TMPDIR=str(tmp_path / "temporary"), exits=0)
    assert "lines-numpy-demo" in shown.stdout
    assert not (tmp_path / "envs" / "plugins").exists()
    assert not list((tmp_path / "temporary").iterdir())
    run_suite(tmp_path, f"plugins=[{LINES}]", "--help", **envs, exits=0)
    assert len(folders(tmp_path)) == 1
    again = run_suite(tmp_path, *words, **envs, exits=0)
    assert [line for line in again.stdout.splitlines() if "run_0" not in line][
        1:3
    ] == shown.stdout.splitlines()[1:3]


def test_a_dry_run_of_a_new_plugin_without_its_environment_shows_the_job(tmp_path):
    words = (
        "workload=lines",
        "framework=pytorch",
        "profile=demo",
        "device=cpu",
        f"plugins=[{LINES}]",
        "dry_run=true",
    )
    done = run_suite(tmp_path, *words, SUITE_ENV_DIR=str(tmp_path / "none"), exits=2)
    assert "suite env create torch" in done.stderr
    assert "lines-pytorch-demo" in done.stdout
    assert not (tmp_path / "none").exists()
