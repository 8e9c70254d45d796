"""Step time from its parts, compared with the figures that articles print."""

import pytest

from suite.results.predict.fits import StepFit
from suite.results.predict.step import BACKWARD_SHARE, fit_step, step_time
from suite.results.predict.systems import Interconnect, System, Traffic, find_system, systems
from suite.results.published_results import csv_rows
from tests.helpers import one_line
from tests.suite.results.test_articles import KERAS, printed
from workloads.api import GradientAllReduceInfo

GB = 1e9


def cost_of(t0, c):
    return StepFit(t0, c, None, None, 0.0)


def ring(gb_per_second, latency=0.0, devices=8):
    return System("ring", "ring", devices, Interconnect(gb_per_second * GB, latency), None)


def test_the_cost_of_a_second_gpu_depends_on_the_tensors_and_not_on_the_bytes():
    """ResNet-50 loses 92 ms per step for 102 MB of gradients, VGG16 only 31 ms for 553 MB.

    A limited bandwidth cannot explain that, but a cost per tensor can: ResNet-50 has 161 tensors,
    VGG16 has 32.
    """
    sizes = {"ResNet-50": (102.2e6, 161), "VGG16": (553.4e6, 32)}
    lost = {}
    for name in sizes:
        model = f"{name} (synthetic 224x224)"
        alone = 32 / printed(KERAS, model=model, metric="training throughput")
        speedup = printed(KERAS, model=model, metric="training speedup over 1 GPU", chips="2")
        lost[name] = 2 * alone / speedup - alone
    assert (lost["ResNet-50"], lost["VGG16"]) == (
        pytest.approx(92e-3, abs=1e-3),
        pytest.approx(31e-3, abs=1e-3),
    )
    assert lost["ResNet-50"] / lost["VGG16"] > 1 > sizes["ResNet-50"][0] / sizes["VGG16"][0]
    per_tensor = 0.555e-3
    host = System(
        "keras",
        "",
        8,
        Interconnect(GB, 0.0),
        None,
        per_tensor,
        host=Interconnect(2 * 43.0 * GB, 0.0),
    )
    for name, (size, tensors) in sizes.items():
        assert host.all_reduce(2, GradientAllReduceInfo(size, tensors)).seconds == pytest.approx(
            lost[name], rel=0.02
        )


INCEPTION_V3 = 23_834_568 * 4
"""Bytes of fp32 gradients, from torchvision's parameter count without the auxiliary classifier."""


TIMES_MS = {INCEPTION_V3: (1.3, 16.7), 227e6: (3.1, 39.7), 643e6: (8.7, 112), 2040e6: (27.5, 357)}
"""All-reduce times in ms over NVLink and over PCIe, by the size in bytes."""


@pytest.mark.parametrize("size", TIMES_MS)
def test_times_of_rings_over_eight_devices_agree_with_the_article(size):
    for rate, milliseconds in zip((130, 10), TIMES_MS[size], strict=True):
        assert ring(rate).all_reduce(8, GradientAllReduceInfo(size)).seconds * 1e3 == pytest.approx(
            milliseconds, rel=0.02
        )


def test_systems_agree_with_table_1_of_the_nvlink_article():
    """Compare bisection bandwidth, network bandwidth, and latency of clusters of 124 systems.

    The article prints bisections of 6,012 and 310 GB/s, networks of 800 and 40 Gb/s, and a latency
    ratio of 3.9.
    """
    table = csv_rows("throughput*.csv", ("system", "metric"))
    figures = {(row["system"], row["metric"]): float(row["value"]) for row in table if row["value"]}
    names = {"pcie": "124 systems, dual 10 Gb Ethernet", "dgx1": "124x DGX-1, quad EDR IB"}
    rates = {
        name: systems()[name].between.ports * systems()[name].between.bytes_per_second
        for name in names
    }
    for name, printed_name in names.items():
        assert 124 * rates[name] / GB == pytest.approx(
            figures[printed_name, "bisection bandwidth"], abs=0.2
        )
    bits = rates["dgx1"] * 8 * 66 / 64
    both_ways = figures["DGX-1", "network bandwidth (bidirectional)"]
    times = figures["DGX-1 cluster, InfiniBand vs Ethernet", "network performance ratio"]
    assert (2 * bits / 1e9, bits / (rates["pcie"] * 8)) == pytest.approx(
        (both_ways, times), rel=1e-4
    )
    slow, fast = (figures[name, "system-wide latency"] for name in names.values())
    assert slow / fast == pytest.approx(3.9, abs=0.01)


