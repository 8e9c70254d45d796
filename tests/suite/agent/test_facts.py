"""GPUs as nvidia-smi tells of them: a script in its place."""

import re
import shlex

import pytest

from suite.agent import facts
from suite.machine.visible import VARIABLE

FIRST = "0, GPU-aa11, NVIDIA Test, 81920, 9.0, Disabled"
SECOND = "1, GPU-bb22, NVIDIA Other, 40960, 8.0, [N/A]"


@pytest.fixture
def driver(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv(VARIABLE, raising=False)

    def say(*lines, code=0):
        program = tmp_path / "nvidia-smi"
        program.write_text("\n".join(["#!/bin/sh", *(f"echo {shlex.quote(line)}" for line in lines), f"exit {code}"]))
        program.chmod(0o755)

    return say


@pytest.mark.parametrize(("typed", "names"), [("1,0", ["Other", "Test"]), ("GPU-bb", ["Other"]), ("GPU-c", [])])
def test_devices_are_chosen_by_number_or_uuid(monkeypatch, driver, typed, names):
    driver(FIRST, SECOND)
    assert facts.gpus()[1] == {"name": "NVIDIA Other", "memory_bytes": 40 << 30, "capability": "8.0"}
    monkeypatch.setenv(VARIABLE, typed)
    assert [gpu["name"] for gpu in facts.gpus()] == [f"NVIDIA {name}" for name in names]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("1, GPU-bb22, NVIDIA Other, [N/A], 8.0, [N/A]", "GPU-bb22, NVIDIA Other, [N/A], 8.0, [N/A]"),
        ("1, [GPU is lost]", "[GPU is lost]"),
    ],
)
def test_a_device_that_is_lost_is_told_and_can_be_left_out(monkeypatch, driver, line, why):
    driver(FIRST, line, code=15)
    with pytest.raises(ValueError, match=re.escape(f"GPU 1 does not answer ({why}); to leave it out: ")):
        facts.gpus()
    found = facts.facts()
    assert found["hardware"]["gpus"] == []
    assert found["gpu_fault"].startswith("GPU 1 does not answer (")
    monkeypatch.setenv(VARIABLE, "0")
    found = facts.facts()
    assert ([gpu["name"] for gpu in found["hardware"]["gpus"]], found["gpu_fault"]) == (["NVIDIA Test"], "")


def test_a_device_cut_into_parts_is_told(driver):
    driver(FIRST.replace("Disabled", "Enabled"), SECOND)
    assert facts.facts()["gpu_fault"].startswith("GPU 0 is cut into parts (MIG), which are not supported; ")


def test_a_driver_that_does_not_answer_has_no_devices(driver):
    driver("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", code=9)
    assert facts.gpus() == []
