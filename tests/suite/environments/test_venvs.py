"""The life of an environment: created, used, outdated, and removed.

Pip creates the environment from a tiny wheel and project that the tests write.
"""

import json
import shutil
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from suite.environments import venvs
from suite.environments.check_environment import check_environment
from suite.environments.locks import digest, framework_locks

BACKEND = """
import zipfile
INFO = "tiny_project-1.0.dist-info"
METADATA = "Metadata-Version: 2.1\\nName: tiny-project\\nVersion: 1.0\\n"
WHEEL = "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
ENTRY_POINTS = "[suite.trainers]\\ntiny.trainer = tiny:Trainer\\n"
def build_editable(directory, config_settings=None, metadata_directory=None):
    name = "tiny_project-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr(f"{INFO}/METADATA", METADATA)
        wheel.writestr(f"{INFO}/WHEEL", WHEEL)
        wheel.writestr(f"{INFO}/entry_points.txt", ENTRY_POINTS)
        wheel.writestr(f"{INFO}/RECORD", "")
    return name
"""
LOCK = """# tried: here
# python: 3.10-3.13
# framework: tiny-framework
# imports: tiny_framework

tiny-framework==1.5
"""


def write_wheel(folder: Path, version: str) -> None:
    info = f"tiny_framework-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"tiny_framework-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_framework.py", f"__version__ = '{version}'\n")
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-framework\nVersion: {version}\n"
        )
        wheel.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def project(tmp_path, root, monkeypatch):
    """Return a checkout with a single lock, whose packages pip installs from a folder."""
    for version in ("1.5", "1.6"):
        write_wheel(tmp_path / "wheels", version)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    folder = tmp_path / "project"
    (folder / "environments").mkdir(parents=True)
    (folder / "environments" / "tiny.txt").write_text(LOCK)
    (folder / "setup.cfg").write_text(
        "[options.entry_points]\nsuite.trainers =\n    tiny.trainer = tiny:Trainer\n"
    )
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n'
    )
    (folder / "b.py").write_text(BACKEND)
    return folder


def test_an_environment_is_created_used_outdated_updated_and_removed(project, root, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    lock, lines = project / "environments" / "tiny.txt", []

    def create():
        lines.clear()
        venvs.create("tiny", print_line=lines.append, project=project)
        return [line.split()[1] for line in lines]

    assert venvs.status("tiny", project).state == "missing"
    assert create() == ["new", "installing", "ready"]
    ready = venvs.status("tiny", project)
    assert (ready.state, ready.python_version) == ("ready", "{}.{}.{}".format(*sys.version_info))
    results = check_environment("tiny", project)
    assert [result.passed for result in results] == [True] * 4, results
    assert results[2].text.startswith("import tiny_framework: 1.5 in ")
    assert create() == ["up"]  # to date

    lock.write_text(LOCK.replace("1.5", "1.6"))
    assert venvs.status("tiny", project).state == "outdated"
    results = check_environment("tiny", project)
    assert "suite env create tiny" in results[0].text
    assert "tiny-framework 1.5 instead of 1.6" in results[1].text
    assert create() == ["installing", "ready"]
    assert all(result.passed for result in check_environment("tiny", project))

    (project / "setup.cfg").write_text(
        "[options.entry_points]\nsuite.trainers =\n    other.trainer = tiny:Trainer\n"
    )
    assert venvs.status("tiny", project).state == "outdated"
    assert (
        "not visible: suite.trainers other.trainer" in check_environment("tiny", project)[-1].text
    )

    # The error contains the last lines of pip's output. The environment is then broken.
    lock.write_text(LOCK.replace("1.5", "7.7"))
    with pytest.raises(venvs.CommandFailed, match=r"tiny-framework==7\.7"):
        create()
    (ready.folder / "left-over").touch()
    assert venvs.status("tiny", project).state == "broken"
    assert [result.passed for result in check_environment("tiny", project)] == [False]
    lock.write_text(LOCK)
    assert create() == ["new", "installing", "ready"]
    assert not (ready.folder / "left-over").exists()

    venvs.remove("tiny", print_line=lines.append, project=project)
    assert not ready.folder.exists()
    with pytest.raises(ValueError, match="does not exist"):
        venvs.remove("tiny", project=project)


def python_of_tiny(root, marker):
    """Write an environment with a Python and this text in its marker file."""
    python = root / "tiny" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (root / "tiny" / venvs.MARKER).write_text(marker)


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (
            "nothing",
            "created by a different checkout (usable). To update it, run: suite env create tiny",
        ),
        ("lock", "outdated (its lock or setup.cfg has changed)"),
        ("creator", "outdated (the checkout that created it, {creator}, does not exist any more)"),
    ],
)
def test_an_environment_of_another_checkout_is_usable_or_outdated(
    project, root, tmp_path, change, shown
):
    second_checkout = tmp_path / "another"
    shutil.copytree(project, second_checkout)
    lock = framework_locks(second_checkout)["tiny"]
    python_of_tiny(
        root,
        json.dumps(
            {
                "digest": digest(lock, second_checkout),
                "python": "3.11.0",
                "project": str(second_checkout),
            }
        ),
    )
    assert venvs.status("tiny", second_checkout).state == "ready"
    if change == "lock":
        (project / "environments" / "tiny.txt").write_text(LOCK.replace("1.5", "1.6"))
    if change == "creator":
        shutil.rmtree(second_checkout)
    assert venvs.status("tiny", project).shown == shown.format(creator=second_checkout)


