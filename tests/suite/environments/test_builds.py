"""The devices and drivers that a framework build supports."""

import pytest

from suite.environments.builds import Build, carries

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_90a", "sm_100", "compute_120")


@pytest.mark.parametrize(
    ("capability", "fits"),
    [
        ("7.0", False), ("7.5", True), ("8.0", True), ("8.9", True), ("9.0", True), ("10.3", True),
        ("11.0", False), ("12.0", True), ("12.1", True), ("13.0", True),
    ],
)  # fmt: skip
def test_the_devices_that_a_build_supports(capability, fits):
    assert carries(ARCHITECTURES, capability) is fits


@pytest.mark.parametrize(
    ("cuda", "driver", "devices", "why"),
    [
        *(
            (*each, ["9.0"], "")
            for each in (("13.0", "13.0"), ("12.8", "12.2"), ("12.6", "13.0"), ("13.0", None))
        ),
        (
            "13.0",
            "12.8",
            ["9.0"],
            "is built for CUDA 13.0, but the driver supports CUDA up to 12.8",
        ),
        (
            "13.0",
            "13.0",
            ["8.0", "9.0", "10.0"],
            "has no code for compute capability 8.0, 10.0 (it has sm_90)",
        ),
    ],
)
def test_a_driver_supports_builds_of_its_major_version_and_older_for_every_device(
    cuda, driver, devices, why
):
    assert Build(cuda, ("sm_90",)).why_not(devices, driver) == why
