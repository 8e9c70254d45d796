"""All-reduces and gradients in logs: bandwidths, links in a topology, and malformed content."""

import json

import pytest

from suite.results.logs.all_reduce import (
    SizeTimes,
    all_reduce,
    bus_bandwidth,
    gradient_all_reduce_info,
    shown_link,
)
from workloads.api import GradientAllReduceInfo

SIZE = {"bytes": 1024, "count": 20, "median_us": 50.0, "mean_us": 60.0}


def test_bus_bandwidth_follows_the_definition_of_nccl_tests():
    """PERFORMANCE.md of nccl-tests defines busbw = algbw · 2(n - 1)/n for an all-reduce of n ranks.

    Both bandwidths are equal for two ranks.
    """
    assert bus_bandwidth(1e9, 0.1, 2) == pytest.approx(1e10)
    assert bus_bandwidth(1e9, 0.1, 8) == pytest.approx(1.75e10)


def test_all_reduces_and_gradients_are_parsed():
    found = all_reduce({"devices": 2, "how": "a clock", "sizes": [{**SIZE, "bytes": 4096}, SIZE]})
    assert (found.devices, found.how) == (2, "a clock")
    assert [measured.size_bytes for measured in found.sizes] == [1024, 4096], "in order"
    assert found.sizes[0] == SizeTimes(1024, 20, pytest.approx(50e-6), pytest.approx(60e-6))
    assert gradient_all_reduce_info(
        {"bytes": 8e6, "tensors": 3, "buckets": 2}
    ) == GradientAllReduceInfo(8e6, 3, 2)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "text",
        {},
        {"devices": 2},
        {"devices": 1, "sizes": [SIZE]},
        {"devices": 2, "sizes": []},
        {"devices": 2, "sizes": [{**SIZE, "median_us": 0}]},
        {"devices": 2, "sizes": ["x", {"bytes": "much"}]},
        {"devices": 1e300, "sizes": [SIZE]},
        {"bytes": 0, "tensors": 1, "buckets": 1},
        {"bytes": 1, "tensors": 1, "buckets": 0},
    ],
)
def test_malformed_all_reduces_and_gradients_are_ignored(value):
    assert all_reduce(value) is gradient_all_reduce_info(value) is None


@pytest.mark.parametrize(
    ("topology", "device", "text"),
    [
        ({"gpu_nvlink": [[None, True], [True, None]]}, "cuda", "NVLink"),
        (
            {
                "gpu_nvlink": [[None, False], [False, None]],
                "gpu_pcie": [[None, "PIX"], ["PIX", None]],
            },
            "cuda",
            "PIX",
        ),
        ({"gpu_nvlink": None, "gpu_pcie": [[None]]}, "cuda", ""),
        ({"cpu": {"sockets": 1}}, "cpu", "one machine, 1 socket"),
        ({"cpu": "none"}, "cpu", ""),
        ({}, "cpu", ""),
    ],
)
def test_the_link_comes_from_the_topology(tmp_path, topology, device, text):
    (tmp_path / "topology.json").write_text(json.dumps(topology))
    assert shown_link(tmp_path, device, 2) == text


@pytest.mark.parametrize(("device", "text"), [("cuda", "NVLink or PIX"), ("cpu", "1 socket")])
def test_the_links_of_two_machines_come_from_both_topologies(tmp_path, device, text):
    of_machine = {
        "a": {"gpu_nvlink": [[None, True], [True, None]]},
        "b/": {"gpu_pcie": [[None, "PIX"], ["PIX", None]]},
    }
    (tmp_path / "run.json").write_text(
        json.dumps({"hosts": [{"name": name} for name in of_machine]})
    )
    for name, topology in of_machine.items():
        folder = tmp_path / name.strip("/")
        folder.mkdir()
        (folder / "topology.json").write_text(json.dumps({"cpu": {"sockets": 1}, **topology}))
    assert shown_link(tmp_path, device, 4) == f"2 machines, each {text}"
