"""Checks of trees that were damaged after packaging: each damage is reported, no check raises."""

import json
import os
import re
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlperf_logging.system_desc_checker.system_desc_checker import check_system_desc

from suite.commands import check
from suite.commands import package as package_command
from suite.commands.check import lines
from suite.packaging.checkers import check_package
from suite.packaging.choose_runs import choose_runs
from suite.packaging.description import FIELDS, check_description
from suite.packaging.layout import is_tree
from suite.packaging.tree import check_names, check_tree
from suite.packaging.write import PackageOptions, package
from suite.results.logs.collect import collect
from tests.helpers import examples, json_values, subcommand
from tests.suite.packaging.package_logs import DATA, derived, log_set, missed_run, our_run

SSD = "results/box/ssd"


@pytest.fixture(scope="module")
def packaged(tmp_path_factory):
    """Return a package of foreign SSD logs, with the system name `box`, that passes every check."""
    folder = tmp_path_factory.mktemp("good")
    log_set(folder / "logs", "ssd")
    return package(
        [folder / "logs"], folder / "tree", PackageOptions(submitter="EXAMPLE_ORG", system="box")
    )


@pytest.fixture
def tree(packaged, tmp_path):
    return shutil.copytree(packaged.folder, tmp_path / "tree")


def failing(verdicts):
    return {verdict.rules_name.split()[0] for verdict in verdicts if not verdict.passed}


def complaints(verdicts, rules):
    return [
        item
        for verdict in verdicts
        if verdict.rules_name.startswith(rules)
        for item in verdict.complaints
    ]


def log(tree, index):
    return tree / SSD / f"result_{index}.txt"


def rewritten(tree, index, *arguments, **values):
    derived(log(tree, index), log(tree, index), *arguments, **values)


def described(tree, text):
    (tree / "systems" / "box.json").write_bytes(text if isinstance(text, bytes) else text.encode())


def with_fields(tree, leave_out=(), **values):
    fields = {**json.loads((tree / "systems" / "box.json").read_text()), **values}
    described(
        tree, json.dumps({name: text for name, text in fields.items() if name not in leave_out})
    )


def as_benchmark(tree, name):
    (tree / SSD).rename(tree / "results" / "box" / name)


def test_a_good_tree_passes_every_part(tree, capsys):
    verdicts = check_tree(tree, werror=True)
    tools = {
        "repo_checker",
        "system_desc_checker",
        "mlperf-logging",
        "seed_checker",
        "package_checker",
    }
    assert {verdict.rules_name.split()[0] for verdict in verdicts} == {*tools, "result", "layout"}
    assert all(verdict.passed and not verdict.complaints for verdict in verdicts)
    assert subcommand(check, tree) == 0
    assert (
        capsys.readouterr().out.splitlines()[-1]
        == "11 of 11 pass (not verified by MLCommons Association)"
    )
    with pytest.raises(ValueError, match="--rules cannot be used"):
        subcommand(check, tree, "--rules", "ncf_demo")


def test_a_tree_is_recognized_by_its_folders(tree):
    assert is_tree(tree)
    shutil.rmtree(tree / "systems")
    assert is_tree(tree)
    shutil.rmtree(tree / "benchmarks")
    assert not is_tree(tree)
    assert not is_tree(DATA)


