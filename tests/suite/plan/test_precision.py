"""The precision of a run, its GPU kernels, and its CUDA graphs.

On CPU cores the precision is fp32. On GPUs it is the workload's first precision that trainer and
device support.
"""

import pytest

from suite.common import registry
from suite.plan.settings import resolve_settings
from suite.plan.unsupported import UnsupportedError
from tests.helpers import composed

HOPPER, VOLTA, PASCAL = (9, 0), (7, 0), (6, 1)


def settings(nvml, capability, workload, framework="pytorch", *words):
    nvml(capability=capability)
    words = (
        f"workload={workload}",
        f"framework={framework}",
        "profile=synthetic",
        *(words or ["device=cuda"]),
    )
    kind = registry.load_workload(workload)
    return resolve_settings(composed(*words), kind, registry.load_framework(framework))


def precision(*case):
    return settings(*case).precision


@pytest.mark.parametrize(
    ("workload", "framework", "capability", "expected"),
    [
        ("resnet50", "pytorch", HOPPER, "bf16"), ("resnet50", "pytorch", VOLTA, "fp16"),
        ("ssd", "tensorflow", HOPPER, "bf16"), ("resnet50", "mxnet", HOPPER, "fp16"),
        ("gnmt", "pytorch", PASCAL, "fp32"), ("gnmt", "tensorflow", HOPPER, "tf32"),
        ("gnmt", "mxnet", HOPPER, "fp32"),
        ("ncf", "pytorch", HOPPER, "bf16"), ("ncf", "pytorch", VOLTA, "fp32"),
        ("zoo", "pytorch", HOPPER, "fp32"), ("allreduce", "pytorch", HOPPER, "fp32"),
    ],
)  # fmt: skip
def test_auto_chooses_the_precision_by_the_gpu(nvml, workload, framework, capability, expected):
    assert precision(nvml, capability, workload, framework) == expected


@pytest.mark.parametrize("words", [("device=cuda", "precision=fp32"), ("device=cpu",)])
def test_a_user_defined_precision_is_kept_and_cpu_cores_use_fp32(nvml, words):
    assert precision(nvml, HOPPER, "resnet50", "pytorch", *words) == "fp32"


@pytest.mark.parametrize("precision_name", ["bf16", "tf32"])
def test_a_precision_that_the_devices_lack_is_refused(nvml, precision_name):
    message = (
        r"from compute capability 8\.0 on, but this machine has a GPU of 7\.0\. Set precision=auto"
    )
    with pytest.raises(UnsupportedError, match=message):
        precision(nvml, VOLTA, "resnet50", "pytorch", "device=cuda", f"precision={precision_name}")


def test_gpu_kernels_can_be_disabled_if_there_are_any(nvml):
    words = ("ssd", "pytorch", "device=cuda")
    assert settings(nvml, HOPPER, *words).kernels == ""
    assert settings(nvml, HOPPER, *words, "framework.kernels=off").kernels == "off"
    with pytest.raises(
        ValueError,
        match=(
            r"^framework\.kernels=off: pytorch on device=cpu does not use GPU kernels of the"
            r" suite\. Leave it out$"
        ),
    ):
        settings(nvml, HOPPER, "ssd", "pytorch", "device=cpu", "framework.kernels=off")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("ncf", "pytorch"), "on"), (("resnet50", "pytorch"), "on"), (("ssd", "pytorch"), "on"),
        (("gnmt", "pytorch"), "gnmt in pytorch on 1 × cuda"),
        (("ncf", "mxnet"), "ncf in mxnet on 1 × cuda"),
        (("ncf", "pytorch", "mode=forward", "stop=steps:5"),
         "mode=forward does not support CUDA graphs"),
    ],
)  # fmt: skip
def test_graphs_are_refused_if_a_step_cannot_be_captured(nvml, words, expected):
    words = (*words, "device=cuda")
    if expected == "on":
        assert settings(nvml, HOPPER, *words, "framework.graphs=on").graphs == expected
        assert settings(nvml, HOPPER, *words).graphs == ""
    else:
        with pytest.raises(
            ValueError,
            match=rf"^framework\.graphs=on: .*{expected}.*\. Set framework\.graphs=auto$",
        ):
            settings(nvml, HOPPER, *words, "framework.graphs=on")
