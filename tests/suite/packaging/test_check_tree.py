import argparse
import json
import os
import re
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.commands import package as package_command
from suite.commands.check import configure, lines, run
from suite.packaging.checkers import check_package
from suite.packaging.description import FIELDS, check_description
from suite.packaging.layout import is_tree
from suite.packaging.tree import check_names, check_tree
from suite.packaging.write import PackageOptions, package
from tests.suite.packaging.package_logs import DATA, derived, log_set


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A tree that passes everything: SSD on a system `box`."""
    folder = tmp_path_factory.mktemp("good")
    log_set(folder / "logs", "ssd")
    package([folder / "logs"], folder / "tree", PackageOptions(submitter="EXAMPLE_ORG", system="box"))
    return folder / "tree"


@pytest.fixture
def tree(good, tmp_path):
    """A copy to spoil."""
    return shutil.copytree(good, tmp_path / "tree")


def failing(verdicts):
    return {verdict.rules_name.split()[0] for verdict in verdicts if not verdict.passed}


def complaints(verdicts, rules):
    return [item for verdict in verdicts if verdict.rules_name.startswith(rules) for item in verdict.complaints]


def check(*arguments):
    parser = argparse.ArgumentParser()
    configure(parser)
    return run(parser.parse_args([str(argument) for argument in arguments]))


def test_a_good_tree_passes_every_part(tree, capsys):
    verdicts = check_tree(tree, werror=True)
    assert {verdict.rules_name.split()[0] for verdict in verdicts} == {
        *(
            "repo_checker",
            "system_desc_checker",
            "mlperf-logging",
            "result",
            "seed_checker",
            "layout",
            "package_checker",
        )
    }
    assert all(verdict.passed and not verdict.complaints for verdict in verdicts)
    assert check(tree) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "11 of 11 pass (not verified by MLCommons Association)"


def test_a_tree_is_known_by_its_folders(tree, tmp_path):
    assert is_tree(tree)
    shutil.rmtree(tree / "systems")
    assert is_tree(tree)
    shutil.rmtree(tree / "benchmarks")
    assert not is_tree(tree)
    assert not is_tree(DATA)


def test_rules_of_ones_own_are_not_for_trees(tree):
    with pytest.raises(ValueError, match="--rules cannot be used"):
        check(tree, "--rules", "ncf_demo")


@pytest.mark.parametrize("count", [4, 6])
def test_wrong_count_of_logs(tree, count):
    place = tree / "results" / "box" / "ssd"
    if count == 4:
        (place / "result_4.txt").unlink()
    else:
        derived(DATA / "0.7.0" / "ssd.txt", place / "result_5.txt", 9999, 9999)
    verdicts = check_tree(tree)
    assert failing(verdicts) == {"result", "package_checker"}
    (complaint,) = complaints(verdicts, "result set")
    assert (complaint.found, complaint.needed) == (f"{count} logs", "exactly 5: result_0.txt to …")
    (complaint,) = complaints(verdicts, "package_checker")
    assert (complaint.key, complaint.found, complaint.needed) == ("results/box/ssd", f"{count} logs", "exactly 5")


def test_numbers_with_a_gap(tree):
    place = tree / "results" / "box" / "ssd"
    (place / "result_4.txt").rename(place / "result_5.txt")
    (complaint,) = complaints(check_tree(tree), "result set")
    assert (complaint.found, complaint.needed) == ("result_5.txt", "result_0.txt to result_4.txt")


def test_one_run_may_miss_the_target(tree):
    place = tree / "results" / "box" / "ssd"
    derived(place / "result_0.txt", place / "result_0.txt", eval_accuracy=0.2, status="aborted")
    verdicts = check_tree(tree)
    assert failing(verdicts) == set()
    (missed,) = [verdict for verdict in verdicts if verdict.path.name == "result_0.txt"]
    assert missed.text == "1 complaint; accepted: one run of a set may miss the target"
    derived(place / "result_1.txt", place / "result_1.txt", 0, 77, eval_accuracy=0.2, status="aborted")
    verdicts = check_tree(tree)
    assert failing(verdicts) == {"mlperf-logging", "result", "package_checker"}
    assert [item.found for item in complaints(verdicts, "package_checker")] == ["2 logs of a set that do not comply"]


def test_equal_seeds(tree):
    place = tree / "results" / "box" / "ssd"
    derived(place / "result_3.txt", place / "result_3.txt", 1, 101)
    verdicts = check_tree(tree)
    assert failing(verdicts) == {"seed_checker"}
    (complaint,) = complaints(verdicts, "seed_checker")
    assert complaint.found == "seed 101 in result_1.txt and result_3.txt, logged at train.py:18"


def test_no_seed(tree):
    log = tree / "results" / "box" / "ssd" / "result_2.txt"
    log.write_text("\n".join(line for line in log.read_text().splitlines() if '"seed"' not in line))
    (complaint,) = complaints(check_tree(tree), "seed_checker")
    assert complaint.found == "none in result_2.txt"


def test_seeds_are_a_warning_in_division_open(tmp_path):
    log_set(tmp_path / "logs", "ssd", submission_division="open")
    package([tmp_path / "logs"], tmp_path / "tree", PackageOptions(system="box"))
    place = tmp_path / "tree" / "results" / "box" / "ssd"
    derived(place / "result_3.txt", place / "result_3.txt", 1, 101)
    assert failing(check_tree(tmp_path / "tree")) == set()
    assert failing(check_tree(tmp_path / "tree", werror=True)) == {"seed_checker"}


def test_mixed_and_repeated_runs(tree):
    place = tree / "results" / "box" / "ssd"
    (place / "result_4.txt").write_bytes((place / "result_1.txt").read_bytes())
    derived(place / "result_3.txt", place / "result_3.txt", 1, 5, global_batch_size=1000)
    found = [item.found for item in complaints(check_tree(tree), "result set")]
    assert any(text.startswith("batch_size_global: 912 in") for text in found)
    assert any(text.startswith("one run twice: box/ssd/result_1.txt and box/ssd/result_4.txt") for text in found)


def test_logs_of_another_benchmark(tree):
    (tree / "results" / "box" / "ssd").rename(tree / "results" / "box" / "resnet")
    (complaint,) = [item for item in complaints(check_tree(tree), "result set") if item.key == "submission_benchmark"]
    assert (complaint.found, complaint.needed) == ("ssd", "resnet")


def test_demo_logs_make_no_submission(tree):
    place = tree / "results" / "box" / "ncf"
    place.mkdir()
    for index in range(100):
        derived(DATA / "ncf_demo.txt", place / f"result_{index}.txt", index, index)
    verdicts = check_tree(tree)
    assert "result" in failing(verdicts)
    assert any("demo and synthetic runs cannot be submitted" in item.do for item in complaints(verdicts, "result set"))
    texts = {verdict.text for verdict in verdicts if verdict.path.parent == place and verdict.path.suffix}
    assert texts == {"log format valid; demo target has no relation to MLPerf"}


def describe(tree, text):
    (tree / "systems" / "box.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    return check_tree(tree)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "not JSON: Expecting value"),
        ('{\n "submitter": "x",\n}', "not JSON: "),
        ("[1]", "JSON, but no object"),
        ("[" * 100_000, "JSON nested too deeply"),
        (b"\xff\xfe\x00", "codec can't decode"),
        (" " * (2 << 20), "bytes (limit 1048576)"),
    ],
)
def test_a_description_that_is_none(tree, text, found):
    verdicts = describe(tree, text)
    assert failing(verdicts) == {"system_desc_checker", "package_checker"}
    (complaint,) = complaints(verdicts, "system_desc_checker")
    assert found in complaint.found
    assert complaint.do
    assert verdicts[-1].text == "not run: repair the system descriptions first"


def test_a_missing_description(tree):
    (tree / "systems" / "box.json").rename(tree / "systems" / "Box.json")
    verdicts = check_tree(tree)
    (complaint,) = [item for item in complaints(verdicts, "system_desc_checker") if not item.warning]
    assert (complaint.key, complaint.found) == ("systems/box.json", "no such file; there are Box")
    assert "did you mean 'Box'?" in complaint.do
    shutil.rmtree(tree / "systems")
    assert failing(check_tree(tree)) == {"system_desc_checker", "package_checker"}


def test_missing_fields_are_named_each(tree):
    value = json.loads((tree / "systems" / "box.json").read_text())
    del value["cooling"], value["sw_notes"]
    found = complaints(describe(tree, json.dumps(value)), "system_desc_checker")
    assert [(item.key, item.found) for item in found] == [
        ("cooling", "not in the file"),
        ("sw_notes", "not in the file"),
    ]


@pytest.mark.parametrize(
    ("key", "value", "needed"),
    [("number_of_nodes", 1, "a text, numbers too"), ("division", "open", "as the logs say: closed")],
)
def test_wrong_fields(tree, key, value, needed):
    fields = json.loads((tree / "systems" / "box.json").read_text())
    verdicts = describe(tree, json.dumps({**fields, key: value}))
    (complaint,) = complaints(verdicts, "system_desc_checker")
    assert (complaint.key, complaint.needed) == (key, needed)
    assert failing(verdicts) == {"system_desc_checker", "package_checker"}


TEXTS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.lists(st.integers(), max_size=2)
)


@given(
    st.one_of(
        st.binary(max_size=60),
        st.dictionaries(st.sampled_from(FIELDS), TEXTS).map(lambda value: json.dumps(value).encode()),
        st.fixed_dictionaries(dict.fromkeys(FIELDS, TEXTS)).map(lambda value: json.dumps(value).encode()),
    )
)
def test_no_content_of_a_description_fails(good, tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("described")
    (folder / "systems").mkdir()
    (folder / "systems" / "box.json").write_bytes(content)
    verdict = check_description(folder, "box")
    assert verdict.passed == all(item.warning for item in verdict.complaints)
    assert all(item.found and item.needed and item.do for item in verdict.complaints)


def test_names_and_sizes(tree):
    (tree / "a b").mkdir()
    (tree / ".hidden").touch()
    with open(tree / "large.bin", "wb") as stream:
        stream.truncate((50 << 20) + 1)
    found = {item.key: item.found for item in check_names(tree).complaints}
    assert found == {".hidden": "the name .hidden", "a b": "the name a b", "large.bin": "50 MiB"}
    assert check_names(tree.rename(tree.parent / "my tree")).complaints[0].key == "my tree"


@pytest.mark.parametrize("kind", ["link", "folder link", "pipe"])
def test_links_and_pipes_are_never_opened(tree, tmp_path, kind):
    place = tree / "results" / "box" / "ssd" / "result_4.txt"
    place.unlink()
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero" if kind == "link" else "/")
    (verdict,) = check_tree(tree)
    assert not verdict.passed
    (complaint,) = verdict.complaints
    assert complaint.found == "a symbolic link or special file, not opened"


def test_a_file_without_permission_is_named(tree, monkeypatch):
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("result_2.txt") and access(path, mode))
    (verdict,) = check_tree(tree)
    (complaint,) = verdict.complaints
    assert (complaint.key, complaint.found) == ("results/box/ssd/result_2.txt", "no permission to read it")


@pytest.mark.parametrize("key", ["submission_benchmark", "submission_division", "opt_name"])
def test_text_of_a_log_in_a_tree_names_no_rule_file(tmp_path, key):
    """The package checker runs the rule files that logs ask for: it must find none outside its own folder."""
    trap = tmp_path / "trap"
    trap.mkdir()
    for name in ("x_common.yaml", "x.yaml"):
        (trap / name).write_text(f"- BEGIN:\n    CODE: \"open('{tmp_path}/ran', 'w')\"\n")
    log_set(tmp_path / "logs", "resnet")
    package([tmp_path / "logs"], tmp_path / "tree", PackageOptions(system="box"))
    prefix = {"submission_benchmark": "closed_", "opt_name": "closed_resnet_"}.get(key, "")
    value = ("../" * 40 if prefix else "") + "../" * 30 + f"{trap}/x".lstrip("/")
    for log in sorted((tmp_path / "tree" / "results" / "box" / "resnet").iterdir()):
        derived(log, log, seed=int(log.stem[-1]), **{key: f"{prefix}{value}"})
    verdicts = check_tree(tmp_path / "tree")
    assert {"mlperf-logging", "package_checker"} <= failing([*verdicts, check_package(tmp_path / "tree")])
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("value", ['{"a": 1}', '"0.23"', "null", "[" * 5000 + "]" * 5000])
def test_a_checker_that_crashes_is_a_complaint(tree, value):
    place = tree / "results" / "box" / "ssd"
    for log in place.iterdir():
        text = log.read_text()
        log.write_text(text.replace("0.1816", value).replace("0.2333", value))
    verdicts = check_tree(tree)
    assert "package_checker" in failing(verdicts)
    text = "\n".join(line for verdict in verdicts for line in lines(verdict))
    assert "Traceback" not in text
    assert max(len(line) for line in text.splitlines()) < 1200


def test_a_file_that_switches_checks_off_is_named(tree):
    (tree / "results" / "box" / "ssd" / "package_checker_params").write_text("seed-checker-bypass")
    (complaint,) = complaints(check_tree(tree), "result set")
    assert complaint.warning
    assert complaint.found == "a file that switches checks off"


def test_strangers_and_missing_code_are_warnings(tree):
    (tree / "results" / "box" / "ssd" / "notes.md").touch()
    shutil.rmtree(tree / "benchmarks" / "ssd")
    verdicts = check_tree(tree)
    assert failing(verdicts) == set()
    assert [item.found for item in complaints(verdicts, "result set")] == ["notes.md"]
    assert [item.key for item in complaints(verdicts, "layout")] == ["benchmarks/ssd/implementations"]
    assert failing(check_tree(tree, werror=True)) >= {"result", "layout"}


@pytest.mark.parametrize("part", ["results/box/ssd", "results/box", "results"])
def test_empty_folders(tree, part):
    shutil.rmtree(tree / part)
    (tree / part).mkdir()
    verdicts = check_tree(tree)
    assert not all(verdict.passed for verdict in verdicts)
    assert all(item.do for verdict in verdicts for item in verdict.complaints)


def test_an_unknown_benchmark_is_named(tree):
    (tree / "results" / "box" / "ssd").rename(tree / "results" / "box" / "sdd")
    found = complaints(check_tree(tree), "result set")
    assert found[0].found == "a benchmark that the rules do not know"
    assert "did you mean 'ssd'?" in found[0].do


def test_what_is_still_to_be_done_is_not_called_complete(tmp_path):
    log_set(tmp_path / "logs", "ssd")
    options = PackageOptions(system="box")
    said = package_command.lines(package([tmp_path / "logs"], tmp_path / "tree", options))
    (empty,) = (line for line in said if "fields are empty" in line)
    assert re.match(r"warning: \d+ of 33 fields are empty; fill in what the runs do not tell, in ", empty)
    assert any(line.startswith("warning: ssd: the code that ran is not known") for line in said)
    verdicts = {verdict.rules_name: verdict for verdict in check_tree(tmp_path / "tree")}
    description, layout = verdicts["system_desc_checker 1.0.0"], verdicts["layout"]
    count = re.search(r"(\d+) of 33", empty)[1]
    assert description.text == f"all 33 fields are there, {count} of them empty"
    assert "cooling" in description.remarks[0]
    assert layout.text == "results and systems are there, code is missing"
    assert "nothing but a README" in layout.remarks[0]
    implementation = next((tmp_path / "tree" / "benchmarks" / "ssd" / "implementations").iterdir())
    (implementation / "train.py").write_text("")
    layout = next(verdict for verdict in check_tree(tmp_path / "tree") if verdict.rules_name == "layout")
    assert (layout.text, layout.remarks) == ("results, systems and code are there", ())
