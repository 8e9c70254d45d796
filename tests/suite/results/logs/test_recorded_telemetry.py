"""Recorded telemetry: samples of several devices and machines, and malformed files."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results.logs.recorded_telemetry import json_object, machine_folders, telemetry
from tests.helpers import examples, json_values


def lines(folder, *rows):
    (folder / "telemetry.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return telemetry(folder)


def test_samples_are_sorted_by_time_and_devices_are_combined(tmp_path):
    found = lines(
        tmp_path,
        {"sensors": {"cpu_percent": None}, "interval_seconds": 1.0},
        {
            "seconds": 2.5,
            "time_ms": 9,
            "gpu_percent": [50, 100],
            "gpu_power_watts": [200, 300],
            "run_cpu_percent": 20,
        },
        {
            "seconds": 0.5,
            "time_ms": 7,
            "gpu_percent": [30, 50],
            "gpu_power_watts": [100, 100],
            "run_cpu_percent": None,
        },
    )
    assert found.seconds == (0.5, 2.5)
    assert (found.series["gpu_percent"], found.series["gpu_power_watts"]) == ((40, 75), (200, 500))
    assert found.series["run_cpu_percent"] == (None, 20)
    assert "time_ms" not in found.series
    assert found.energy_joules == pytest.approx(2 * 350)


def test_a_device_without_a_value_leaves_a_gap_and_no_energy(tmp_path):
    rows = [
        {"seconds": second, "gpu_power_watts": [100, None if second else 100]}
        for second in range(3)
    ]
    found = lines(tmp_path, *rows)
    assert found.series["gpu_power_watts"] == (200, None, None)
    assert found.energy_joules is None


def of_machines(folder, **rows):
    """Write and read the telemetry of a run on several machines.

    `rows` maps the name of a machine to its samples, or to None for a machine without a file.
    """
    (folder / "run.json").write_text(json.dumps({"hosts": [{"name": name} for name in rows]}))
    for name, samples in rows.items():
        (folder / name).mkdir(exist_ok=True)
        if samples is not None:
            lines(folder / name, *samples)
    return telemetry(folder)


def row(seconds, percent, watts=None, **more):
    return {"seconds": seconds, "run_cpu_percent": percent, "gpu_power_watts": watts, **more}


def test_machines_are_combined_at_the_sample_times_of_the_first_machine(tmp_path):
    """Percentages are averaged over machines; memory, power, and energy are summed."""
    found = of_machines(
        tmp_path,
        b=[row(second, 80, [100, 100], run_memory_bytes=2) for second in (0.5, 1.5, 2.5)],
        a=[
            row(second, 40, [200, None if second > 2 else 100], run_memory_bytes=3)
            for second in (0.1, 1.2, 2.1)
        ],
    )
    assert found.seconds == (0.5, 1.5, 2.5)
    assert (found.series["run_cpu_percent"], found.series["run_memory_bytes"]) == (
        (60, 60, 60),
        (5, 5, 5),
    )
    assert found.series["gpu_power_watts"] == (500, 500, None)
    assert found.energy_joules is None
    steady = [row(second, 1, [100]) for second in range(3)]
    assert of_machines(tmp_path, b=steady, a=steady).energy_joules == 400


def test_values_are_missing_if_a_machine_has_no_telemetry_or_no_sample_at_the_time(tmp_path):
    """Readers would mistake a sum over some of the machines for the sum over all machines."""
    samples = [row(second, 50) for second in range(6)]
    assert of_machines(tmp_path, a=samples, b=None) is None
    found = of_machines(tmp_path, a=samples, b=samples[:3])
    assert found.series["run_cpu_percent"] == (50, 50, 50, 50, None, None)
    assert of_machines(tmp_path, a=samples, b=[{"seconds": 1, "x": 1}]).series == {}


@pytest.mark.parametrize("hosts", [None, 3, [], ["a", "b"], [{"name": "a"}], [{}, 3]])
def test_the_file_in_the_run_folder_is_read_without_a_list_of_several_hosts(tmp_path, hosts):
    (tmp_path / "run.json").write_text(json.dumps({"hosts": hosts}))
    assert lines(tmp_path, row(1, 50)).series == {"run_cpu_percent": (50,)}


def test_a_machine_name_cannot_lead_outside_the_run_folder(tmp_path):
    (tmp_path / "run.json").write_text(
        json.dumps({"hosts": [{"name": "../../etc"}, {"name": "/b"}]})
    )
    assert machine_folders(tmp_path) == [tmp_path / "etc", tmp_path / "b"]


def test_a_file_that_is_missing_too_long_or_malformed_is_ignored(tmp_path, monkeypatch):
    assert telemetry(tmp_path) is lines(tmp_path, {"sensors": {}}, [1], "text", 3, None) is None
    assert lines(tmp_path, {"seconds": 1, "cpu_percent": 1}) is not None
    monkeypatch.setattr("suite.results.logs.recorded_telemetry.MAX_BYTES", 10)
    assert telemetry(tmp_path) is None
    (tmp_path / "run.json").write_text(json.dumps({"a": "x" * 100}))
    assert json_object(tmp_path / "run.json", limit_bytes=50) == {}
    assert json_object(tmp_path / "run.json") == {"a": "x" * 100}
    for content in (b"", b"[]", b"1", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000):
        (tmp_path / "run.json").write_bytes(content)
        assert json_object(tmp_path / "run.json") == json_object(tmp_path / "none.json") == {}


NAMES = st.sampled_from(["seconds", "gpu_percent", "gpu_power_watts", "x"])


@examples(30)
@given(st.lists(st.dictionaries(NAMES, json_values(10)) | json_values(10), max_size=8))
def test_arbitrary_telemetry_never_raises(tmp_path_factory, rows):
    found = lines(tmp_path_factory.mktemp("run"), *rows)
    if found is not None:
        assert all(len(values) == len(found.seconds) for values in found.series.values())
        assert list(found.seconds) == sorted(found.seconds)
        _ = found.energy_joules