DESCRIPTION = {"system_desc_checker", "package_checker"}
DAMAGES = {
    "a log too few": (lambda tree: log(tree, 4).unlink(), {"result", "package_checker"},
     "result set", "4 logs", "5: result_0"),
    "a log too many": (lambda tree: derived(DATA / "0.7.0" / "ssd.txt", log(tree, 5), 9999, 9999),
     {"result", "package_checker"}, "result set", "6 logs", "exactly 5"),
    "a gap": (lambda tree: log(tree, 4).rename(log(tree, 5)), {"result"}, "result set",
     "result_5.txt", "result_0.txt to result_4.txt"),
    "equal seeds": (lambda tree: rewritten(tree, 3, 1, 101), {"seed_checker"}, "seed_checker",
     "seed 101 in result_1.txt and result_3.txt, logged at train.py:18", "a different seed"),
    "no seed": (lambda tree: without_lines(log(tree, 2), "seed"),
     {"seed_checker"}, "seed_checker", "none in result_2.txt", "a seed"),
    "a seed that is no number": (lambda tree: rewritten(tree, 3, 1, "x"), {"seed_checker"},
     "seed_checker", "unreadable in result_3.txt (ValueError)", "an integer"),
    "another setting": (lambda tree: rewritten(tree, 3, 1, 5, global_batch_size=1000), {"result"},
     "result set", "global_batch_size: 912 in", "the same value"),
    "a run twice": (lambda tree: log(tree, 4).write_bytes(log(tree, 1).read_bytes()),
     {"result", "seed_checker"},
     "result set",
     "the same run twice: box/ssd/result_1.txt and box/ssd/result_4.txt", "different"),
    "another benchmark's folder": (lambda tree: as_benchmark(tree, "resnet"), {"result"},
     "result set", "ssd", "resnet"),
    "the folder of an unknown benchmark": (lambda tree: as_benchmark(tree, "sdd"), {"result"},
     "result set", "a benchmark that the rules do not define", "ssd"),
    "no description": (lambda tree: (tree / "systems/box.json").rename(tree / "systems/Box.json"),
     DESCRIPTION, "system_desc_checker",
     "no such file (existing files: Box", "named like results/box"),
    "no descriptions": (lambda tree: shutil.rmtree(tree / "systems"), DESCRIPTION,
     "system_desc_checker", "no such file", "results/box"),
    "a field too few": (lambda tree: with_fields(tree, ["cooling"]), DESCRIPTION,
     "system_desc_checker", "not in the file", "33 fields"),
    "a number as such": (lambda tree: with_fields(tree, number_of_nodes=1), DESCRIPTION,
     "system_desc_checker", "1", "a string, even for a number"),
    "another division": (lambda tree: with_fields(tree, division="open"), DESCRIPTION,
     "system_desc_checker", "open", "closed"),
    "checks off": (
     lambda tree: (tree / SSD / "package_checker_params").write_text("seed-checker-bypass"), set(),
     "result set", "a file that switches checks off", "every check"),
    "a stranger": (lambda tree: (tree / SSD / "notes.md").touch(), set(), "result set", "notes.md",
     "result_N.txt"),
    "no code": (lambda tree: shutil.rmtree(tree / "benchmarks/ssd"), set(), "layout", "no files",
     "the code of every"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_of_a_tree_is_reported_with_a_remedy(tree, damage):
    apply_damage, fails, rules, found, needed = DAMAGES[damage]
    apply_damage(tree)
    verdicts = check_tree(tree)
    assert failing(verdicts) == fails
    listed = complaints(verdicts, rules)
    (complaint,) = [
        item for item in listed if item.found.startswith(found) and needed in item.needed
    ]
    assert complaint.do
    assert complaint.warning == (not fails)
    if not fails:
        assert not all(verdict.passed for verdict in check_tree(tree, werror=True))
    if "Box" in found or "do not define" in found:
        assert f"did you mean {'Box' if 'Box' in found else 'ssd'!r}?" in complaint.do


def test_one_run_may_miss_the_target(tree):
    rewritten(tree, 0, eval_accuracy=0.2, status="aborted")
    verdicts = check_tree(tree)
    assert failing(verdicts) == set()
    (missed,) = [verdict for verdict in verdicts if verdict.path.name == "result_0.txt"]
    assert "accepted" in missed.text
    rewritten(tree, 1, 0, 77, eval_accuracy=0.2, status="aborted")
    verdicts = check_tree(tree)
    assert failing(verdicts) == {"mlperf-logging", "result", "package_checker"}
    assert [item.found for item in complaints(verdicts, "result set")] == [
        "2 logs that do not pass"
    ]


def test_seeds_are_a_warning_in_division_open(tree):
    for index in range(5):
        rewritten(tree, index, seed=101 if index == 3 else 100 + index, submission_division="open")
    with_fields(tree, division="open")
    assert failing(check_tree(tree)) == set()
    assert failing(check_tree(tree, werror=True)) == {"seed_checker"}


def test_demo_logs_cannot_be_submitted(tree):
    for index in range(3):
        derived(
            DATA / "ncf_demo.txt", tree / "results/box/ncf" / f"result_{index}.txt", index, index
        )
    verdicts = check_tree(tree)
    assert "result" in failing(verdicts)
    assert any(
        "demo and synthetic runs cannot be submitted" in item.do
        for item in complaints(verdicts, "result set")
    )
    demos = [verdict for verdict in verdicts if verdict.rules_name == "suite rules ncf_demo"]
    assert len(demos) == 3
    assert all(verdict.passed for verdict in demos)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "not JSON: Expecting value"),
        ('{\n "submitter": "x",\n}', "not JSON: "),
        ("[1]", "JSON, but not an object"),
        ("[" * 100_000, "JSON nested too deeply"),
        (b"\xff\xfe\x00", "codec can't decode"),
        (" " * (2 << 20), "more than 1,048,576 bytes"),
    ],
)
def test_an_invalid_description_is_reported(tree, text, found):
    described(tree, text)
    verdicts = check_tree(tree)
    assert failing(verdicts) == DESCRIPTION
    (complaint,) = complaints(verdicts, "system_desc_checker")
    assert found in complaint.found
    assert complaint.do
    assert verdicts[-1].text.startswith("not run")


