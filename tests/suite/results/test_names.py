"""Kinds of accelerators for the names in published results, drivers, and machines; rounds."""

import csv

import pytest

from suite.results.names import UNKNOWN_ROUND, accelerator_chip, accelerator_name, round_like
from suite.results.published_results import SHIPPED

PUBLISHED = {
    "A100": "NVIDIA A100",
    "A100 PCIe 40 GB": "NVIDIA A100-PCIE-40GB (250W), NVIDIA A100-PCIe-40GB (250W)",
    "A100 PCIe 80 GB": (
        "NVIDIA A100 - PCIe - 80 GB, NVIDIA A100-PCIE-80GB, NVIDIA A100-PCIE-80GB (300W), "
        "NVIDIA A100-PCIe-80GB, NVIDIA A100-PCIe-80GB (300W)"
    ),
    "A100 SXM 40 GB": "NVIDIA A100-SXM-40GB, NVIDIA A100-SXM4-40GB, NVIDIA A100-SXM4-40GB (400W)",
    "A100 SXM 80 GB": (
        "NVIDIA A100-SXM-80GB, NVIDIA A100-SXM-80GB (400W), NVIDIA A100-SXM-80GB CTS, NVIDIA"
        " A100-SXM4-80GB, NVIDIA A100-SXM4-80GB (400W), NVIDIA A100-SXM4-80GB (500W)"
    ),
    "A30": "NVIDIA A30, NVIDIA A30-PCIE-24GB",
    "A40": "NVIDIA A40",
    "AMD Radeon RX 7900 XTX": "AMD Radeon RX 7900 XTX",
    "Ascend910": "Ascend910",
    "B200": "NVIDIA Blackwell GPU (B200-SXM-180GB)",
    "B300": (
        "NVIDIA B300 Blackwell Ultra GPU, NVIDIA Blackwell GPU (B300-SXM-270GB), NVIDIA Blackwell"
        " Ultra GPU (B300-SXM-270GB)"
    ),
    "CPU": "none (CPU)",
    "GB200": "NVIDIA Blackwell GPU (GB200)",
    "GB300": "NVIDIA Blackwell Ultra GPU (GB300)",
    "GC200": "Graphcore IPU GC200",
    "Gaudi": "Habana Gaudi",
    "Gaudi2": "Habana Gaudi2, Intel Gaudi2",
    "H100 NVL": "H100 NVL Tensor Core GPU (PCIe)",
    "H100 PCIe": "NVIDIA H100-PCIe, NVIDIA H100-PCIe-80GB",
    "H100 SXM": (
        "NVIDIA H100 80GB HBM3, NVIDIA H100-SXM-80GB, NVIDIA H100-SXM5-80GB, NVIDIA H100-SXM5-96GB"
    ),
    "H200 NVL": "NVIDIA H200-NVL-141GB",
    "H200 SXM": "NVIDIA H200-SXM5-141GB",
    "L4": "NVIDIA L4",
    "L40": "NVIDIA L40",
    "L40S": "NVIDIA L40S",
    "MI300X": "AMD Instinct MI300X 192GB HBM3",
    "MI325X": (
        "AMD Instinct MI325X 256GB HBM3E, AMD Instinct MI325X 256GB HBM3E DLC, AMD Instinct MI325X"
        " 256GB HBM3e"
    ),
    "MI350X": "AMD Instinct MI350X, AMD Instinct MI350X 288GB HBM3E",
    "MI355X": "AMD Instinct MI355X, AMD Instinct MI355X 288GB HBM3E",
    "NVIDIA A10G": "NVIDIA A10G",
    "NVIDIA GeForce RTX 4090": "NVIDIA GeForce RTX 4090",
    "NVIDIA RTX Pro 6000 SE PCIe 96GB": "NVIDIA RTX Pro 6000 SE PCIe 96GB",
    "RTX A5000": "NVIDIA RTX A5000",
    "TPU": "TPU",
    "TPU trillium": "TPU-trillium",
    "TPU v2": "tpuv2-512, tpuv2-8",
    "TPU v3": "TPU v3, tpu-v3 chip (2 cores), tpuv3-32, tpuv3-512, tpuv3-8",
    "TPU v5p": "TPU-v5p",
    "V100": "NVIDIA V100, Nvidia Tesla V100",
    "V100 PCIe": "Tesla V100-PCIe-32GB",
    "V100 SXM": (
        "NVIDIA V100-SXM2-16GB (300W), NVIDIA V100-SXM2-32GB, NVIDIA V100-SXM3-32GB (450W), Nvidia"
        " Tesla V100-SXM2-32GB, Tesla V100-SXM2-16GB, Tesla V100-SXM3-32GB, Tesla V100-SXM3-32GB-H,"
        " Tesla V100-SXM3-H-32GB"
    ),
    "V100S": "Nvidia Tesla V100S-PCIe-32GB",
}
UNPUBLISHED = {
    "8x Tesla V100": "V100",
    "Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz": "Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz",
    "NVIDIA A100 80GB PCIe": "A100 PCIe 80 GB",
    "NVIDIA B200": "B200",
    "NVIDIA GB200 NVL72": "GB200",
    "NVIDIA GH200 480GB": "NVIDIA GH200 480GB",
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H100 NVL": "H100 NVL",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "Something New": "Something New",
    "TPU v5p": "TPU v5p",
    "n1-highmem-96 w/8xV100": "V100",
    "srv-a100x8": "A100",
    "tpu-v5e-256": "TPU v5e",
}


def test_every_published_accelerator_has_its_kind():
    with (SHIPPED / "results.csv").open(encoding="utf-8", newline="") as file:
        published = {row["accelerator"] for row in csv.DictReader(file)}
    kinds: dict[str, list[str]] = {}
    for hardware in sorted(published):
        kinds.setdefault(accelerator_name(hardware), []).append(hardware)
    assert kinds == {kind: hardware.split(", ") for kind, hardware in PUBLISHED.items()}


@pytest.mark.parametrize("hardware", UNPUBLISHED)
def test_names_of_drivers_and_machines_have_kinds_too(hardware):
    assert accelerator_name(hardware) == UNPUBLISHED[hardware]


@pytest.mark.parametrize("kind", PUBLISHED)
def test_each_kind_has_one_chip(kind):
    chips = {accelerator_chip(hardware) for hardware in PUBLISHED[kind].split(", ")}
    assert len(chips) == 1
    assert kind.startswith(*chips)


@pytest.mark.parametrize("name", ["v0.5", "v0.6", "v5.0", UNKNOWN_ROUND])
def test_only_v05_times_the_setup_and_numbers_epochs_from_0(name):
    found = round_like(name)
    assert (found.clock, found.first_epoch) == (("v0.5", 0) if name == "v0.5" else ("v0.7", 1))
