"""A batch whose activations cannot fit the memory is refused before anything is built."""

import os

import pytest

from suite import registry
from suite.compose import compose
from suite.plan import resolve_settings
from tests.helpers import run_suite
from workloads.resnet50.memory import activation_bytes, available_bytes, check_memory
from workloads.resnet50.settings import REFERENCE_MODEL
from workloads.resnet50.workload import ResNet50

GIB = 1 << 30


def settings(*overrides):
    config = compose(("workload=resnet50", "profile=synthetic", "device=cpu", *overrides)).jobs[0].config
    return resolve_settings(config, ResNet50, registry.load_framework("pytorch"))


def test_activations_of_resnet_50():
    """11.1 million values behind the convolutions: the number that papers on network design give."""
    assert activation_bytes(REFERENCE_MODEL, "fp32") == 2 * 4 * 11_113_984
    assert activation_bytes(REFERENCE_MODEL, "bf16") == 2 * 2 * 11_113_984
    # 1 block, width 4, 8 pixels: stem 4 x 4x4, pool to 2x2, then 4 + 4 + 16 and the shortcut's 16 at 2x2
    small = {"blocks": [1], "widths": [4], "classes": 2, "image_size": 8}
    assert activation_bytes(small, "fp32") == 2 * 4 * (4 * 16 + (4 + 4 + 16 + 16) * 4)


def test_synthetic_takes_a_batch_for_one_device():
    assert settings().batch_size_global == 64
    check_memory(settings(), 8 * GIB)


def test_refusal_names_a_batch_that_fits():
    with pytest.raises(ValueError, match="batch size 1664 on CPU cores") as error:
        check_memory(settings("batch=global:1664", "gpus=2", "oversubscribe=true"), 24 * GIB)
    text = str(error.value)
    assert "at least 138 GiB, 24.0 GiB of memory are available" in text
    assert "\n" not in text
    fitting = int(text.rpartition("batch=global:")[2])
    assert fitting % 2 == 0
    assert fitting * 140e6 < 24 * GIB < 2 * fitting * 140e6  # as measured in PyTorch
    check_memory(settings(f"batch=global:{fitting}"), 24 * GIB)


@pytest.mark.parametrize(("overrides", "available"), [(("mode=forward",), GIB), ((), None)])
def test_nothing_is_refused_without_need(overrides, available):
    check_memory(settings("batch=global:1664", *overrides), available)


def test_available_memory(tmp_path):
    assert 0 < available_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for content in ("", "MemTotal: 5 kB\n", "MemAvailable: many kB\n"):
        (tmp_path / "meminfo").write_text(content)
        assert available_bytes(tmp_path / "meminfo") is None
    assert available_bytes(tmp_path / "none") is None


def test_the_command_refuses_in_one_line(tmp_path):
    words = ("workload=resnet50", "profile=synthetic", "device=cpu", "environment=current", "batch=global:1000000")
    done = run_suite(tmp_path, *words)
    assert done.returncode == 2
    assert "batch size 1000000 on CPU cores" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("result_0.txt"))