TEXTS = json_values(3)


@examples(50)
@given(
    st.one_of(
        st.binary(max_size=60),
        st.dictionaries(st.sampled_from(FIELDS), TEXTS).map(
            lambda value: json.dumps(value).encode()
        ),
        *(
            st.fixed_dictionaries(dict.fromkeys(FIELDS, values)).map(
                lambda value: json.dumps(value).encode()
            )
            for values in (TEXTS, st.text(max_size=10))
        ),
    )
)
def test_no_content_of_a_description_makes_the_check_raise(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("described")
    (folder / "systems").mkdir()
    described(folder, content)
    verdict = check_description(folder, "box")
    assert verdict.passed == all(item.warning for item in verdict.complaints)
    assert all(item.found and item.needed and item.do for item in verdict.complaints)
    if verdict.passed:
        assert check_system_desc(str(folder / "systems" / "box.json"), "training", "1.0.0")[0]


def test_invalid_names_and_large_files_are_reported(tree):
    (tree / "a b").mkdir()
    (tree / ".hidden").touch()
    with open(tree / "large.bin", "wb") as stream:
        stream.truncate((50 << 20) + 1)
    found = {item.key: item.found for item in check_names(tree).complaints}
    assert found == {".hidden": "the name .hidden", "a b": "the name a b", "large.bin": "50 MiB"}
    assert check_names(tree.rename(tree.parent / "my tree")).complaints[0].key == "my tree"


@pytest.mark.parametrize(
    "replace",
    [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("/")],
    ids=["pipe", "link", "folder link"],
)  # fmt: skip
def test_links_and_pipes_are_never_opened(tree, replace):
    log(tree, 4).unlink()
    replace(log(tree, 4))
    (verdict,) = check_tree(tree)
    assert not verdict.passed
    (complaint,) = verdict.complaints
    assert (complaint.key, complaint.found) == (
        f"{SSD}/result_4.txt",
        "a symbolic link or special file, not opened",
    )


def test_a_file_without_permission_is_named(tree, monkeypatch):
    access = os.access
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode: not str(path).endswith("result_2.txt") and access(path, mode),
    )
    (verdict,) = check_tree(tree)
    (complaint,) = verdict.complaints
    assert (complaint.key, complaint.found) == (f"{SSD}/result_2.txt", "no permission to read it")


