"""`suite check` of a log: the selected rules, the complaints, and hostile content."""

import contextlib
import json
import re
from pathlib import Path

import pytest

from suite.commands import check
from suite.compliance import generated_rules
from suite.compliance.check_log import check_file
from suite.compliance.complaints import MISSING, condition_text
from suite.compliance.find_rules import find_rules
from suite.compliance.rulesets import installed
from testing.fake_logs import demo_log, write
from testing.fake_logs import line as record_line
from tests.helpers import logging_as_at_a_start, one_line, subcommand
from tests.workloads import rules_page
from tests.workloads.closed_logs import changed, write_log

DATA = Path(__file__).resolve().parents[2] / "data" / "logs"
PUBLISHED = Path(__file__).resolve().parents[4] / "shared" / "published" / "logs" / "v0.7"
REFERENCE = DATA / "custom_ncf" / "ncf_mllog.txt"
DEMO = DATA / "ncf_demo.txt"
SETUP_FIRST = DATA / "ncf_demo_clock_v0.7.txt"
V07_LOGS = {
    name: DATA / "0.7.0" / f"{name}.txt"
    for name in ("resnet", "ssd", "maskrcnn", "gnmt", "transformer")
}
SSD = V07_LOGS["ssd"]
STOCK = "mlperf-logging training_"
OURS = "suite rules "


def stock(path, werror=False, rules=None):
    """Return whether the stock compliance checker passes a log; a crash is not a pass."""
    from mlperf_logging.compliance_checker import mlp_compliance

    mlp_compliance.enqueued_configs.clear()  # left by a check that stopped early
    with logging_as_at_a_start(), contextlib.suppress(Exception):
        checker = mlp_compliance.make_checker("training", "0.7.0", False, werror)
        return mlp_compliance.main(str(path), str(rules or "training_0.7.0/common.yaml"), checker)[
            0
        ]
    return False


def rule_file(folder, name):
    """Write the generated rules to a file for the stock checker."""
    return write(folder / f"{name}.yaml", generated_rules.rule_text(name).encode())


def edited(folder, source, key, edit):
    """Write a copy of a log in which `edit(record)` replaces each record of a key.

    `edit` returns a record, the text of lines, or None to remove the line.
    """
    lines, found = [], 0
    for line in source.read_text().splitlines():
        record = json.loads(line.partition(":::MLLOG ")[2])
        if record["key"] == key:
            found += 1
            record = edit(record)
        if record is not None:
            lines.append(record if isinstance(record, str) else f":::MLLOG {json.dumps(record)}")
    assert found, key
    return write(folder / "result_0.txt", lines)


def as_line(record):
    return f":::MLLOG {json.dumps(record)}"


def value(of_key):
    return lambda record: {**record, "value": of_key}


def metadata(**of_key):
    return lambda record: {**record, "metadata": {**record["metadata"], **of_key}}


def with_init_window(record):
    return "\n".join(
        as_line({**record, "key": key}) for key in ("init_start", "init_stop", "run_start")
    )


def removed(record):
    return None


def run(*arguments):
    return subcommand(check, *arguments)


@pytest.mark.parametrize(
    ("log", "rules"),
    [
        *((path, f"{STOCK}0.7.0") for path in V07_LOGS.values()),
        *((DATA / "0.6.0" / path.name, f"{STOCK}0.6.0") for path in V07_LOGS.values()),
        *(
            (log, f"{OURS}ncf_{kind}")
            for log, kind in ((REFERENCE, "reference"), (DEMO, "demo"), (SETUP_FIRST, "demo"))
        ),
    ],
    ids=lambda part: "/".join(part.parts[-2:]) if isinstance(part, Path) else "",
)
def test_valid_logs_pass_the_rules_of_their_round(tmp_path, log, rules):
    verdict = check_file(log, werror="0.6.0" not in rules)  # Logs of v0.6 repeat keys.
    assert verdict.passed, verdict.complaints
    assert (verdict.rules_name, verdict.complaints) == (rules, ())
    if rules.startswith(OURS):
        assert stock(log, werror=True, rules=rule_file(tmp_path, rules.removeprefix(OURS)))
        assert ("demo target has no relation to MLPerf" in verdict.text) == ("demo" in rules)


