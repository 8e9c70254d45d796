"""What a run on GPUs gets: its arithmetic, on CPU cores fp32, on GPUs the workload's first that trainer and device have."""

import sys

import pytest

from suite.common import registry
from suite.plan.settings import Impossible, resolve_settings
from tests.helpers import composed
from tests.suite import fake_nvml

HOPPER, VOLTA, PASCAL = (9, 0), (7, 0), (6, 1)


def settings(monkeypatch, capability, workload, framework="pytorch", *words):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.make(capability=capability))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    words = (f"workload={workload}", f"framework={framework}", "profile=synthetic", "device=cuda", *words)
    kind = registry.load_workload(workload)
    return resolve_settings(composed(*words), kind, registry.load_framework(framework))


def precision(*case):
    return settings(*case).precision


@pytest.mark.parametrize(
    ("workload", "framework", "capability", "expected"),
    [
        ("resnet50", "pytorch", HOPPER, "bf16"), ("resnet50", "pytorch", VOLTA, "fp16"),
        ("ssd", "tensorflow", HOPPER, "bf16"), ("resnet50", "mxnet", HOPPER, "fp16"),
        ("gnmt", "pytorch", PASCAL, "fp32"), ("gnmt", "tensorflow", HOPPER, "tf32"), ("gnmt", "mxnet", HOPPER, "fp32"),
        ("ncf", "pytorch", HOPPER, "bf16"), ("ncf", "pytorch", VOLTA, "fp32"),
        ("zoo", "pytorch", HOPPER, "fp32"), ("allreduce", "pytorch", HOPPER, "fp32"),
    ],
)  # fmt: skip
def test_auto_on_gpus(monkeypatch, workload, framework, capability, expected):
    assert precision(monkeypatch, capability, workload, framework) == expected


def test_what_is_typed_stays(monkeypatch):
    assert precision(monkeypatch, HOPPER, "resnet50", "pytorch", "precision=fp32") == "fp32"


@pytest.mark.parametrize("typed", ["bf16", "tf32"])
def test_a_precision_that_the_devices_lack_is_refused(monkeypatch, typed):
    said = r"from compute capability 8\.0 on, this machine has one of 7\.0; type precision=auto"
    with pytest.raises(Impossible, match=said):
        precision(monkeypatch, VOLTA, "resnet50", "pytorch", f"precision={typed}")


def test_on_cpu_cores_it_is_fp32():
    words = ("workload=resnet50", "profile=demo", "device=cpu")
    kind = registry.load_workload("resnet50")
    assert resolve_settings(composed(*words), kind, registry.load_framework("pytorch")).precision == "fp32"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ncf", "pytorch", "gpus=1"), "on"), (("resnet50", "pytorch", "gpus=1"), "on"), (("ssd", "pytorch", "gpus=1"), "on"),
        (("gnmt", "pytorch", "gpus=1"), "gnmt in pytorch on 1 × cuda"),
        (("ncf", "mxnet", "gpus=1"), "ncf in mxnet on 1 × cuda"),
        (("ncf", "pytorch", "gpus=1", "mode=forward", "stop=steps:5"), "mode=forward has no graph of a step"),
    ],
)  # fmt: skip
def test_graphs_where_a_step_can_be_one(monkeypatch, words, said):
    if said == "on":
        assert settings(monkeypatch, HOPPER, *words, "framework.graphs=on").graphs == said
        assert settings(monkeypatch, HOPPER, *words).graphs == ""
    else:
        with pytest.raises(ValueError, match=rf"^framework\.graphs=on: .*{said}.*; type framework\.graphs=auto$"):
            settings(monkeypatch, HOPPER, *words, "framework.graphs=on")
