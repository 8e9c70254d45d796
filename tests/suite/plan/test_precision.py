"""Which arithmetic a run gets: on CPU cores fp32, on GPUs what published entries use, as far as trainer and device have it."""

import pytest

from suite.common import registry
from suite.plan.settings import Impossible, resolve_settings
from tests.helpers import composed

HOPPER, VOLTA, PASCAL = (9, 0), (7, 0), (6, 1)


def precision(nvml, capability, workload, framework="pytorch", *words):
    nvml(capability=capability)
    words = (f"workload={workload}", f"framework={framework}", "profile=synthetic", *(words or ["device=cuda"]))
    kind = registry.load_workload(workload)
    return resolve_settings(composed(*words), kind, registry.load_framework(framework)).precision


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
def test_auto_on_gpus(nvml, workload, framework, capability, expected):
    assert precision(nvml, capability, workload, framework) == expected


@pytest.mark.parametrize("words", [("device=cuda", "precision=fp32"), ("device=cpu",)])
def test_what_is_typed_stays_and_on_cpu_cores_it_is_fp32(nvml, words):
    assert precision(nvml, HOPPER, "resnet50", "pytorch", *words) == "fp32"


@pytest.mark.parametrize("typed", ["bf16", "tf32"])
def test_a_precision_that_the_devices_lack_is_refused(nvml, typed):
    said = r"from compute capability 8\.0 on, this machine has one of 7\.0; type precision=auto"
    with pytest.raises(Impossible, match=said):
        precision(nvml, VOLTA, "resnet50", "pytorch", "device=cuda", f"precision={typed}")