V05_TARGETS = {
    "resnet50": {"top1": 0.749}, "ssd": {"map": 0.212}, "maskrcnn": {"BBOX": 0.377, "SEGM": 0.339},
    "gnmt": {"bleu": 21.8}, "transformer": {"bleu": 25.0},
}  # fmt: skip


def log_of_v05(folder, name, **changes):
    """Write a log of this suite under rules=v0.5 whose only evaluation just reaches the targets."""
    kind = next(kind for kind in rules_page.WORKLOADS if kind.name == name)
    settings = rules_page.default_settings(kind, "v0.5", "pytorch")
    (folder / "result_0.txt").unlink(missing_ok=True)
    write_log(
        folder / "result_0.txt", kind(changed(settings, **changes), rules_page.PUBLISHED[kind])
    )
    return edited(folder, folder / "result_0.txt", "submission_division", value("open"))


@pytest.mark.parametrize("name", V05_TARGETS)
def test_logs_of_v05_are_checked_with_the_clock_epochs_and_targets_of_v05(tmp_path, name):
    """Check logs of v0.5 with generated rules, because the stock checker does not support v0.5.

    The stock rules require an init window, epochs from 1 and the targets of later rounds.
    """
    verdict = check_file(log_of_v05(tmp_path, name, targets=V05_TARGETS[name]))
    assert verdict.passed, verdict.complaints
    assert verdict.rules_name == f"{OURS}v0.5"
    lower = {metric: target - 0.001 for metric, target in V05_TARGETS[name].items()}
    assert [
        item.key for item in check_file(log_of_v05(tmp_path, name, targets=lower)).complaints
    ] == ["eval_accuracy"]
    log = edited(
        tmp_path,
        log_of_v05(tmp_path, name, targets=V05_TARGETS[name]),
        "run_start",
        with_init_window,
    )
    assert {item.key for item in check_file(log).complaints} == {"init_start"}
    with pytest.raises(ValueError, match="Leave --rules out"):
        check_file(log, rules="0.7.0")


def test_demo_log_fails_the_reference_rules_by_its_counts():
    verdict = check_file(DEMO, rules="ncf_reference")
    assert not verdict.passed
    found = {complaint.key: (complaint.found, complaint.needed) for complaint in verdict.complaints}
    assert (found["train_samples"], found["eval_hp_num_users"]) == (
        ("82152", "19861770"),
        ("2000", "138493"),
    )
    assert found["model_hp_mlp_layer_sizes"] == ("[64, 64, 32, 16]", "[256, 256, 128, 64]")
    assert found["cache_clear"] == ("false", "true, before run_start")
    assert all(complaint.do for complaint in verdict.complaints)


KEYS_OF_A_DEMO = (
    "cache_clear",
    "eval_accuracy",
    "seed",
    "train_samples",
    "run_start",
    "epoch_start",
)
WRONG = [
    (DEMO, "eval_accuracy", value(0.6349), "best 0.6349 (epoch 0) of 3", "0.635"),
    (DEMO, "run_stop", metadata(status="aborted"), 'status "aborted"', "status success"),
    (DEMO, "epoch_stop", metadata(epoch_num=4), "epoch_num 4", "open epoch"),
    (DEMO, "opt_name", value("sgd"), '"sgd"', "adam"),
    (DEMO, "train_samples", value(0), "0", "above 0"),
    *((DEMO, key, removed, MISSING, "once") for key in KEYS_OF_A_DEMO),
    (SETUP_FIRST, "init_stop", lambda record: {**record, "time_ms": record["time_ms"] + 1_200_000},
     "no value", "20 minutes"),
    (SSD, "max_samples", value(7), "7", "one of 1, 50"),
    (V07_LOGS["maskrcnn"], "eval_accuracy", value({"BBOX": 0.4, "SEGM": 0.24}), '{"BBOX": 0.4',
     "SEGM at least 0.339"),
    (REFERENCE, "submission_benchmark", value("chess"), '"chess"', "'ssd'"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "key", "edit", "found", "needed"), WRONG)
