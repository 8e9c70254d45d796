"""The files in docs/tutorials/add_a_workload.md are complete, run, and match test data."""

import pytest

from tests.docs.page_files import write_files
from tests.helpers import PROJECT, events, only, run_suite

TUTORIAL = PROJECT / "docs" / "tutorials/add_a_workload.md"
FRAMEWORK = PROJECT / "docs" / "dev" / "add_a_framework.md"
LINES = PROJECT / "tests" / "data" / "plugin_lines"


@pytest.fixture
def package(tmp_path):
    """Return the folder of a reader who followed the tutorial."""
    folder = tmp_path / "lines_plugin"
    write_files(TUTORIAL, folder)
    (folder / "lines" / "__init__.py").touch()
    return folder


def files(folder):
    paths = [
        path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in paths}


def qualities(tmp_path, package, *overrides, **variables):
    """Return the quality after each epoch of a run of the package."""
    overrides = ("workload=lines", "profile=demo", "device=cpu", "seed=1", "plugins=.", *overrides)
    variables = {
        "SUITE_LOG_DIR": str(tmp_path / "logs"),
        "SUITE_DATA_DIR": str(tmp_path / "data"),
        **variables,
    }
    run_suite(package, *overrides, **variables, exits=0)
    log = only((tmp_path / "logs").glob("*/*/run_0/result_0.txt"))
    return [value for key, value, _ in events(log) if key == "eval_accuracy"]


def test_the_files_of_both_pages_equal_the_plugin_in_the_test_data(package):
    assert set(files(package)) == set(files(LINES)) - {"lines/numpy_trainer.py"}
    write_files(FRAMEWORK, package)
    assert files(package) == files(LINES)


def test_the_tutorial_names_no_framework_that_it_does_not_define(package):
    assert not [
        name for name, text in files(package).items() if "numpy_trainer" in text or "NUMPY" in text
    ]


def test_the_package_reaches_its_target_in_numpy(tmp_path, package):
    write_files(FRAMEWORK, package)
    variables = {"SUITE_ENV_DIR": str(tmp_path / "envs")}
    assert qualities(tmp_path, package, "framework=numpy", **variables)[-1] >= 0.95


@pytest.mark.framework
def test_the_tutorial_alone_reaches_its_target_in_pytorch(tmp_path, package):
    assert qualities(tmp_path, package)[-1] >= 0.95


MISTAKES = {
    "An abstract method is missing": ("lines/workload.py", "def shapes", "def shape"),
    "A metric is not computed": ("lines/workload.py", "def compute_metrics", "def compute"),
    "The set has no limit of epochs": ("lines/workload.py", ', "max_epochs": 10', ""),
    "An entry point and `name` differ": ("pyproject.toml", 'lines = "lines.w', 'line = "lines.w'),
    "A metric has a different name than the target": (
        "lines/workload.py",
        '"r_squared": float',
        '"r2": float',
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_page_shows_the_message_of_each_mistake(tmp_path, package, mistake):
    write_files(FRAMEWORK, package)
    file, before, after = MISTAKES[mistake]
    text = (package / file).read_text(encoding="utf-8")
    assert before in text
    (package / file).write_text(text.replace(before, after), encoding="utf-8")
    row = only(
        line
        for line in TUTORIAL.read_text(encoding="utf-8").splitlines()
        if line.startswith(f"| {mistake} |")
    )
    overrides = ("workload=lines", "framework=numpy", "profile=demo", "device=cpu", "plugins=.")
    folders = {
        name: str(tmp_path / name) for name in ("SUITE_LOG_DIR", "SUITE_DATA_DIR", "SUITE_ENV_DIR")
    }
    done = run_suite(package, *overrides, **folders)
    assert done.returncode != 0
    message = row.split("|")[2].strip().strip("`")
    assert message in " ".join((done.stdout + done.stderr).split())
