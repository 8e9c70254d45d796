"""GPUs as NVML reports them."""

import sys

import pytest

from suite.machine import devices
from suite.machine.topology import topology
from suite.machine.visible import VARIABLE
from tests.suite import fake_nvml


@pytest.fixture
def nvml(monkeypatch):
    module = fake_nvml.make()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.delenv(VARIABLE, raising=False)
    module.nvmlDeviceGetName = lambda device: f"Fake {device}"
    return module


def lost(answer):
    def ask(device):
        if device == 1:
            raise fake_nvml.NVMLError("GPU is lost")
        return answer(device)

    return ask


@pytest.mark.parametrize(
    ("value", "names"), [("1,0", ["Fake 1", "Fake 0"]), ("GPU-1", ["Fake 1"]), ("GPU-", [])]
)
def test_devices_are_chosen_by_number_or_uuid(monkeypatch, nvml, value, names):
    monkeypatch.setenv(VARIABLE, value)
    assert [gpu.name for gpu in devices.gpus()] == names
    assert devices.visible_handles(nvml) == [int(name[-1]) for name in names]


@pytest.mark.parametrize("question", ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetMemoryInfo"])
def test_a_device_that_is_lost_is_named_and_can_be_left_out(monkeypatch, nvml, question):
    setattr(nvml, question, lost(getattr(nvml, question)))
    with pytest.raises(
        ValueError,
        match=(
            r"^GPU 1 does not answer \(GPU is lost\); export CUDA_VISIBLE_DEVICES=0 to leave it"
            r" out, "
        ),
    ):
        devices.gpus()
    assert devices.hardware()["gpus"] == []  # a run on CPU cores is still possible
    assert len(topology()["gpus"]) == (0 if question == "nvmlDeviceGetHandleByIndex" else 2)
    monkeypatch.setenv(VARIABLE, "0")
    assert [gpu.name for gpu in devices.gpus()] == ["Fake 0"]