def test_the_time_of_a_ring_agrees_with_its_closed_form():
    system = System(
        "two levels", "", 4, Interconnect(100 * GB, 2e-6), Interconnect(5 * GB, 9e-6, ports=2)
    )
    size, one_node = 1e9, system.all_reduce(4, GradientAllReduceInfo(1e9))
    assert one_node == Traffic(2 * 3 / 4 * size / 100e9, 0.0, 6 * 2e-6, 0.0)
    three = system.all_reduce(12, GradientAllReduceInfo(size))
    assert (three.inside, three.between) == (
        one_node.inside,
        pytest.approx(2 * 2 / 3 * size / 10e9),
    )
    assert three.latency == pytest.approx(6 * 2e-6 + 4 * 9e-6)
    assert system.all_reduce(1, GradientAllReduceInfo(size)).seconds == 0.0
    with pytest.raises(ValueError, match="9 devices on a node of 8"):
        ring(10).all_reduce(9, GradientAllReduceInfo(size))


def test_communication_during_the_backward_pass_costs_no_time():
    cost, gradients = cost_of(1e-3, 1e-3), GradientAllReduceInfo(1e9)
    hidden = step_time(cost, 1000, 8, gradients, ring(130), 1.0)
    assert (hidden.exposed, hidden.seconds, hidden.binds) == (0.0, pytest.approx(1.001), "samples")
    shown = step_time(cost, 10, 8, gradients, ring(130), 0.5)
    assert shown.exposed == pytest.approx(1.75e9 / 130e9 - 0.5 * BACKWARD_SHARE * 10e-3)
    assert step_time(cost, 1, 8, gradients, ring(10), 0.5).binds == "bandwidth in the node"
    assert step_time(cost_of(1.0, 1e-3), 1, 8, gradients, ring(130), 0.5).binds == "fixed cost"
    assert step_time(cost, 1, 8, GradientAllReduceInfo(8.0), ring(10, 1e-3), 0.5).binds == "latency"
    assert (
        step_time(cost, 1, 4096, gradients, systems()["pcie"], 0.5).binds
        == "bandwidth between nodes"
    )


def test_step_cost_is_recovered_and_needs_two_batches():
    points = [(b, 0.004 + 0.001 * b) for b in (8, 64, 512)]
    cost = fit_step(points)
    assert (cost.t0, cost.c) == pytest.approx((0.004, 0.001))
    assert fit_step([(8, 0.5), (16, 0.4)]).c == 0.0
    with pytest.raises(ValueError, match="two batch sizes"):
        fit_step([(8, 1.0), (8, 1.1)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 3", "devices_per_node"),
        ("a: {devices_per_node: 8}", "inside is missing"),
        ("a: {devices_per_node: 0, inside: {gb_per_second: 1}}", "devices_per_node=0"),
        ("a: {devices_per_node: 8, inside: {gb_per_second: fast}}", "gb_per_second=fast"),
        ("a: {devices_per_node: 8, inside: {gbps: 1}}", "unknown key gbps"),
        ("a: [", "expected the node content"),
    ],
)
def test_an_invalid_system_file_is_rejected_in_one_line(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=one_line(message)):
        find_system(str(path))


def test_a_user_defined_system_is_read_from_a_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "mine: {devices_per_node: 2, inside: {gb_per_second: 1, latency_us: 10}, us_per_tensor: 5}"
    )
    system = find_system(str(path))
    assert system.all_reduce(2, GradientAllReduceInfo(1e9, 100)) == pytest.approx(
        (1.0, 0.0, 2e-5, 5e-4)
    )
    with pytest.raises(ValueError, match="Did you mean dgxa100"):
        find_system("dgx-a100")
