"""Trainers are declared as data, next to their workload or by an entry point of a framework."""

import ast
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from suite.common import registry
from suite.launch.registered_frameworks import registered_frameworks
from tests.helpers import PROJECT, TOY, only
from workloads import entry_points
from workloads.api import TrainerInfo, Workload, find_trainer, frameworks_of, get_trainer
from workloads.ncf.trainers import TRAINERS
from workloads.ncf.workload import NCF

PAIRS = [
    (workload, framework)
    for workload in registry.names(registry.WORKLOADS)
    for framework in registry.frameworks_of(workload)
]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that creates a package on the path.

    The package has modules and entry points of the group `suite.trainers`.
    """

    def make(name, points="", **modules):
        folder = tmp_path / name
        folder.mkdir()
        for module, text in {"__init__": "", **modules}.items():
            (folder / f"{module}.py").write_text(text)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[suite.trainers]\n{points}\n")
        created.append(name)
        registry.refresh()

    created = []
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(TOY), *sys.path])
    yield make
    for module in [module for module in sys.modules if module.partition(".")[0] in created]:
        del sys.modules[module]
    monkeypatch.undo()
    registry.refresh()


def test_every_workload_has_a_trainer_in_every_framework_of_the_suite():
    """Llama 3.1 8B is available in PyTorch and JAX only."""
    built_in = {"pytorch", "tensorflow", "mxnet"}
    assert {workload for workload, framework in PAIRS if framework in built_in} == {
        *registry.names(registry.WORKLOADS)
    }
    frameworks = {workload: {*registry.frameworks_of(workload)} for workload, _ in PAIRS}
    assert frameworks.pop("llama31_8b") == {"pytorch", "jax"}
    assert all(built_in <= found for found in frameworks.values())


@pytest.mark.parametrize(("workload", "framework"), PAIRS)
def test_the_class_of_a_trainer_is_defined_in_the_declared_module(workload, framework):
    info = get_trainer(registry.load_workload(workload), framework)
    tree = ast.parse(Path(find_spec(info.module).origin).read_text())
    assert info.trainer.partition(":")[2] in {
        node.name for node in tree.body if isinstance(node, ast.ClassDef)
    }
    assert not {*info.precisions} - {"fp32", "tf32", "bf16", "fp16"}
    assert info.precisions[0] == "fp32"
    assert (
        info.fp16_loss_scaling == TrainerInfo("").fp16_loss_scaling
    ) or "fp16" in info.precisions


def test_no_member_of_a_workload_names_a_framework():
    texts = (PROJECT / "workloads/api/workload.py", *(PROJECT / "workloads").glob("*/workload.py"))
    for path in texts:
        for kind in (
            node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)
        ):
            values = [
                node.value
                for node in kind.body
                if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value
            ]
            strings = {
                node.value
                for value in values
                for node in ast.walk(value)
                if isinstance(node, ast.Constant)
            }
            assert not strings & {*registered_frameworks()}, path


def test_a_derived_workload_has_the_trainers_of_its_base():
    class Derived(NCF):
        name = "derived"

    assert get_trainer(Derived, "pytorch") is TRAINERS["pytorch"]
    # Trainers of a package are only for the workload name that the package declares.
    assert frameworks_of(Derived) == [*sorted(TRAINERS)]


def test_a_workload_without_trainers_has_no_frameworks():
    class Bare(Workload):
        name = "bare"

    assert frameworks_of(Bare) == []
    with pytest.raises(ValueError, match=r"^framework \(for workload=bare\)=pytorch: "):
        get_trainer(Bare, "pytorch")


INFO = (
    "from workloads.api import TrainerInfo\nTRAINERS = {name!r: TrainerInfo('sample.x:Y',"
    " precisions=('fp32', 'bf16'))}"
)


def test_a_package_adds_a_workload_with_its_trainers(package):
    package(
        "sample",
        workload=(
            "from workloads.ncf.workload import NCF\nclass Sample(NCF):\n    name = 'sample'\n"
        ),
        trainers=INFO.replace("name!r", "'quartz'"),
    )
    from sample.workload import Sample

    # The trainers of the base class are not inherited.
    assert frameworks_of(Sample) == ["quartz"]
    assert find_trainer(Sample, "quartz").module == "sample.x"
    assert find_trainer(Sample, "pytorch") is None


def test_a_package_adds_a_framework_for_existing_workloads(package):
    package("sample", "quartz = sample.trainers:TRAINERS", trainers=INFO.replace("name!r", "'ncf'"))
    assert "quartz" in registry.frameworks_of("ncf")
    assert "quartz" not in registry.frameworks_of("ssd")
    assert get_trainer(NCF, "quartz").precisions == ("fp32", "bf16")
    assert registry.trainer_module("ncf", "quartz") == "sample.x"
    assert registry.packages_of("ncf", "quartz") == {"workloads", "sample"}


def test_two_packages_with_the_same_trainer_are_rejected(package):
    package(
        "sample", "pytorch = sample.trainers:TRAINERS", trainers=INFO.replace("name!r", "'ncf'")
    )
    with pytest.raises(
        ValueError,
        match=r"^workloads\.ncf\.pytorch and sample\.x both define a trainer for pytorch\. ",
    ):
        registry.frameworks_of("ncf")
    package("other", "pytorch = sample.trainers:TRAINERS")
    with pytest.raises(
        ValueError, match=r"both define trainers for 'pytorch'\. Use only (sample|other) or only"
    ):
        registry.frameworks_of("ncf")


@pytest.mark.parametrize(
    "text", ["TRAINERS = ['quartz']", "TRAINERS = {'ncf': 'sample.x:Y'}", "TRAINERS = None"]
)
def test_an_invalid_mapping_of_trainers_is_rejected_in_one_line(package, text):
    package("sample", "quartz = sample.trainers:TRAINERS", trainers=text)
    with pytest.raises(
        ValueError,
        match=r"^sample\.trainers:TRAINERS: expected a mapping of names to workloads\.api\.",
    ) as error:
        registry.frameworks_of("ncf")
    assert "\n" not in str(error.value)


def test_a_class_is_imported_only_when_it_is_loaded(package):
    package("sample", x="class Y:\n    pass\n")
    info = TrainerInfo("sample.x:Y")
    assert "sample.x" not in sys.modules
    assert info.load().__module__ == "sample.x"


def test_entry_points_are_listed_by_group():
    assert only(name for name in entry_points.points(registry.WORKLOADS) if name == "ncf") == "ncf"
    assert entry_points.kind_of(registry.STUDIES) == "study"
    assert entry_points.kind_of(registry.WORKLOADS) == "workload"