def test_a_complaint_names_the_found_and_the_needed_value(
    tmp_path, source, key, edit, found, needed
):
    log = edited(tmp_path, source, key, edit)
    verdict = check_file(log)
    assert not verdict.passed
    (complaint,) = [item for item in verdict.complaints if item.key == key and found in item.found]
    assert needed in complaint.needed
    assert complaint.do
    if complaint.line:
        assert f'"key": "{key}"' in log.read_text().splitlines()[complaint.line - 1]
    if source == DEMO:
        assert not stock(log, rules=rule_file(tmp_path, "ncf_demo"))


@pytest.mark.parametrize("key", ["init_start", "init_stop"])
def test_half_an_init_window_fails(tmp_path, key):
    assert not check_file(edited(tmp_path, SETUP_FIRST, key, removed)).passed


def test_a_repeated_key_is_a_warning_and_fails_with_werror(tmp_path):
    line = next(line for line in DEMO.read_text().splitlines() if '"opt_name"' in line)
    log = edited(tmp_path, DEMO, "opt_name", lambda record: f"{line}\n{line}")
    verdict = check_file(log)
    (complaint,) = verdict.complaints
    assert (complaint.key, complaint.found, complaint.needed) == (
        "opt_name",
        "2 times",
        "exactly once",
    )
    assert verdict.passed
    assert not check_file(log, werror=True).passed


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "the file is empty"),
        (b"\0\xff" * 500, "not a log: binary data"),
        (b"Traceback\n", "not a log: no line holds"),
        (b':::MLLOG {"key": \n', "line 1: :::MLLOG record cannot be read"),
    ],
)
def test_a_file_that_is_not_a_log_is_refused_in_one_line(tmp_path, content, text):
    verdict = check_file(write(tmp_path / "result_0.txt", content))
    assert not verdict.passed
    assert text in verdict.text
    assert verdict.complaints == ()
    assert len(check.lines(verdict)) == 1


LENIENCIES = {
    "zero time": (lambda record: {**record, "time_ms": 0}, "time stamp 0"),
    "time as text": (lambda record: {**record, "time_ms": str(record["time_ms"])}, "time as text"),
    "latin-1": (metadata(by="M\xfcller"), "not UTF-8, read as latin-1"),
    "other format": (
        lambda record: f":::MLL 1.1 seed: {{oops\n{as_line(record)}",
        ":::MLL record cannot be read",
    ),
    "no record": (
        lambda record: f"we print :::MLPerf now\n{as_line(record)}",
        "no record of a known form",
    ),
    "before": (lambda record: f"0: {as_line(record)}", ""),
    "single quotes": (lambda record: f":::MLLOG {record!r}", None),
    "time_s": (lambda record: {"time_s": record.pop("time_ms") / 1000, **record}, None),
    "after": (lambda record: f"{as_line(record)} and so on", None),
    "utf-16": (lambda record: record, None),
}
"""An irregular form of one line in a valid log, and text of the expected remark.

None as remark: the stock checker fails the log.
"""


@pytest.mark.parametrize("werror", [False, True])
@pytest.mark.parametrize("case", LENIENCIES)
def test_irregularities_that_the_stock_checker_accepts_are_remarks(tmp_path, case, werror, capsys):
    edit, remark = LENIENCIES[case]
    log = edited(tmp_path, SSD, "submission_org", edit)
    text = log.read_text().replace("\\u00fc", "\xfc")
    log.write_bytes(text.encode(case if case in ("latin-1", "utf-16") else "utf-8"))
    verdict = check_file(log, werror=werror)
    passed = remark is not None
    assert verdict.passed == stock(log, werror) == passed == (not verdict.complaints)
    assert [remark in text for text in verdict.remarks] == ([True] if remark else [])
    assert run(log, *(["--werror"] if werror else [])) == (0 if passed else 1)
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  remark: ")]
    assert shown == [f"  remark: {text}" for text in verdict.remarks]