@pytest.mark.parametrize(
    ("version", "recreate"), [("3.11.0", False), ("3.9.0", False), ("3.11.0", True)]
)
def test_an_outdated_environment_is_updated_in_place_if_its_python_fits(
    project, root, monkeypatch, version, recreate
):
    python_of_tiny(root, json.dumps({"digest": "0", "python": version, "project": str(project)}))
    kept = []
    monkeypatch.setattr(
        venvs, "_make", lambda current, keep, *_: kept.append((current.state, keep))
    )
    venvs.create("tiny", recreate=recreate, print_line=lambda line: None, project=project)
    assert kept == [("outdated", (version, recreate) == ("3.11.0", False))]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"digest": "0"}', "\0"])
def test_a_damaged_marker_counts_as_broken(project, root, text):
    python_of_tiny(root, text)
    assert venvs.status("tiny", project).state == "broken"


def test_the_second_of_two_creations_waits_and_finds_the_environment_ready(
    project, root, monkeypatch
):
    lines, waits, states = [], threading.Event(), []

    def make(current, *_):
        states.append(current.state)
        assert waits.wait(60)
        content = {
            "digest": digest(current.lock, project),
            "python": "3.11.0",
            "project": str(project),
        }
        python_of_tiny(root, json.dumps(content))

    def print_line(line):
        lines.append(line)
        if "waiting for a different process" in line:
            waits.set()

    monkeypatch.setattr(venvs, "_make", make)
    # The lock belongs to a file, so threads and processes wait for it alike.
    with ThreadPoolExecutor(2) as both:
        list(
            both.map(
                lambda _: venvs.create("tiny", print_line=print_line, project=project), range(2)
            )
        )
    assert states == ["missing"]
    assert ["ready after" in lines[-2], "up to date" in lines[-1]] == [True, True]


NO_NAMES = (
    "..",
    ".",
    "",
    "../victim",
    "a/b",
    "torch/../../victim",
    "~",
    "-x",
    "a\nb",
    "ab\n",
    "{tmp_path}/victim",
)


@pytest.mark.parametrize("name", NO_NAMES)
def test_remove_refuses_a_path(root, tmp_path, name):
    root.mkdir()
    (tmp_path / "victim").mkdir()
    with pytest.raises(ValueError, match="is not a valid name of an environment"):
        venvs.remove(name.format(tmp_path=tmp_path))
    assert (tmp_path / "victim").is_dir()
    assert root.is_dir()


def test_creating_and_removing_refuse_links(project, root, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "pyvenv.cfg").touch()
    root.mkdir()
    for name in ("linked", "tiny"):
        (root / name).symlink_to(victim)
        with pytest.raises(ValueError, match="is a link"):
            venvs.remove(name, project=project)
    with pytest.raises(ValueError, match="is a link"):
        venvs.create("tiny", print_line=lambda line: None, project=project)
    (root / "mine").mkdir()
    (root / "mine" / "pyvenv.cfg").touch()
    (root / "mine" / "inside").symlink_to(victim)
    venvs.remove("mine", print_line=lambda line: None, project=project)
    assert not (root / "mine").exists()
    assert (victim / "pyvenv.cfg").exists()


def test_creating_and_removing_refuse_a_folder_that_is_not_an_environment(project, root):
    for name in ("thesis", "tiny"):
        (root / name / "src").mkdir(parents=True)
        (root / name / "src" / "paper.txt").touch()
        with pytest.raises(ValueError, match="is not an environment"):
            venvs.remove(name, project=project)
    with pytest.raises(ValueError, match="is not an environment"):
        venvs.create("tiny", recreate=True, print_line=lambda line: None, project=project)
    assert all((root / name / "src" / "paper.txt").exists() for name in ("thesis", "tiny"))
