"""The library for linear layers: user-defined, or the faster library of the processor."""

import pytest

from suite.common import registry
from suite.machine import sysfiles
from suite.plan.settings import resolve_settings
from tests.helpers import composed


def settings_of(name, framework, *overrides):
    config = composed(
        f"workload={name}", f"framework={framework}", "device=cpu", "profile=demo", *overrides
    )
    return resolve_settings(
        config, registry.load_workload(name), registry.load_framework(framework)
    )


@pytest.mark.parametrize("workload", ["ncf", "maskrcnn", "gnmt", "transformer"])
def test_pytorch_on_cpu_cores_supports_both_linear_backends(workload):
    assert settings_of(workload, "pytorch", "framework.linear_backend=mkl").linear_backend == "mkl"
    assert (
        settings_of(workload, "pytorch", "framework.linear_backend=onednn").linear_backend
        == "onednn"
    )


@pytest.mark.parametrize(
    ("vendor", "chosen"), [("AuthenticAMD", "onednn"), ("GenuineIntel", "mkl"), (None, "mkl")]
)
def test_auto_chooses_the_linear_backend_by_the_processor(tmp_path, monkeypatch, vendor, chosen):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(
        f"processor\t: 0\nvendor_id\t: {vendor}\nmodel\t: X\n" if vendor else ""
    )
    assert sysfiles.cpu_field("vendor_id", tmp_path) == vendor
    monkeypatch.setattr(sysfiles, "cpu_field", lambda name: vendor)
    assert settings_of("ncf", "pytorch").linear_backend == chosen


@pytest.mark.parametrize(
    ("workload", "framework", "overrides"),
    [
        ("ncf", "tensorflow", ()), ("gnmt", "mxnet", ()), ("resnet50", "pytorch", ()),
        ("ncf", "pytorch", ("precision=bf16",)),
    ],
)  # fmt: skip
def test_the_linear_backend_is_refused_for_other_workloads_frameworks_and_precisions(
    workload, framework, overrides
):
    assert settings_of(workload, framework, *overrides).linear_backend == ""
    message = (
        rf"^framework\.linear_backend=mkl: {workload} in {framework}, .* has no choice of this"
        r" library"
    )
    with pytest.raises(ValueError, match=message):
        settings_of(workload, framework, "framework.linear_backend=mkl", *overrides)