@pytest.mark.parametrize("key", [None, "epoch_stop", "eval_accuracy"])
def test_epochs_from_1_under_v05_are_a_warning_and_a_gap_fails(tmp_path, key):
    """Accept epochs from 1, because older versions of the suite logged them."""
    lines = re.sub(
        r'(epoch_num": )(\d+)', lambda found: f"{found[1]}{int(found[2]) + 1}", DEMO.read_text()
    )
    log = write(tmp_path / "result_0.txt", lines.encode())
    if key:
        log = edited(tmp_path, log, key, lambda record: {**record, "metadata": {"epoch_num": 7}})
    verdict = check_file(log)
    assert verdict.passed == (key is None)
    assert (verdict.complaints[0].warning, verdict.complaints[0].found) == (True, "epochs from 1")
    assert len(verdict.complaints) == 1 or not verdict.passed
    assert not check_file(log, werror=True).passed


def test_a_truncated_log_is_reported_once(tmp_path):
    path = write(tmp_path / "result_0.txt", DEMO.read_bytes()[:4000])
    verdict = check_file(path)
    assert verdict.text.startswith("cut off")
    assert [complaint.key for complaint in verdict.complaints] == ["", "run_stop"]
    (tmp_path / "status.json").write_text('{"status": "running"}', encoding="utf-8")
    assert not check_file(path).judged  # The run has not ended.


@pytest.mark.parametrize(
    ("profile", "status"), [("demo", "success"), ("reference", "success"), ("demo", "aborted")]
)
def test_a_demo_needs_only_its_logged_target(tmp_path, profile, status):
    kind = next(kind for kind in rules_page.WORKLOADS if kind.name == "ssd")
    settings = changed(rules_page.default_settings(kind, "v0.7", "pytorch"), targets={"map": 0.2})
    write_log(tmp_path / "result_0.txt", kind(settings, rules_page.PUBLISHED[kind]))
    log = edited(tmp_path, tmp_path / "result_0.txt", "submission_division", value("open"))
    log = edited(
        tmp_path,
        log,
        "suite_run",
        lambda record: value({**record["value"], "profile": profile})(record),
    )
    verdict = check_file(edited(tmp_path, log, "run_stop", metadata(status=status)))
    assert verdict.passed == (profile == "demo" and status == "success")
    assert any("at least 0.230" in text for text in verdict.remarks) == verdict.passed
    assert verdict.passed != any(item.key == "eval_accuracy" for item in verdict.complaints)


@pytest.mark.parametrize("profile", ["demo", "reference"])
def test_a_run_of_fixed_length_needs_no_target(tmp_path, profile):
    log = write(
        tmp_path / "result_0.txt", demo_log(qualities=(0.16,), stop="epochs:1", profile=profile)
    )
    verdict = check_file(log, rules="ncf_demo")
    assert verdict.passed == (profile == "demo")
    (message,) = [verdict.text] if verdict.passed else [item.do for item in verdict.complaints]
    assert "stop=epochs:1 requested one epoch" in message
    assert message.endswith("For a result, set stop=target")
    missed = check_file(write(tmp_path / "result_1.txt", demo_log(qualities=(0.16,))))
    assert {item.key for item in missed.complaints} == {"run_stop", "eval_accuracy"}


LOWER_TARGET = {
    "code": "setting",
    "setting": "targets",
    "value": {"hr_at_10": 0.5},
    "allowed_values": {"hr_at_10": 0.635},
}


