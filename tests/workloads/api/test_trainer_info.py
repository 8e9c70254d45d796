"""Trainers are declared as data: found beside their workload or by the entry point of their
framework, and true of the code.
"""

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
    """Returns a function that makes a package on the path, with files and entry points of
    `suite.trainers`.
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
        made.append(name)
        registry.refresh()

    made = []
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(TOY), *sys.path])
    yield make
    for module in [module for module in sys.modules if module.partition(".")[0] in made]:
        del sys.modules[module]
    monkeypatch.undo()
    registry.refresh()


def test_every_workload_has_a_trainer_in_every_framework_of_the_suite():
    built_in = {"pytorch", "tensorflow", "mxnet"}
    assert {workload for workload, framework in PAIRS if framework in built_in} == {
        *registry.names(registry.WORKLOADS)
    }
    assert all(built_in <= {*registry.frameworks_of(workload)} for workload, _ in PAIRS)


@pytest.mark.parametrize(("workload", "framework"), PAIRS)
def test_the_class_of_a_trainer_is_defined_where_its_description_says(workload, framework):
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
    assert frameworks_of(Derived) == [
        *sorted(TRAINERS)
    ]  # a package's trainers are for the name that it declares


def test_a_workload_without_trainers():
    class Bare(Workload):
        name = "bare"

    assert frameworks_of(Bare) == []
    with pytest.raises(ValueError, match=r"^framework \(for workload=bare\)=pytorch: "):
        get_trainer(Bare, "pytorch")


INFO = (
    "from workloads.api import TrainerInfo\nTRAINERS = {name!r: TrainerInfo('made.x:Y',"
    " precisions=('fp32', 'bf16'))}"
)


def test_a_package_brings_a_workload_with_its_trainers(package):
    package(
        "made",
        workload="from workloads.ncf.workload import NCF\nclass Made(NCF):\n    name = 'made'\n",
        trainers=INFO.replace("name!r", "'quartz'"),
    )
    from made.workload import Made

    assert frameworks_of(Made) == ["quartz"]  # its own, and not those of its base class too
    assert find_trainer(Made, "quartz").module == "made.x"
    assert find_trainer(Made, "pytorch") is None


def test_a_package_brings_a_framework_for_workloads_that_exist(package):
    package("made", "quartz = made.trainers:TRAINERS", trainers=INFO.replace("name!r", "'ncf'"))
    assert "quartz" in registry.frameworks_of("ncf")
    assert "quartz" not in registry.frameworks_of("ssd")
    assert get_trainer(NCF, "quartz").precisions == ("fp32", "bf16")
    assert registry.trainer_module("ncf", "quartz") == "made.x"
    assert registry.packages_of("ncf", "quartz") == {"workloads", "made"}


def test_two_packages_with_the_same_trainer_are_refused(package):
    package("made", "pytorch = made.trainers:TRAINERS", trainers=INFO.replace("name!r", "'ncf'"))
    with pytest.raises(
        ValueError,
        match=r"^workloads\.ncf\.pytorch and made\.x both define a trainer for pytorch\. ",
    ):
        registry.frameworks_of("ncf")
    package("other", "pytorch = made.trainers:TRAINERS")
    with pytest.raises(
        ValueError, match=r"both define trainers for 'pytorch'\. Use only (made|other) or only"
    ):
        registry.frameworks_of("ncf")


@pytest.mark.parametrize(
    "text", ["TRAINERS = ['quartz']", "TRAINERS = {'ncf': 'made.x:Y'}", "TRAINERS = None"]
)
def test_a_mapping_of_something_else_is_one_line(package, text):
    package("made", "quartz = made.trainers:TRAINERS", trainers=text)
    with pytest.raises(
        ValueError,
        match=r"^made\.trainers:TRAINERS: expected a mapping of names to workloads\.api\.",
    ) as error:
        registry.frameworks_of("ncf")
    assert "\n" not in str(error.value)


def test_a_class_is_imported_only_when_it_is_loaded(package):
    package("made", x="class Y:\n    pass\n")
    info = TrainerInfo("made.x:Y")
    assert "made.x" not in sys.modules
    assert info.load().__module__ == "made.x"


def test_entry_points_are_found_by_group_and_name():
    assert only(name for name in entry_points.points(registry.WORKLOADS) if name == "ncf") == "ncf"
    assert entry_points.kind_of(registry.STUDIES) == "study"
    assert entry_points.kind_of(registry.WORKLOADS) == "workload"
