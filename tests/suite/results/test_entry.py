"""Entries of submissions: facts from folders, the system description, `scaling.json`, and logs."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results.entry import read_entry
from suite.results.names import round_of_folder
from suite.results.scores import results
from suite.results.system_description import SystemDescription, parse_description, read_description
from testing.fake_logs import foreign, write
from tests.helpers import examples

DESCRIPTION = {
    "submitter": "Some Company",
    "division": "open",
    "framework": "PyTorch, Merlin HugeCTR, DGL NVIDIA Release 24.09",
    "number_of_nodes": "2",
    "accelerators_per_node": "8",
    "accelerator_model_name": "AMD Instinct MI350X",
}


def submit(
    root,
    place="v4.0/Cisco",
    system="two_nodes",
    benchmark="resnet",
    description=DESCRIPTION,
    count=5,
    **logged,
):
    """Write the logs of one entry and its system description, and return the folder of the logs.

    The logs name a different submitter.
    """
    folder = root / place / "results" / system / benchmark
    for index in range(count):
        foreign(
            folder / f"result_{index}.txt", "1xExample", 60 + index, benchmark, seed=index, **logged
        )
    if description is not None:
        write(root / place / "systems" / f"{system}.json", [json.dumps(description)])
    return folder


def only_result(path):
    (result,) = results(path)
    return result


@pytest.mark.parametrize(
    "place",
    [
        "v4.0/Cisco",
        "v4.0/closed/Cisco",
        "training_results_v4.0/open/Cisco",
        "training_results_v4.0-main/Cisco",
    ],
)
@pytest.mark.parametrize("described", [True, False])
def test_folder_names_take_precedence_over_the_description(tmp_path, place, described):
    submit(tmp_path, place, description=DESCRIPTION if described else None)
    found = only_result(tmp_path)
    assert (found.round, found.submitter, found.system) == ("v4.0", "Cisco", "two_nodes")
    assert (found.rules, found.runs_successful, found.seconds) == ("v4.0", 5, 62.0)
    hardware = (found.device_name, found.devices, found.nodes, found.framework)
    assert hardware == (
        ("AMD Instinct MI350X", 16, 2, "pytorch") if described else ("", None, None, "")
    )
    folder_division = {"closed": "closed", "open": "open"}.get(Path(place).parent.name, "")
    assert found.division == ("open" if described else folder_division)


@pytest.mark.parametrize("place", ["Cisco", "elsewhere/closed/Cisco"])
def test_a_submission_without_a_round_has_its_submitter_and_system(tmp_path, place):
    submit(tmp_path, place)
    found = only_result(tmp_path)
    assert (found.round, found.submitter, found.system) == ("not known", "Cisco", "two_nodes")


def test_a_folder_called_results_alone_is_no_submission(tmp_path):
    submit(tmp_path, "home/me", description=None)
    found = only_result(tmp_path)
    assert (found.submitter, found.system) == ("Somebody", "1xExample")


def test_the_description_fills_the_submitter_of_other_layouts(tmp_path):
    foreign(tmp_path / "box" / "resnet" / "result_0.txt", "box name")
    write(tmp_path / "box" / "system.json", [json.dumps(DESCRIPTION)])
    found = only_result(tmp_path)
    assert (found.submitter, found.system, found.devices) == ("Some Company", "box name", 16)


@pytest.mark.parametrize(
    ("benchmark", "text", "system", "framework"),
    [
        ("dlrm_dcnv2", "NGC Pytorch 24.09, NGC HugeCTR 24.09, NVIDIA Nemo 24.09", "box", "hugectr"),
        ("dlrm", "NVIDIA Merlin HugeCTR Release 24.04", "box_mxnet", "hugectr"),
        ("resnet", "NGC MXNet 24.09, NGC HugeCTR 24.09", "box", "mxnet"),
        (
            "bert",
            "MXNet, PyTorch, Merlin HugeCTR, DGL NVIDIA Release 24.04",
            "box",
            "mxnet or pytorch",
        ),
        ("gnn", "NVIDIA Release 24.04 MxNet, pytorch, dgl and 23.09 pytorch", "box", "dgl"),
        ("rgat", "PyTorch, DGL", "box", "dgl"),
        ("bert", "PyTorch, DGL", "box_tensorflow", "tensorflow"),
        ("dlrm", "TensorFlow 2.5", "box", "tensorflow"),
        ("llama2_70b_lora", "LLMBoost 1.2.0", "box", "LLMBoost 1.2.0"),
    ],
)
def test_the_framework_for_the_benchmark_is_chosen_from_a_list(
    tmp_path, benchmark, text, system, framework
):
    submit(
        tmp_path, system=system, benchmark=benchmark, description={**DESCRIPTION, "framework": text}
    )
    assert only_result(tmp_path).framework == framework


def test_runs_of_one_folder_are_one_result_even_if_their_metadata_differ(tmp_path):
    folder = submit(tmp_path)
    foreign(
        folder / "result_1.txt",
        "another platform",
        500,
        submission_org="Another",
        submission_division="closed",
    )
    plain = tmp_path / "downloads"
    for index in range(3):
        foreign(
            plain / f"result_{index}.txt",
            f"box {index}",
            60 + index,
            submission_org=f"Company {index}",
        )
    submission, downloads = sorted(results(tmp_path), key=lambda result: -result.runs_successful)
    assert (submission.submitter, submission.system, submission.runs_successful) == (
        "Cisco",
        "two_nodes",
        5,
    )
    assert (downloads.runs_successful, downloads.seconds) == (3, 61.0)
    assert any("differ in" in note for note in downloads.score_notes)


def test_placeholders_are_not_used_as_names(tmp_path):
    path = tmp_path / "logs" / "result_0.txt"
    foreign(path, "1xSUBMISSION_PLATFORM_PLACEHOLDER", submission_org="SUBMISSION_ORG_PLACEHOLDER")
    found = only_result(tmp_path)
    assert (found.submitter, found.system, found.runs_successful) == ("", "", 1)


def test_logs_without_a_run_number_in_their_names_are_separate_results(tmp_path):
    for name in ("first", "second"):
        foreign(tmp_path / f"{name}.txt", name)
    assert {result.system for result in results(tmp_path)} == {"first", "second"}


def test_an_empty_log_of_a_submission_is_a_failed_run(tmp_path):
    folder = submit(tmp_path)
    write(folder / "result_0.txt", b"")
    found = only_result(tmp_path)
    assert (found.runs_successful, found.runs_failed) == (4, 1)
    assert "the failed run counts as the slowest" in found.score_notes


def test_the_nearest_round_decides_and_versions_with_two_digits_do_not():
    names = {
        "a/v3.1/v4.0/x": "v4.0",
        "a/training_results_v5.1-0a1b2c3/x": "v5.1",
        "a/training_v4.1/x": "v4.1",
    }
    names |= {
        "a/4.0.0/x": "v4.0",
        "a/v4.0-old/x": "",
        "a/v10.2/x": "",
        "a/cuda-12.1/x": "",
        "v4.0.1/x": "",
    }
    assert {path: round_of_folder(Path("/") / path) for path in names} == names


@pytest.mark.parametrize(
    ("content", "factor"),
    [
        ('{"scaling_factor": 1.0511}', 1.0511),
        ('{"scaling_factor": 1, "note": "x"}', 1.0),
        ('\ufeff{"scaling_factor": 2.0}', 2.0),
    ],
)
def test_the_score_is_multiplied_by_the_factor(tmp_path, content, factor):
    folder = submit(tmp_path)
    (folder / "scaling.json").write_text(content)
    found = only_result(tmp_path)
    assert (found.seconds, found.scaling_factor) == (pytest.approx(62.0 * factor), factor)
    assert any("scaling.json" in note for note in found.score_notes) == (factor != 1.0)


@pytest.mark.parametrize(
    "content",
    [
        "", "{", "[]", "null", "1.05", "{}", '{"factor": 1.05}', '{"scaling_factor": null}',
        '{"scaling_factor": "1.05"}', '{"scaling_factor": true}', '{"scaling_factor": [1.05]}',
        '{"scaling_factor": NaN}', '{"scaling_factor": Infinity}', '{"scaling_factor": 1e400}',
        '{"scaling_factor": 0}', '{"scaling_factor": -1.05}', '{"scaling_factor": 1e9}',
        f'{{"scaling_factor": {"9" * 5000}}}', '{"scaling_factor": 1.0}' + " " * (1 << 21),
        "[" * 100_000, b"\xff\xfe\x00", '{"scaling_factor": {"a": "\\u001b[31m"}}',
    ],
)  # fmt: skip
def test_an_unusable_factor_leaves_the_score_unscaled_with_one_note(tmp_path, content):
    folder = submit(tmp_path)
    (folder / "scaling.json").write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    found = only_result(tmp_path)
    assert (found.seconds, found.scaling_factor) == (62.0, None)
    (note,) = (note for note in found.score_notes if "not scaled" in note)
    assert str(folder / "scaling.json") in note
    assert "expected" in note.lower()
    assert note.isprintable()


@pytest.mark.parametrize("content", ["", "{", "[1]", b"\xff\x00"])
def test_an_unusable_description_is_ignored_with_one_note(tmp_path, content):
    submit(tmp_path)
    path = tmp_path / "v4.0" / "Cisco" / "systems" / "two_nodes.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = only_result(tmp_path)
    assert (found.submitter, found.devices) == ("Cisco", None)
    (note,) = (note for note in found.score_notes if "not used" in note)
    assert str(path) in note


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
keys = st.sampled_from([*DESCRIPTION, "nodes", "num_nodes", "num_accelerators"])


@examples(200)
@given(st.dictionaries(keys, json_values))
def test_parsing_any_description_never_raises(value):
    found = parse_description(value)
    assert found.devices is None or 0 < found.devices <= 1_000_000
    assert found.division in ("", "closed", "open")
    assert all(text.isprintable() for text in (found.submitter, found.framework, found.accelerator))


def test_the_nodes_of_an_old_description_are_summed(tmp_path):
    nodes = [
        {"num_nodes": 2, "num_accelerators": 8, "accelerator": "A"},
        {"num_nodes": 1, "num_accelerators": 4},
    ]
    path = write(
        tmp_path / "entry.json",
        [json.dumps({"division": "closed", "framework": "MXNet", "nodes": nodes})],
    )
    assert read_description(path) == SystemDescription(
        division="closed", framework="MXNet", accelerator="A", devices=20, nodes=3
    )


def test_the_key_of_an_entry_does_not_depend_on_the_parent_folder(tmp_path):
    first, second = (read_entry(submit(tmp_path / name)) for name in ("a", "b"))
    assert first.key == second.key
    assert first.name == "v4.0/Cisco/two_nodes/resnet"
    assert read_entry(submit(tmp_path / "a", "v4.1/Cisco")).key != first.key


def test_links_and_parent_folders_in_a_path_lead_to_the_entry(tmp_path, monkeypatch):
    folder = submit(tmp_path / "data")
    submit(tmp_path / "data", system="neighbor")
    (tmp_path / "benchmark").symlink_to(folder)
    (tmp_path / "systems_of_cisco").symlink_to(folder.parent.parent)
    (tmp_path / "v4.0").symlink_to(tmp_path / "data" / "v4.0")
    monkeypatch.chdir(folder)
    paths = [
        Path("."),
        Path(".."),
        Path("../../neighbor/../two_nodes/resnet"),
        tmp_path / "benchmark",
        tmp_path / "systems_of_cisco" / "two_nodes",
        tmp_path / "v4.0" / "Cisco" / "results" / "two_nodes",
    ]
    for path in paths:
        found = only_result(path)
        assert (found.round, found.submitter, found.system, found.devices) == (
            "v4.0",
            "Cisco",
            "two_nodes",
            16,
        ), path
    assert [found.submitter for found in results(Path("../../.."))] == ["Cisco", "Cisco"]


def test_an_entry_whose_folders_are_links_keeps_its_names(tmp_path):
    stored = submit(tmp_path / "store", "objects", system="0a1b", description=None)
    entry = tmp_path / "v4.1" / "closed" / "Acme" / "results" / "rack"
    entry.mkdir(parents=True)
    (entry / "resnet").symlink_to(stored)
    found = read_entry(entry / "resnet")
    assert (found.round, found.submitter, found.system, found.benchmark) == (
        "v4.1",
        "Acme",
        "rack",
        "resnet",
    )


def test_a_factor_that_is_a_string_is_quoted_in_the_note(tmp_path):
    folder = submit(tmp_path)
    (folder / "scaling.json").write_text('{"scaling_factor": "1.05"}')
    assert any(
        'expected a number from 0.1 to 10 as scaling_factor, got "1.05"' in note
        for note in only_result(tmp_path).score_notes
    )


@pytest.mark.parametrize("content", [b"", b"no log"])
def test_a_compressed_log_that_is_empty_or_damaged_is_a_failed_run(tmp_path, content):
    folder = submit(tmp_path)
    for index in range(5):
        path = folder / f"result_{index}.txt"
        (folder / f"result_{index}.txt.gz").write_bytes(
            gzip.compress(content if index == 2 else path.read_bytes())
        )
        path.unlink()
    found = only_result(tmp_path)
    assert (found.runs_successful, found.runs_failed) == (4, 1)
    assert "the failed run counts as the slowest" in found.score_notes


@pytest.mark.parametrize("name", ["N/A", "n/a", "None", "-", ""])
def test_a_system_without_accelerators_has_nodes_and_no_hardware(name):
    found = parse_description(
        {
            "number_of_nodes": 4,
            "accelerators_per_node": 0,
            "accelerator_model_name": name,
            "division": "closed",
        }
    )
    assert found == SystemDescription(division="closed", nodes=4)