@pytest.mark.parametrize(
    "suite_run",
    [
        {
            "deviations": [
                "data set ml-demo, not ml-20m",
                "targets hr_at_10 0.5, not hr_at_10 0.635 or above",
            ]
        },
        {"deviations": ["HR@10 is 0.5 instead of 0.635"], "deviation_facts": [LOWER_TARGET]},
    ],
    ids=["older log", "with facts"],
)
def test_a_changed_target_is_reported_with_the_override(tmp_path, suite_run):
    lines = demo_log((0.3, 0.59), status="success", targets={"hr_at_10": 0.5}, **suite_run)
    (complaint,) = check_file(write(tmp_path / "result_0.txt", lines)).complaints
    assert (
        complaint.do
        == "the target was set to 0.5, but the rules require 0.635. Leave workload.target out"
    )


@pytest.mark.parametrize("key", ["init_start", "opt_weight_decay", "eval_start"])
def test_the_last_of_several_records_on_a_line_counts(tmp_path, key):
    lines = SSD.read_text().splitlines()
    glued = "".join(line + ("" if f'"{key}"' in line else "\n") for line in lines)
    log = write(tmp_path / "result_0.txt", glued.encode())
    verdict = check_file(log)
    assert verdict.passed == stock(log)
    assert any(item.found.startswith("several records in a line") for item in verdict.complaints)


def test_broken_line_in_the_middle_fails(tmp_path):
    log = edited(
        tmp_path,
        DEMO,
        "tracked_stats",
        lambda record: as_line(record).replace('"value": {', '"value": {{'),
    )
    verdict = check_file(log)
    assert not verdict.passed
    assert {complaint.key for complaint in verdict.complaints} == {""}
    assert not stock(log, rules=rule_file(tmp_path, "ncf_demo"))


@pytest.mark.parametrize("source", [DEMO, SSD], ids=["ours", "foreign"])
@pytest.mark.parametrize("text", ['"0.65"', "null", "[1]", '{"a": 1}', "true", "1e999"])
def test_accuracy_of_another_type_fails_without_a_traceback(tmp_path, text, source):
    def damage(record):
        return as_line({**record, "value": "X"}).replace('"X"', text)

    verdict = check_file(edited(tmp_path, source, "eval_accuracy", damage))
    assert not verdict.passed
    assert all(complaint.found and complaint.do for complaint in verdict.complaints)


def test_rules_are_selected_by_name_or_path(tmp_path):
    assert find_rules("ncf_demo").generated == "ncf_demo"
    copy = rule_file(tmp_path, "ncf_demo")
    assert check_file(DEMO, rules=str(copy)).rules_name == str(copy)
    with pytest.raises(
        ValueError, match=r"allowed: ncf_demo, ncf_reference, .*6\.1\.0, or the path"
    ) as error:
        check_file(DEMO, rules="ncf")
    assert "\n" not in str(error.value)
    copy.write_text("- BEGIN: {CODE: 'x ='}\n- KEY: {NAME: seed}\n")
    (complaint,) = check_file(DEMO, rules=str(copy)).complaints
    assert "SyntaxError" in complaint.found


INVALID_RULES = [
    "[]",
    "",
    "- KEY: {REQ: EXACTLY_ONE}",
    "- KEY: text",
    "just text",
    "- a\n- b",
    "KEY: {",
]


@pytest.mark.parametrize("text", INVALID_RULES)
def test_an_invalid_rule_file_is_refused_in_one_line(tmp_path, text):
    rules = tmp_path / "mine.yaml"
    rules.write_text(text)
    with pytest.raises(ValueError, match=one_line("is not a rule file")):
        check_file(DEMO, rules=str(rules))


