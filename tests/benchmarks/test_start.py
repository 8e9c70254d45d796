"""Each benchmark starts with `python -m benchmarks.NAME`, and all texts show this command."""

import ast
import importlib.util
import re
import resource
import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchmarks import image_step, maskrcnn_step, ncf_roofline, overhead, translation_step
from benchmarks.gnmt_step import KIND as GNMT
from benchmarks.transformer_step import KIND as TRANSFORMER
from suite.common.registry import load_framework
from suite.common.run_config import EnvironmentConfig
from suite.environments.environment import resolve
from tests.helpers import PROJECT

FOLDER = PROJECT / "benchmarks"
TEXTS = {path: path.read_text(encoding="utf-8") for path in sorted(FOLDER.rglob("*.py"))}


def module_of(path):
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__main__")


SCRIPTS = {
    module_of(path): text for path, text in TEXTS.items() if '__name__ == "__main__"' in text
}
BARE = {
    module_of(path): text
    for path, text in TEXTS.items()
    if path.parent.name == "bare" and "sys.argv" in text
}
WITH_HELP = sorted(set(SCRIPTS) - {name for name in SCRIPTS if name.startswith("benchmarks.bare.")})
IN_PYTORCH = [f"benchmarks.gpu.{name}" for name in ("fed", "right", "roofline", "why")]
CPU_SECONDS = 2.0
"""Limit of the CPU time of --help: four times the slowest time on an idle core."""
BY_PATH = "python " + "benchmarks/"  # split, because this file is searched too


def imported(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def start(*arguments, python=(sys.executable,)):
    return subprocess.run(
        [*python, *arguments], cwd=PROJECT, capture_output=True, text=True, timeout=120, check=False
    )


def test_scripts_are_found():
    assert len(WITH_HELP) > 25
    assert len(BARE) > 10


def test_modules_import_each_other_from_the_package():
    names = {path.stem for path in TEXTS} - {"benchmarks"}
    for path, text in TEXTS.items():
        found = set(imported(text))
        assert not found & names, path
        assert all(
            importlib.util.find_spec(name) for name in found if name.startswith("benchmarks.")
        )


@pytest.mark.parametrize("module", sorted({*SCRIPTS, *BARE} - {"benchmarks.bare.translation"}))
def test_the_docstring_shows_the_command(module):
    documentation = {**SCRIPTS, **BARE}[module].split('"""')[1]
    assert re.search(rf"\bpython -m {re.escape(module)}(?![\w.])", documentation)


@pytest.mark.parametrize("module", WITH_HELP)
def test_help_needs_no_framework_and_little_time(module):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = start("-E", "-m", module, "--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < CPU_SECONDS


@pytest.mark.framework
def test_modules_of_the_gpu_stages_are_imported_in_the_environment_of_pytorch():
    environment = resolve(EnvironmentConfig(), load_framework("pytorch").environments["cpu"])
    done = start("-c", "import benchmarks.gpu.traffic", python=environment.command())
    assert done.returncode == 0, done.stderr
    for module in IN_PYTORCH:
        done = start("-m", module, "--help", python=environment.command())
        assert done.returncode == 0, done.stderr


def test_a_start_by_path_ends_with_one_line():
    done = start("-E", str(FOLDER / "overhead.py"), "--help")
    assert done.returncode == 1
    assert (
        done.stderr
        == "run a benchmark as a module, from the repository root: python -m benchmarks.NAME\n"
    )


def test_no_file_shows_a_start_by_path():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout
    paths = [PROJECT / name for name in listed.split("\0") if name]
    found = [path for path in paths if path.is_file() and BY_PATH.encode() in path.read_bytes()]
    assert found == [FOLDER / "benchmarks.py"], "only the module that explains the error"


class Started(Exception):
    """Exception with the module that a benchmark starts, raised instead of results."""


def image_cases():
    for workload in image_step.BATCHES:
        for framework in image_step.STOCK:
            args = SimpleNamespace(workload=workload, batch=2, cores=1, steps=1, pixels=0)
            for model in image_step.models(workload, framework):
                yield (
                    image_step,
                    lambda a=args, f=framework, m=model: image_step.run(a, f, "fp32", m),
                )


def maskrcnn_cases(folder):
    for framework, (name, _) in maskrcnn_step.COMPARED_MODELS.items():
        args = SimpleNamespace(framework=framework, precision="fp32", cores=1, steps=1)
        for model in ("suite", name):
            yield (
                maskrcnn_step,
                lambda a=args, m=model: maskrcnn_step.run(a, m, str(folder / "x.npz")),
            )


def translation_cases():
    args = SimpleNamespace(size="demo", batch=2, length=3, cores=1, steps=1, linear="onednn")
    for kind in (GNMT, TRANSFORMER):
        for framework, models in kind.models.items():
            for model in ("suite", *models):
                yield (
                    translation_step,
                    lambda k=kind, f=framework, m=model: translation_step.run(
                        k, args, f, "fp32", m
                    ),
                )


def ncf_cases(folder):
    settings = SimpleNamespace(
        model={}, profile="demo", cores_per_device=1, hyperparameters={"learning_rate": 1.0}
    )
    run = SimpleNamespace(
        settings=settings, dataset_info=SimpleNamespace(sizes={"users": 1, "items": 1})
    )
    for framework in ("pytorch", "tensorflow", "mxnet", "jax"):
        yield overhead, lambda f=framework: overhead.bare_run(f, run, folder / "x.npz")
        yield ncf_roofline, lambda f=framework: ncf_roofline.measure([f], 1, 1, folder)


def test_every_module_that_a_benchmark_starts_exists(tmp_path, monkeypatch):
    def in_environment(framework, argv, *_, **__):
        raise Started(argv[0])

    started = set()
    cases = [*image_cases(), *maskrcnn_cases(tmp_path), *translation_cases(), *ncf_cases(tmp_path)]
    for benchmark, call in cases:
        monkeypatch.setattr(benchmark, "in_environment", in_environment)
        with pytest.raises(Started) as caught:
            call()
        started.add(str(caught.value))
    assert len(started) > 20
    assert [name for name in started if importlib.util.find_spec(name) is None] == []


def test_every_module_that_a_text_names_exists():
    paths = [*TEXTS, PROJECT / "Makefile", *PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")]
    named = {
        name
        for path in paths
        for name in re.findall(r"-m\W+(benchmarks[\w.]*)", path.read_text("utf-8"))
    }
    assert len(named) > 40
    assert [
        name
        for name in named - {"benchmarks.NAME"}
        if importlib.util.find_spec(name.rstrip(".")) is None
    ] == []
