"""Generated rules give the same verdicts as the former hand-written rule files."""

import functools
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from suite.catalog.rounds import get_round
from suite.compliance import find_rules as rule_finder
from suite.compliance import generated_rules, rule_files
from suite.compliance.check_log import check_file, run_checker
from suite.compliance.find_rules import find_rules, open_rules
from suite.compliance.rulesets import Ruleset, rules_of
from suite.results.logs.lines import read_file
from suite.results.logs.reader import read
from testing.fake_logs import write
from tests.helpers import PROJECT
from tests.suite.compliance.suite_runs import write_run
from tests.suite.compliance.test_check_log import (
    DATA,
    DEMO,
    PUBLISHED,
    REFERENCE,
    SETUP_FIRST,
    V05_TARGETS,
    log_of_v05,
)
from workloads.ncf.workload import NCF

FORMER = PROJECT / "tests" / "data" / "former_rules"
FORMER_NAMES = [name for name in generated_rules.NAMES if name != generated_rules.LLAMA_OPEN]
"""Names of the generated rules that earlier versions had as files."""
NUM_EDITED = 200
VALUES = (
    None,
    True,
    False,
    0,
    1,
    -1,
    0.64,
    1e9,
    "",
    "text",
    [],
    [0],
    [64],
    {},
    {"status": "success"},
    "0.7",
)
KEYS = (
    "seed",
    "eval_accuracy",
    "epoch_start",
    "run_stop",
    "train_samples",
    "opt_name",
    "suite_run",
    "unknown",
)


@pytest.fixture(scope="module", autouse=True)
def parsed_once():
    """Parse each former file once.

    Parsing the files for every log takes 80 % of the time.
    """
    with mock.patch.object(rule_finder, "rule_entries", functools.cache(rule_finder.rule_entries)):
        yield


def former_entries(name):
    """Return the entries of a former rule file, without the spaces around code."""
    entries = rule_files.parse_rules((FORMER / f"{name}.yaml").read_text())
    return [
        {kind: {part: text.strip() for part, text in rule.items()} for kind, rule in entry.items()}
        for entry in entries
    ]


@pytest.mark.parametrize("name", FORMER_NAMES)
def test_generated_entries_equal_the_former_file(name):
    assert list(generated_rules.rule_entries(name)) == former_entries(name)
    assert rule_files.parse_rules(generated_rules.rule_text(name)) == former_entries(name)


def assert_same_verdict(log, name, werror=False):
    """Compare the verdicts of generated and former rules; return the verdict of generated rules."""
    generated, former = (
        check_file(log, name, werror),
        check_file(log, str(FORMER / f"{name}.yaml"), werror),
    )
    assert generated == replace(former, rules_name=generated.rules_name), (log, name)
    return generated


@pytest.fixture(scope="module")
def suite_logs(tmp_path_factory):
    """Return small logs that pass their rules, by the name of the rules."""
    folder = tmp_path_factory.mktemp("logs")
    v05_logs = []
    for name, targets in V05_TARGETS.items():
        (folder / name).mkdir()
        v05_logs.append(log_of_v05(folder / name, name, targets=targets))
    reference = write_run(folder / "ncf", "ncf")
    return {
        "ncf_reference": [REFERENCE, reference],
        "ncf_demo": [DEMO, SETUP_FIRST],
        "v0.5": v05_logs,
    }


def test_published_logs_have_the_former_verdicts():
    """Compare on the logs of the test data and on the published logs next to the checkout."""
    judged = 0
    for path in [*sorted(DATA.rglob("*.txt")), *sorted(PUBLISHED.parent.rglob("*.txt"))]:
        events = [event for event in read_file(path).events if event.format == "MLLOG"]
        judged += bool(events)
        for name in FORMER_NAMES if events else ():
            former = run_checker(events, Ruleset("0.7.0", FORMER / f"{name}.yaml"), werror=False)
            assert run_checker(events, find_rules(name), werror=False) == former, (path, name)
    assert judged >= 8