def test_the_command_prints_one_verdict_per_file(tmp_path, capsys):
    missed = edited(tmp_path, DEMO, "eval_accuracy", value(0.55))
    unjudged = DATA / "0.5.0" / "ncf.txt"
    assert run(DEMO, REFERENCE, unjudged) == 0
    assert run(DEMO, missed) == 1
    out = capsys.readouterr().out.splitlines()
    verdicts = [
        line.partition("  ")[0] for line in out if line.startswith(("PASS", "FAIL", "not judged"))
    ]
    assert verdicts == ["PASS", "PASS", "not judged", "PASS", "FAIL"]
    sums = [
        line.partition(" (not verified")[0] for line in out if " of " in line and " pass" in line
    ]
    assert sums == ["2 of 2 pass, 1 not judged", "1 of 2 pass"]
    assert "    found:  best 0.55 (epoch 0) of 3" in out
    for wrong, text in (
        (tmp_path / "none.txt", "no such file or folder"),
        (tmp_path / "empty", "holds no log"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(ValueError, match=text):
            run(DEMO, wrong)


def test_every_log_below_a_folder_of_runs_is_checked(tmp_path, capsys):
    for name, source in (("a", DEMO), ("b", SETUP_FIRST)):
        write(tmp_path / name / "run_0" / "result_0.txt", source.read_bytes())
    ends = ["2 of 2 pass", "2 of 2 pass, 1 not judged", "2 of 3 pass, 1 not judged"]
    for (name, status), end in zip(
        (("", ""), ("running", "running"), ("died", "rank_died")), ends, strict=True
    ):
        if name:
            content = json.dumps({"status": status, "reason": "why"}).encode()
            write(tmp_path / name / "run_0" / "status.json", content)
        assert run(tmp_path) == (name == "died")
        out = capsys.readouterr().out.splitlines()
        assert out[-1] == f"{end} (not verified by MLCommons Association)"
    assert any("the run has no log: rank_died, why" in line for line in out)


def test_hostile_text_is_printed_without_control_characters(tmp_path, capsys):
    log = edited(tmp_path, DEMO, "opt_name", value("\x1b[2J\n\u202ePASS\ud800" + "x" * 5000))
    assert run(log) == 1
    out = capsys.readouterr().out
    out.encode()
    assert not {"\x1b", "\u202e"} & set(out)
    assert max(len(line) for line in out.splitlines()) < 400


def published():
    """Return the published logs next to the checkout, or a skipped parameter without them."""
    paths = sorted(PUBLISHED.rglob("result_*.txt"))
    return paths or [
        pytest.param(PUBLISHED, marks=pytest.mark.skip(reason=f"no published logs at {PUBLISHED}"))
    ]


@pytest.mark.parametrize("path", published(), ids=lambda path: "/".join(path.parts[-3:]))
def test_published_logs_pass(path):
    verdict = check_file(path)
    assert verdict.passed, verdict.complaints


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"no published logs at {PUBLISHED}")
def test_published_log_below_target_fails():
    verdict = check_file(
        PUBLISHED.parent / "odd" / "v07_nvidia_dgx1_resnet_aborted_below_target.txt"
    )
    (complaint,) = verdict.complaints
    assert (complaint.key, complaint.found) == ("eval_accuracy", "best 0.75886 (epoch 37) of 10")
    assert complaint.needed == "one evaluation with at least 0.7590 and below 1.0"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (" v['value'] >= 0.230 and v['value'] < 1.0 ", "at least 0.230 and below 1.0"),
        ("is_integer(math.log2(v['value'] / 0.0001))", "0.0001 times a power of two"),
        ("not s['run_started']", "before run_start"),
        ("v['value'][0] == 3", "the rule v['value'][0] == 3"),
    ],
)
def test_conditions_of_rule_files_are_translated_to_text(code, text):
    assert condition_text(code) == text


def test_every_ruleset_of_the_installed_checker_can_be_chosen():
    assert (*installed()[:2], installed()[-1]) == ("0.6.0", "0.7.0", "6.1.0")
    for ruleset in installed():
        verdict = check_file(SSD, rules=ruleset)
        assert (verdict.rules_name, verdict.judged) == (f"{STOCK}{ruleset}", ruleset != "0.6.0")


@pytest.mark.parametrize("workload", ["ncf", "ssd"])
def test_a_log_of_an_unsupported_round_is_not_judged(tmp_path, workload):
    """Give no verdict, because the run used the targets of a round without rules here."""
    lines = demo_log(rules="v4.1", workload=workload)
    verdict = check_file(
        write(tmp_path / "result_0.txt", [line.replace('"ncf"', f'"{workload}"') for line in lines])
    )
    assert not verdict.judged
    assert "rules=v4.1" in verdict.text


