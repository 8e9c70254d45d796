"""`run.json` with its hosts: writing, reading, and files of older versions without hosts."""

import json
from dataclasses import replace

import pytest

from suite.catalog.deviations import Deviation, DeviationCode
from suite.common.labels import Label, LabelKind
from suite.common.runspec import read_run
from tests.suite.two_hosts import HOSTS, make_run


@pytest.mark.parametrize("hosts", [(), HOSTS], ids=["this machine", "two hosts"])
def test_a_run_is_read_as_it_was_written(tmp_path, hosts):
    run = make_run(hosts, devices=8)
    run.write(tmp_path / "run.json")
    assert read_run(tmp_path / "run.json") == run


def test_labels_and_deviations_are_stored_as_sentences_and_as_data(tmp_path):
    """Read a file of an earlier version, which only has the sentences."""
    path = tmp_path / "run.json"
    deviations = (
        Deviation(
            DeviationCode.SETTING,
            "targets",
            {"hr_at_10": 0.5},
            "hr_at_10 0.635 or above",
            {"hr_at_10": 0.635},
        ),
        Deviation(DeviationCode.USER_FILE, "hyperparameter_set", "mine"),
    )
    run = replace(
        make_run(),
        labels=(Label(LabelKind.STRAGGLER, "50 ms"), Label(LabelKind.CPU)),
        deviations=deviations,
    )
    run.write(path)
    assert read_run(path) == run
    value = json.loads(path.read_text())
    assert value["labels"] == ["straggler 50 ms", "cpu"]
    assert value["deviations"] == [deviation.text for deviation in deviations]
    assert [fact["code"] for fact in value["deviation_facts"]] == ["setting", "user_file"]
    del value["label_facts"], value["deviation_facts"]
    path.write_text(json.dumps(value))
    assert read_run(path) == run


def test_a_file_without_hosts_studies_and_rounds_is_read(tmp_path):
    """Read a file of an early version: its run used one machine, and `clock` was a setting."""
    path = tmp_path / "run.json"
    replace(make_run(), study="", study_cell=(), overrides=(), environment_variables={}).write(path)
    now, value = read_run(path), json.loads(path.read_text())
    for name in ("hosts", "study", "study_cell", "overrides", "environment_variables"):
        del value[name]
    del value["settings"]["threads_per_device"]
    path.write_text(json.dumps({**value, "settings": {**value["settings"], "clock": "v0.7"}}))
    assert read_run(path) == replace(now, settings=replace(now.settings, threads_per_device="auto"))


def test_hosts_without_interfaces_are_read_and_invalid_hosts_are_refused(tmp_path):
    path, run = tmp_path / "run.json", make_run(HOSTS, devices=8)
    run.write(path)
    value = json.loads(path.read_text())
    old = [
        {key: item for key, item in host.items() if key != "interface"} for host in value["hosts"]
    ]
    path.write_text(json.dumps({**value, "hosts": old}))
    assert read_run(path) == run
    for invalid_hosts in ([3], [{**old[0], "rack": 1}], 3):
        path.write_text(json.dumps({**value, "hosts": invalid_hosts}))
        with pytest.raises(ValueError, match=r"^\S*run\.json\b[^\n]*$"):
            read_run(path)


def test_missing_keys_unknown_keys_and_another_schema_are_named(tmp_path):
    path = tmp_path / "run.json"
    make_run().write(path)
    value = json.loads(path.read_text())
    del value["cores"]
    path.write_text(json.dumps({**value, "machines": []}))
    with pytest.raises(
        ValueError, match=r"RunSpec: missing keys: \['cores'\], unknown keys: \['machines'\]"
    ):
        read_run(path)
    path.write_text('{"schema": 99}')
    with pytest.raises(ValueError, match=r"expected schema \d+, got schema 99$"):
        read_run(path)


def test_workers_get_the_paths_of_their_environment():
    settings = {
        "data_dir": "/data/set",
        "options": {"weights": "/data/w.pth", "rate": 2, "name": "data"},
    }
    run = make_run(folder="/logs/run_0", **settings)
    assert replace(run, environment={"path_map": {}}).seen_by_workers() == replace(
        run, environment={"path_map": {}}
    )
    seen = replace(
        run, environment={"path_map": {"/data": "/mnt/d", "/logs": "/l"}}
    ).seen_by_workers()
    assert (seen.folder, seen.settings.data_dir) == ("/l/run_0", "/mnt/d/set")
    assert seen.settings.options == {"weights": "/mnt/d/w.pth", "rate": 2, "name": "data"}
