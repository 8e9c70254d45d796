"""Which library linear layers take: what was typed, or what was measured once on this kind of machine."""

import json
import sys

import pytest

from suite.common import registry
from suite.environments.environment import Environment
from suite.launch.base import Framework
from suite.plan.linear import chosen_library
from suite.plan.settings import resolve_settings
from tests.helpers import composed

HERE = Environment("current", (), sys.executable)
MEASURES = """
import json, pathlib
count = pathlib.Path(__file__).with_name("count")
count.write_text(count.read_text() + "." if count.exists() else ".")
print("a warning")
print(json.dumps({"library": "mkl", "gain": 0.7}))
"""


@pytest.fixture
def measuring(tmp_path, monkeypatch):
    """Makes a framework whose module has this source."""
    monkeypatch.setenv("SUITE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def made(source):
        (tmp_path / "measuring.py").write_text(source)
        return Framework("toy", {}, (), lambda devices, device: devices, lambda *_: [], linear_module="measuring")

    return made


def test_measured_once_for_each_version(measuring, tmp_path):
    framework = measuring(MEASURES)
    assert [chosen_library("auto", framework, HERE, "1.0") for _ in range(3)] == ["mkl"] * 3
    assert (tmp_path / "count").read_text() == "."
    assert chosen_library("auto", framework, HERE, "2.0") == "mkl"
    assert (tmp_path / "count").read_text() == ".."
    (cache,) = (tmp_path / "cache").iterdir()
    assert [one["gain"] for one in json.loads(cache.read_text()).values()] == [0.7, 0.7]


@pytest.mark.parametrize("damage", ["{", "[]", '{"x": 1}'])
def test_a_damaged_cache_is_measured_anew(measuring, tmp_path, damage):
    framework = measuring(MEASURES)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "linear.json").write_text(damage)
    assert chosen_library("auto", framework, HERE, "1.0") == "mkl"


def test_what_was_typed_is_not_measured(measuring, tmp_path):
    framework = measuring("raise SystemExit(1)")
    assert chosen_library("onednn", framework, HERE, "1.0") == "onednn"
    assert chosen_library("", framework, HERE, "1.0") == ""
    assert chosen_library("auto", framework, HERE, "unknown") == ""  # the framework is not installed
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise ImportError('no such thing')", "ImportError: no such thing"),
        ("print('[]')", "list indices"),
        ('print(\'{"library": "blas"}\')', "blas is none of mkl, onednn"),
    ],
)
def test_a_measurement_that_fails_says_what_to_type(measuring, source, reason):
    with pytest.raises(ValueError, match=rf"^framework\.linear=auto: .*{reason}.*; type framework\.linear=onednn or"):
        chosen_library("auto", measuring(source), HERE, "1.0")


def settings_of(name, framework, *overrides):
    config = composed(f"workload={name}", f"framework={framework}", "device=cpu", "profile=demo", *overrides)
    return resolve_settings(config, registry.load_workload(name), registry.load_framework(framework))


@pytest.mark.parametrize("workload", ["ncf", "maskrcnn", "gnmt", "transformer"])
def test_pytorch_on_cpu_cores_has_the_choice(workload):
    assert settings_of(workload, "pytorch").linear == "auto"
    assert settings_of(workload, "pytorch", "framework.linear=mkl").linear == "mkl"


@pytest.mark.parametrize(
    ("workload", "framework", "also"),
    [
        ("ncf", "tensorflow", ()), ("gnmt", "mxnet", ()), ("resnet50", "pytorch", ()),
        ("ncf", "pytorch", ("precision=bf16",)),
    ],
)  # fmt: skip
def test_elsewhere_there_is_nothing_to_choose(workload, framework, also):
    assert settings_of(workload, framework, *also).linear == ""
    said = rf"^framework\.linear=mkl: {workload} in {framework}, .* nothing to choose there"
    with pytest.raises(ValueError, match=said):
        settings_of(workload, framework, "framework.linear=mkl", *also)


def test_what_can_be_typed():
    with pytest.raises(ValueError, match=r"^framework\.linear=blas: .*auto, mkl, onednn"):
        settings_of("ncf", "pytorch", "framework.linear=blas")
