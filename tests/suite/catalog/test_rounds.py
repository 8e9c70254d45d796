"""User-defined rounds as files: their use, their errors, and when they are read."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from suite.catalog import rounds, sets
from suite.catalog.division import find_deviations
from suite.catalog.rounds import get_round
from suite.common import registry
from suite.compliance.check_log import check_file
from suite.config.compose import compose
from suite.plan.settings import resolve_settings
from testing.fake_logs import demo_log, write
from workloads.resnet50.workload import ResNet50

USER_ROUND = """setup_is_timed: true
first_epoch: 0
bleu_scale: 0.01
ruleset: 4.0.0
phrases: {each_once: "Training Data Order"}
rows: [every]
workloads:
  resnet50:
    sets: {reference: closed_v0.7, synthetic: reference_1gpu}
    rows:
      - resnet50
      - {targets: {at_targets: {top1: 0.761}}, source: closed_resnet.yaml}
      - {learning_rate: {multiple: 0.001}, when: {optimizer: sgd},
         source: "{round}, closed_resnet_sgd.yaml"}
"""


@pytest.fixture
def user_round(tmp_path, monkeypatch):
    """Return a function that writes `rounds/v4.yaml` into a searched user folder."""
    monkeypatch.setattr(sets, "_user_folders", [])

    def write_round(text, name="v4"):
        (tmp_path / "rounds").mkdir()
        (tmp_path / "rounds" / f"{name}.yaml").write_text(text)
        sets.search([tmp_path])
        return ["--config-dir", str(tmp_path)]

    return write_round


def planned(flags, workload, *overrides):
    (job,) = compose([*flags, f"workload={workload}", "rules=v4", "device=cpu", *overrides]).jobs
    return resolve_settings(
        job.config, registry.load_workload(workload), registry.load_framework("pytorch")
    )


def test_a_user_defined_round_is_one_file(user_round):
    settings = planned(user_round(USER_ROUND), "resnet50", "profile=synthetic")
    assert (settings.rules, settings.targets) == ("v4", {"top1": 0.761})
    found = get_round("v4", ResNet50)
    assert (found.clock, found.first_epoch, found.ruleset, found.dataset) == (
        "v0.5",
        0,
        "4.0.0",
        "imagenet",
    )
    assert settings.round == json.loads(json.dumps(found.figures))
    (rate,) = [row for row in found.rows if row.names == ("learning_rate",)]
    assert (str(rate.allowed), rate.source) == ("0.001 · k", "v4, closed_resnet_sgd.yaml")


def test_runs_of_a_user_defined_round_are_open(user_round):
    settings = planned(user_round(USER_ROUND), "resnet50", "profile=synthetic")
    reasons = [deviation.text for deviation in find_deviations(ResNet50, settings)]
    assert reasons[0] == "round v4, a file of the user's"
    assert {"momentum 0.9, which no rule allows", "profile synthetic, not reference"} <= set(
        reasons
    )
    assert not any(phrase.startswith(("learning_rate", "hyperparameter set")) for phrase in reasons)
    assert (
        find_deviations(ResNet50, replace(settings, rules="v0.7"))[0].text
        == "profile synthetic, not reference"
    )


def test_a_workload_missing_in_a_user_defined_round_is_refused_if_shipped_rounds_have_it(
    user_round,
):
    flags = user_round(USER_ROUND)
    needed = r"Set rules=v0\.5 or rules=v0\.7, and workload\.target=X for a different target$"
    with pytest.raises(ValueError, match=rf"^rules=v4: ssd has no such round.*\. {needed}"):
        planned(flags, "ssd", "profile=demo")
    settings = planned(flags, "zoo", "profile=demo")
    assert (settings.round["first_epoch"], settings.targets) == (0, {"top1": 0.75})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("first_epoch: 0\n", "", "first_epoch: missing"),
        ("first_epoch: 0", "first_epoch: x", "first_epoch: x has the wrong type"),
        ("ruleset", "ruelset", r"ruelset: unknown key. .*\(did you mean 'ruleset'\?\)"),
        ("    sets: {reference", "    sets: {referense", "resnet50: sets: referense: unknown key"),
        ("    rows:", "    row:", "resnet50: row: unknown key"),
        (
            "      - resnet50\n",
            "      - resnet\n",
            r"resnet50: row 1: resnet: unknown list. .*mean 'resnet50'\?",
        ),
        (
            "multiple: 0.001",
            "multiple: many",
            "resnet50: row 3: multiple: expected a number, got multiple many",
        ),
        (
            "multiple: 0.001",
            "multipel: 0.001",
            "resnet50: row 3: multipel: unknown kind, allowed: any",
        ),
        (
            "- {learning_rate",
            "- {learnig_rate",
            r"resnet50: row 3: learnig_rate: resnet50 has no such setting \(did",
        ),
        (
            "optimizer: sgd",
            "optimiser: sgd",
            "resnet50: row 3: optimiser: resnet50 has no such setting",
        ),
        (
            ", source: closed_resnet.yaml",
            "",
            "resnet50: row 2: expected {SETTING: ALLOWED, source: TEXT}",
        ),
        (
            "{round}, closed",
            "{nvidia}, closed",
            "resnet50: row 3: source: {'nvidia'}: unknown phrase, allowed: peak",
        ),
        (
            "    rows:",
            "    listed_optimizers: {sgd: x}\n    rows:",
            "resnet50: listed_optimizers: sgd: x has the wrong",
        ),
        (
            "when: {optimizer: sgd}",
            "when: [sgd]",
            "resnet50: row 3: expected {SETTING: ALLOWED, source: TEXT}",
        ),
        ("{each_once: ", "{each: ", "row 1: every: row 9: source: {'each_once'}: unknown phrase"),
        ("rows: [every]", "rows: [", "line"),
    ],
)
def test_an_error_in_a_round_is_one_line_with_the_file_and_the_row(
    user_round, tmp_path, old, new, message
):
    assert old in USER_ROUND
    user_round(USER_ROUND.replace(old, new))
    with pytest.raises(ValueError, match=rf"^{tmp_path}/rounds/v4\.yaml: {message}") as refusal:
        get_round("v4", ResNet50)
    assert "\n" not in str(refusal.value)
    assert get_round("v0.7", ResNet50).first_epoch == 1  # shipped rounds still load


def test_a_file_does_not_replace_a_shipped_round(user_round):
    user_round(USER_ROUND, "v0.7")
    with pytest.raises(
        ValueError, match=r"rounds/v0\.7\.yaml: the round v0\.7 exists already .*\. Rename the file"
    ):
        rounds.files()


@pytest.mark.parametrize(
    ("ruleset", "verdict"),
    [
        ("4.0.0", "mlperf-logging training_4.0.0"),
        (
            "4.1.0",
            "a round that is not installed: mlperf-logging has no ruleset 4.1.0 with resnet",
        ),
        (
            "../0.7.0",
            "a round that is not installed: mlperf-logging has no ruleset ../0.7.0 with resnet",
        ),
    ],
)
def test_a_log_of_a_user_defined_round_is_checked_with_the_logged_ruleset(
    tmp_path, ruleset, verdict
):
    lines = demo_log([0.9], rules="v4", first_epoch=1, ruleset=ruleset)
    log = write(tmp_path / "result_0.txt", [line.replace('"ncf"', '"resnet"') for line in lines])
    found = check_file(log)
    assert verdict in f"{found.text} {found.rules_name}"
    assert found.judged == (ruleset == "4.0.0")


def test_help_reads_no_round_and_plans_read_each_round_once():
    code = (
        "import sys; from suite.catalog import rounds, sets; read = []\nkept ="
        " rounds.content_of\nrounds.content_of = lambda path: (read.append(path.stem),"
        " kept(path))[1]\nfrom suite.config.compose import compose\ncompose(['--help']); assert"
        " read == [], read\nfrom suite.common import registry\nfor name in ('ncf', 'ncf', 'ssd'):"
        " rounds.get_round('v0.5', registry.load_workload(name))\nassert read == ['v0.5', 'rows'],"
        " read\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