@pytest.mark.parametrize("key", ["submission_benchmark", "submission_division", "opt_name"])
def test_values_in_a_log_cannot_select_a_rule_file_outside_the_checker(tree, tmp_path, key):
    """Run rule files of the checker's folder only, although log values are part of their names."""
    trap = tmp_path / "trap"
    trap.mkdir()
    for name in ("x_common.yaml", "x.yaml"):
        (trap / name).write_text(f"- BEGIN:\n    CODE: \"open('{tmp_path}/ran', 'w')\"\n")
    prefix = {"submission_benchmark": "closed_", "opt_name": "closed_resnet_"}.get(key, "")
    value = ("../" * 40 if prefix else "") + "../" * 30 + f"{trap}/x".lstrip("/")
    as_benchmark(tree, "resnet")
    log_set(tree / "results/box/resnet", "resnet", **{key: f"{prefix}{value}"})
    assert {"mlperf-logging", "package_checker"} <= failing(
        [*check_tree(tree), check_package(tree)]
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("value", ['{"a": 1}', '"0.23"', "null", "[" * 5000 + "]" * 5000])
def test_a_checker_that_crashes_is_a_complaint(tree, value):
    for index in range(2):
        text = log(tree, index).read_text()
        log(tree, index).write_text(text.replace("0.1816", value).replace("0.2333", value))
    verdicts = check_tree(tree)
    assert "package_checker" in failing(verdicts)
    text = "\n".join(line for verdict in verdicts for line in lines(verdict))
    assert "Traceback" not in text
    assert max(len(line) for line in text.splitlines()) < 1200


@pytest.mark.parametrize("part", [SSD, "results/box", "results"])
def test_empty_folders_are_reported(tree, part):
    shutil.rmtree(tree / part)
    (tree / part).mkdir()
    verdicts = check_tree(tree)
    assert not all(verdict.passed for verdict in verdicts)
    assert all(item.do for verdict in verdicts for item in verdict.complaints)


def test_missing_fields_and_code_are_listed_as_incomplete(tree, packaged):
    messages = package_command.lines(packaged)
    (empty,) = (line for line in messages if "fields are empty" in line)
    assert any(
        line.startswith("warning: ssd: the code of the runs is unknown") for line in messages
    )
    verdicts = {verdict.rules_name: verdict for verdict in check_tree(tree)}
    description, layout = verdicts["system_desc_checker 1.0.0"], verdicts["layout"]
    count = re.search(r"(\d+) of 33", empty)[1]
    assert description.text == f"all 33 fields are present, {count} of them empty"
    assert "cooling" in description.remarks[0]
    assert layout.text == "results and systems are present, code is missing"
    assert "only a README" in layout.remarks[0]
    (implementation,) = (tree / "benchmarks/ssd/implementations").iterdir()
    (implementation / "train.py").write_text("")
    layout = next(verdict for verdict in check_tree(tree) if verdict.rules_name == "layout")
    assert (layout.text, layout.remarks) == ("results, systems, and code are present", ())


@pytest.fixture(scope="module")
def packaged_runs(tmp_path_factory):
    """Return a package of closed runs of this suite: ResNet-50 and NCF."""
    folder = tmp_path_factory.mktemp("runs")
    for name, count in (("resnet50", 5), ("ncf", 100)):
        for index in range(count):
            our_run(folder / "logs" / name, index, name)
    return package([folder / "logs"], folder / "tree", PackageOptions())


@pytest.fixture
def tree_of_runs(packaged_runs, tmp_path):
    return shutil.copytree(packaged_runs.folder, tmp_path / "tree")


def logs_of(tree, benchmark):
    return sorted(
        tree.glob(f"results/*/{benchmark}/result_*.txt"),
        key=lambda path: (len(path.name), path.name),
    )


def without_lines(path, key):
    kept = [line for line in path.read_text().splitlines() if f'"key": "{key}"' not in line]
    path.write_text("\n".join(kept) + "\n")


def with_hyperparameter(path, **values):
    """Change hyperparameters in the log's `suite_run` line."""
    (line,) = (line for line in path.read_text().splitlines() if '"key": "suite_run"' in line)
    settings = json.loads(line.removeprefix(":::MLLOG "))["value"]
    derived(
        path,
        path,
        seed=7,
        suite_run={**settings, "hyperparameters": {**settings["hyperparameters"], **values}},
    )


VIOLATIONS = {
    "caches not cleared": lambda log: derived(log, log, seed=7, cache_clear=False),
    "label smoothing": lambda log: with_hyperparameter(log, label_smoothing=0.3),
    "no run_stop": lambda log: without_lines(log, "run_stop"),
    "success without the target": lambda log: derived(log, log, seed=7, eval_accuracy=0.2),
    "accuracy as text": lambda log: derived(
        log, log, seed=7, eval_accuracy="0.2", status="aborted"
    ),
    "no evaluation": lambda log: (
        derived(log, log, seed=7, status="aborted"),
        without_lines(log, "eval_accuracy"),
    ),
    "an unreadable line": lambda log: log.write_text(log.read_text() + ":::MLLOG {broken\n"),
    "stopped before its last epoch": lambda log: derived(
        log, log, seed=7, eval_accuracy=0.2, status="aborted"
    ),
    "missed, and caches not cleared": lambda log: derived(
        log, log, seed=7, cache_clear=False, eval_accuracy=0.2, status="aborted"
    ),
    "of a round without rules": lambda log: log.write_text(
        log.read_text().replace(":::MLLOG", ":::MLPv0.5.0")
    ),
}
"""Violations of the rules that must not be accepted as a run that missed the target."""


@pytest.mark.parametrize("trick", VIOLATIONS)
def test_a_violation_of_another_rule_is_not_a_missed_target(tree_of_runs, trick):
    log = logs_of(tree_of_runs, "resnet")[2]
    VIOLATIONS[trick](log)
    verdicts = check_tree(tree_of_runs)
    (verdict,) = (verdict for verdict in verdicts if verdict.path == log)
    assert not verdict.passed
    assert not verdict.missed_target
    assert "1 log that does not pass" in [item.found for item in complaints(verdicts, "result set")]
    with pytest.raises(ValueError, match="result_2"):
        choose_runs(collect([log.parent]))


@pytest.mark.parametrize(
    "seeds",
    [(7, 7), (7, 7.0), ("7", 7)],
)
def test_equal_seeds_are_found_if_they_were_logged_at_different_code_lines(tree_of_runs, seeds):
    """Compare seeds independently of the logged line of code.

    The checker of mlperf-logging only compares seeds of the same line of code, which a log states
    itself.
    """
    for number, (log, seed) in enumerate(
        zip(logs_of(tree_of_runs, "resnet")[1:3], seeds, strict=True)
    ):
        lines = [
            json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()
        ]
        for line in lines:
            if line["key"] == "seed":
                line["value"], line["metadata"]["lineno"] = seed, 1000 + number
        log.write_text("".join(f":::MLLOG {json.dumps(line)}\n" for line in lines))
    failed = {verdict.rules_name for verdict in check_tree(tree_of_runs) if not verdict.passed}
    assert "seed_checker 1.0.0" in failed


@pytest.mark.parametrize("count", [1, 50])
def test_a_forbidden_epsilon_fails_every_ncf_log_with_it(tree_of_runs, count):
    for log in logs_of(tree_of_runs, "ncf")[:count]:
        derived(log, log, seed=1000 + int(log.stem.partition("_")[2]), opt_adam_epsilon=1e-3)
    verdicts = check_tree(tree_of_runs)
    assert (
        sum(not verdict.passed and verdict.path.suffix == ".txt" for verdict in verdicts) == count
    )
    assert "result" in failing(verdicts)


def test_half_of_the_runs_of_ncf_may_miss_the_target_and_no_other_rule(tree_of_runs, tmp_path):
    logs = logs_of(tree_of_runs, "ncf")
    for index, log in enumerate(logs[:50]):
        log.write_bytes(missed_run(tmp_path / "missed", index).read_bytes())
    assert failing(check_tree(tree_of_runs)) == set()
    derived(logs[0], logs[0], seed=100, cache_clear=False)
    verdicts = check_tree(tree_of_runs)
    assert [verdict.path for verdict in verdicts if not verdict.passed and verdict.path.suffix] == [
        logs[0]
    ]
    assert "1 log that does not pass" in [item.found for item in complaints(verdicts, "result set")]