@pytest.mark.parametrize(
    ("folder", "ruleset"),
    [
        ("v1.1", "1.1.0"), ("v1.0/of/v1.1", "1.1.0"), ("training_results_v1.0", "1.0.0"),
        ("v9.9", "0.7.0"), ("any", "0.7.0"),
    ],
)  # fmt: skip
def test_a_folder_name_with_a_round_selects_its_rules(tmp_path, folder, ruleset):
    verdict = check_file(write(tmp_path / folder / "results" / "result_0.txt", SSD.read_bytes()))
    assert verdict.rules_name == f"{STOCK}{ruleset}"
    assert ("does not name its round" in verdict.why_rules) == (ruleset == "0.7.0")


def stable_diffusion(fid, clip=0.16):
    """Return a log of round v4.1 whose two metrics are logged on separate lines."""
    settings = {
        "submission_benchmark": "stable_diffusion", "submission_org": "o",
        "submission_division": "closed", "submission_status": "onprem", "submission_platform": "p",
        "cache_clear": True, "init_start": None, "seed": 1, "global_batch_size": 1024,
        "opt_name": "adamw", "opt_adamw_beta_1": 0.9, "opt_adamw_beta_2": 0.999,
        "opt_adamw_epsilon": 1e-08, "opt_adamw_weight_decay": 0.01, "opt_base_learning_rate": 1e-4,
        "opt_learning_rate_warmup_steps": 1000, "gradient_accumulation_steps": 1, "init_stop": None,
        "run_start": None, "train_samples": 6_513_144, "eval_samples": 30_000,
    }  # fmt: skip
    lines = [record_line(time, key, value) for time, (key, value) in enumerate(settings.items())]
    for count in (512_000, 1_024_000):
        block_metadata = {
            "first_epoch_num": 1,
            "epoch_count": 1,
            "epoch_num": 1,
            "samples_count": count,
            "step_num": count,
        }
        lines += [
            record_line(count, key, **block_metadata)
            for key in ("block_start", "block_stop", "eval_start")
        ]
        lines += [record_line(count, "eval_accuracy", fid, metric="FID", **block_metadata)]
        lines += [record_line(count, "eval_accuracy", clip, metric="CLIP", **block_metadata)]
        lines += [record_line(count, "eval_stop", **block_metadata)]
    return [*lines, record_line(2_000_000, "run_stop", status="success")]


@pytest.mark.parametrize("ruleset", ["3.1.0", "4.0.0", "4.1.0", "5.0.0"])
def test_metrics_on_separate_lines_are_checked_together(tmp_path, ruleset):
    folder = tmp_path / f"v{ruleset[:3]}"
    verdict = check_file(write(folder / "good.txt", stable_diffusion(fid=89.0)))
    assert verdict.rules_name == f"{STOCK}{ruleset}"
    assert verdict.passed, verdict.complaints
    (complaint,) = check_file(write(folder / "missed.txt", stable_diffusion(fid=95.5))).complaints
    assert (complaint.key, complaint.found) == ("eval_accuracy", "FID 95.5, CLIP 0.16")


def test_a_missing_first_epoch_start_is_not_an_older_version(tmp_path):
    log = log_of_v05(tmp_path, "gnmt")
    starts = []

    def without_first(record):
        starts.append(record)
        return None if len(starts) == 1 else {**record, "metadata": {"epoch_num": 1}}

    lines = log.read_text().splitlines()
    start = next(line for line in lines if '"epoch_start"' in line)
    log.write_text(
        "\n".join(line for line in lines for line in [line] * (2 if line == start else 1)) + "\n"
    )
    verdict = check_file(edited(tmp_path, log, "epoch_start", without_first))
    assert not any(item.found == "epochs from 1" for item in verdict.complaints)
