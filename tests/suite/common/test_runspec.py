"""`run.json` with its hosts: written, read, and read from before hosts were recorded."""

import json
from dataclasses import replace

import pytest

from suite.common.runspec import read_run, write_atomically
from suite.launch.hosts import recorded
from suite.plan.resume import finished_status
from tests.suite.two_hosts import HOSTS, make_run


@pytest.mark.parametrize("hosts", [(), HOSTS], ids=["this machine", "two hosts"])
def test_hosts_go_to_disk_and_back(tmp_path, hosts):
    run = recorded(make_run(hosts, devices=8))
    run.write(tmp_path / "run.json")
    assert read_run(tmp_path / "run.json").hosts == run.hosts
    assert len(run.hosts) == max(1, len(hosts))


def test_a_file_from_before_hosts_studies_and_rounds_is_read(tmp_path):
    """It was on one machine; its clock stood beside its round."""
    path = tmp_path / "run.json"
    replace(recorded(make_run()), hosts=(), study="", study_cell=()).write(path)
    now, value = read_run(path), json.loads(path.read_text())
    for name in ("hosts", "study", "study_cell"):
        del value[name]
    del value["settings"]["threads_per_device"]
    path.write_text(json.dumps({**value, "settings": {**value["settings"], "clock": "v0.7"}}))
    assert read_run(path) == replace(now, settings=replace(now.settings, threads_per_device="auto"))


def test_what_run_json_lacks_or_adds_is_named(tmp_path):
    path = tmp_path / "run.json"
    recorded(make_run()).write(path)
    value = json.loads(path.read_text())
    del value["cores"]
    path.write_text(json.dumps({**value, "machines": []}))
    with pytest.raises(ValueError, match=r"RunSpec misses \['cores'\] and does not know \['machines'\]"):
        read_run(path)


def test_workers_see_paths_where_their_environment_has_them():
    settings = {"data_dir": "/data/set", "options": {"weights": "/data/w.pth", "rate": 2, "name": "data"}}
    run = make_run(folder="/logs/run_0", **settings)
    assert replace(run, environment={"path_map": {}}).seen_by_workers() == replace(run, environment={"path_map": {}})
    seen = replace(run, environment={"path_map": {"/data": "/mnt/d", "/logs": "/l"}}).seen_by_workers()
    assert (seen.folder, seen.settings.data_dir) == ("/l/run_0", "/mnt/d/set")
    assert seen.settings.options == {"weights": "/mnt/d/w.pth", "rate": 2, "name": "data"}


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    """Itself, not the temporary one beside it."""
    with pytest.raises(FileNotFoundError) as error:
        write_atomically(tmp_path / "deleted" / "status.json", "{}")
    assert error.value.filename == str(tmp_path / "deleted" / "status.json")


OTHER_KINDS = ["[]", "null", "3", '"x"', "[" * 100_000, '{"schema": ' + "1" * 5_000 + "}", b"\xff"]


@pytest.mark.parametrize(
    "text",
    [
        *OTHER_KINDS,
        *("{}", '{"schema": 2}', '{"schema": 2, "settings": [], "facts": {}}', '{"schema": 2, "settings": {}, "facts": []}'),
    ],
    ids=range(len(OTHER_KINDS) + 4),
)
def test_json_that_no_run_writes_is_one_line_with_the_file(tmp_path, text):
    path = tmp_path / "run.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=rf"^{path}: ") as error:
        read_run(path)
    assert "\n" not in str(error.value)


def test_nothing_is_resumed_over_options_of_another_kind(tmp_path):
    recorded(make_run(options="x")).write(tmp_path / "run.json")
    (tmp_path / "status.json").write_text('{"status": "success"}')
    with pytest.raises(ValueError, match=rf"^{tmp_path}/run.json: not the JSON of a run"):
        finished_status(tmp_path, recorded(make_run(options={})))


@pytest.mark.parametrize("text", OTHER_KINDS, ids=range(len(OTHER_KINDS)))
@pytest.mark.parametrize("name", ["run.json", "status.json"])
def test_nothing_is_resumed_over_files_that_no_run_writes(tmp_path, name, text):
    run = recorded(make_run(options={}))
    run.write(tmp_path / "run.json")
    (tmp_path / "status.json").write_text('{"status": "success"}')
    assert finished_status(tmp_path, run) == "success"
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=rf"^{tmp_path / name}: "):
        finished_status(tmp_path, run)