def test_logs_of_the_suite_have_the_former_verdicts(suite_logs):
    for logs in suite_logs.values():
        for log in logs:
            log_rules = rules_of(read(log)).generated
            assert log_rules in suite_logs
            for name in FORMER_NAMES:
                for werror in (False, True):
                    verdict = assert_same_verdict(log, name, werror)
                    assert verdict.passed or name != log_rules, verdict.complaints


def edit(lines, choose):
    """Edit one line of a log at random; return the kind of the edit."""
    kind = choose.choice(("removed", "doubled", "value", "metadata", "key", "swapped"))
    number = choose.randrange(len(lines))
    record = json.loads(lines[number].partition(":::MLLOG ")[2])
    if kind == "removed":
        del lines[number]
    elif kind == "doubled":
        lines.insert(number, lines[number])
    elif kind == "swapped":
        second = choose.randrange(len(lines))
        lines[number], lines[second] = lines[second], lines[number]
    else:
        if kind == "key":
            record["key"] = choose.choice(KEYS)
        elif kind == "value":
            record["value"] = choose.choice(VALUES)
        else:
            changes = (
                {"epoch_num": 7},
                {"epoch_num": "0"},
                {"status": "aborted"},
                {"first_epoch_num": 3},
                {"epoch_count": 0},
            )
            record["metadata"] = choose.choice(
                ({}, *({**record["metadata"], **change} for change in changes))
            )
        lines[number] = f":::MLLOG {json.dumps(record)}"
    return kind


def test_edited_logs_have_the_former_verdicts(tmp_path, suite_logs):
    sources = [
        (name, log.read_text().splitlines()) for name, logs in suite_logs.items() for log in logs
    ]
    kinds, passed, complained = Counter(), Counter(), set()
    for seed in range(NUM_EDITED):
        choose = random.Random(seed)
        name, source = sources[seed % len(sources)]
        lines = list(source)
        kinds[edit(lines, choose)] += 1
        verdict = assert_same_verdict(
            write(tmp_path / f"result_{seed}.txt", lines), name, werror=seed % 2 == 0
        )
        passed[name, verdict.passed] += 1
        complained |= {item.key for item in verdict.complaints}
    assert min(kinds.values()) >= 20
    assert len(passed) == 6  # Each file of rules passes some logs and fails some logs.
    assert len(complained) >= 25


def test_a_changed_table_changes_the_rules(monkeypatch):
    """Change the target and the first epoch in the round's table."""
    found = get_round("v0.5", NCF)
    rows = [
        replace(row, allowed=replace(row.allowed, listed={"hr_at_10": 0.7}))
        if row.names == ("targets",)
        else row
        for row in found.rows
    ]
    changed = replace(found, first_epoch=3, rows=tuple(rows), targets={"hr_at_10": 0.7})
    monkeypatch.setattr(generated_rules, "get_round", lambda name, workload: changed)
    generated = generated_rules._ncf_entries(is_reference=True)
    rules = {entry["KEY"]["NAME"]: entry["KEY"] for entry in generated if "KEY" in entry}
    assert "0.7 <= v['value']" in rules["eval_accuracy"]["ATLEAST_ONE_CHECK"]
    assert "HR@10 from 0.7" in rules["eval_accuracy"]["NEEDS"]
    assert (
        rules["suite_run"]["POST"] == "s['epoch'] = 2 if v['value'].get('rules') == 'v0.5' else 0"
    )


def test_rules_are_written_to_a_folder_of_the_user_and_removed():
    rules = find_rules("v0.5")
    with open_rules(rules) as path:
        assert path.parent.stat().st_mode & 0o077 == 0
        assert path.read_text() == generated_rules.rule_text("v0.5")
    assert not path.parent.exists()
    with open_rules(Ruleset("0.7.0")) as path:
        assert path == Path("training_0.7.0/common.yaml")


def test_module_prints_a_rule_file(capsys):
    assert generated_rules.main(["ncf_reference"]) == 0
    assert capsys.readouterr().out == generated_rules.rule_text("ncf_reference")
