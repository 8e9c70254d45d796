"""The message with which an agent describes its machine."""

import sys

import pytest

from suite.agent.facts import host_facts
from suite.machine import devices
from suite.machine.visible import VARIABLE
from tests.suite import fake_nvml


@pytest.fixture
def nvml(monkeypatch):
    module = fake_nvml.make()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.delenv(VARIABLE, raising=False)
    module.nvmlDeviceGetName = lambda device: f"Fake {device}"
    return module


def test_the_hardware_equals_the_controllers_record(nvml):
    found = host_facts()
    assert found.hardware == devices.hardware()
    assert [gpu["name"] for gpu in found.hardware["gpus"]] == ["Fake 0", "Fake 1"]
    assert (found.cores, found.gpu_fault) == (devices.cpu_cores(), "")


def test_a_device_that_is_lost_is_named_and_can_be_left_out(monkeypatch, nvml):
    handle = nvml.nvmlDeviceGetHandleByIndex

    def ask(number):
        if number == 1:
            raise fake_nvml.NVMLError("GPU is lost")
        return handle(number)

    nvml.nvmlDeviceGetHandleByIndex = ask
    found = host_facts()
    assert found.hardware["gpus"] == []
    assert found.gpu_fault.startswith("GPU 1 does not answer (GPU is lost)")
    monkeypatch.setenv(VARIABLE, "0")
    found = host_facts()
    assert ([gpu["name"] for gpu in found.hardware["gpus"]], found.gpu_fault) == (["Fake 0"], "")


def test_nvml_is_initialized_once(nvml):
    started = []
    nvml.nvmlInit = lambda: started.append(1)
    host_facts()
    assert len(started) == 1
