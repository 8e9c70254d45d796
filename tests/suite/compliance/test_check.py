import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from suite.commands import check
from suite.compliance.check import RULES_FOLDER, check_file, find_rule_file
from suite.compliance.complaints import condition_text
from suite.compliance.rulesets import installed
from suite.plan.jobs import kinds
from suite.plan.settings import resolve_settings
from tests.helpers import composed
from tests.suite.results.fake_logs import SUITE_RUN, demo_log, write
from tests.suite.results.fake_logs import line as record_line
from tests.workloads.closed_logs import changed, write_log

DATA = Path(__file__).resolve().parents[2] / "data" / "logs"
REPOSITORY = Path(__file__).resolve().parents[3]
PUBLISHED = REPOSITORY.parent / "shared" / "published" / "logs" / "v0.7"
REFERENCE = DATA / "custom_ncf" / "ncf_mllog.txt"
DEMO = DATA / "ncf_demo.txt"
SETUP_FIRST = DATA / "ncf_demo_clock_v0.7.txt"


def stock(path, *options):
    """Exit code of the compliance checker itself."""
    command = [
        sys.executable,
        "-m",
        "mlperf_logging.compliance_checker",
        "--ruleset",
        "0.7.0",
        "--log_output",
        "/dev/null",
    ]
    return subprocess.run([*command, *options, str(path)], capture_output=True).returncode


def edited(tmp_path, source, *changes, name="result_0.txt"):
    """A copy of a log with texts replaced; each must occur."""
    text = source.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / name
    path.write_text(text)
    return path


def without(tmp_path, source, key):
    path = tmp_path / "result_0.txt"
    lines = [line for line in source.read_text().splitlines() if f'"key": "{key}"' not in line]
    assert len(lines) < len(source.read_text().splitlines())
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("benchmark", ["resnet", "ssd", "maskrcnn", "gnmt", "transformer"])
def test_minimal_logs_pass_the_stock_rules(benchmark):
    verdict = check_file(DATA / "0.7.0" / f"{benchmark}.txt", werror=True)
    assert verdict.passed
    assert verdict.complaints == ()
    assert verdict.rules_name == "mlperf-logging training_0.7.0"


def test_ncf_without_suite_run_meets_the_reference_rules():
    verdict = check_file(REFERENCE, werror=True)
    assert verdict.passed, verdict.complaints
    assert verdict.rules_name == "suite/compliance/rules/ncf_reference.yaml"
    assert stock(REFERENCE, "--werror", "--config", str(RULES_FOLDER / "ncf_reference.yaml")) == 0


@pytest.mark.parametrize("log", [DEMO, SETUP_FIRST], ids=["clock v0.5", "clock v0.7"])
def test_demo_logs_pass_the_demo_rules(log):
    verdict = check_file(log, werror=True)
    assert verdict.passed, verdict.complaints
    assert verdict.rules_name == "suite/compliance/rules/ncf_demo.yaml"
    assert verdict.text == "log format valid; demo target has no relation to MLPerf"
    assert stock(log, "--werror", "--config", str(RULES_FOLDER / "ncf_demo.yaml")) == 0


V05_TARGETS = {
    "resnet50": {"top1": 0.749},
    "ssd": {"map": 0.212},
    "maskrcnn": {"BBOX": 0.377, "SEGM": 0.339},
    "gnmt": {"bleu": 21.8},
    "transformer": {"bleu": 25.0},
}


@pytest.mark.parametrize("name", V05_TARGETS)
def test_logs_of_v05_are_judged_by_that_rounds_clock_epochs_and_targets(tmp_path, name):
    """The stock checker has no such round: it wants an init window, epochs from 1 and later targets."""
    config = composed(f"workload={name}", "profile=synthetic", "device=cpu", "rules=v0.5")
    workload, framework = kinds(config)
    settings = resolve_settings(config, workload, framework)
    facts = workload.read_facts(settings)

    def verdict_of(**changes):
        (tmp_path / "result_0.txt").unlink(missing_ok=True)
        write_log(
            tmp_path / "result_0.txt", workload(changed(settings, profile="reference", stop="target", **changes), facts)
        )
        return check_file(tmp_path / "result_0.txt")

    verdict = verdict_of(targets=V05_TARGETS[name])
    assert verdict.passed, verdict.complaints
    assert verdict.rules_name == "suite/compliance/rules/v0.5.yaml"
    lower = verdict_of(targets={metric: target - 0.001 for metric, target in V05_TARGETS[name].items()})
    assert [complaint.key for complaint in lower.complaints] == ["eval_accuracy"]
    later = verdict_of(targets=V05_TARGETS[name], clock="v0.7")
    assert {"suite_run", "init_start"} == {complaint.key for complaint in later.complaints}
    with pytest.raises(ValueError, match=r"--rules 0\.7\.0: .* is of rules=v0.5, .*leave --rules out"):
        check_file(tmp_path / "result_0.txt", rules="0.7.0")


def test_demo_log_fails_the_reference_rules_by_its_counts():
    verdict = check_file(DEMO, rules="ncf_reference")
    assert not verdict.passed
    found = {complaint.key: (complaint.found, complaint.needed) for complaint in verdict.complaints}
    assert found["train_samples"] == ("82152", "19861770")
    assert found["eval_hp_num_users"] == ("2000", "138493")
    assert found["model_hp_mlp_layer_sizes"] == ("[64, 64, 32, 16]", "[256, 256, 128, 64]")
    assert found["cache_clear"] == ("false", "true, before run_start")
    assert all(complaint.do for complaint in verdict.complaints)


@pytest.mark.parametrize(
    ("change", "key", "found"),
    [
        (('"value": 0.65,', '"value": 0.6349,'), "eval_accuracy", "best 0.6349 (epoch 2) of 3"),
        (('"status": "success"', '"status": "aborted"'), "run_stop", 'status "aborted"'),
        (('"key": "epoch_stop", "value": null, "metadata": {"file": "suite/loop.py", "lineno": 1, "epoch_num": 2}',
          '"key": "epoch_stop", "value": null, "metadata": {"file": "suite/loop.py", "lineno": 1, "epoch_num": 4}'),
         "epoch_stop", "epoch_num 4"),
        (('"key": "opt_name", "value": "adam"', '"key": "opt_name", "value": "sgd"'), "opt_name", '"sgd"'),
        (('"key": "train_samples", "value": 82152', '"key": "train_samples", "value": 0'), "train_samples", "0"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_demo_log(tmp_path, change, key, found):
    log = edited(tmp_path, DEMO, change)
    verdict = check_file(log)
    assert not verdict.passed
    complaint = next(complaint for complaint in verdict.complaints if complaint.key == key)
    assert complaint.found == found
    assert complaint.needed
    assert complaint.do
    if complaint.line:
        assert f'"key": "{key}"' in log.read_text().splitlines()[complaint.line - 1]
    assert stock(log, "--config", str(RULES_FOLDER / "ncf_demo.yaml")) == 1


@pytest.mark.parametrize("key", ["cache_clear", "eval_accuracy", "seed", "train_samples", "run_start", "epoch_start"])
def test_a_missing_key_is_named(tmp_path, key):
    verdict = check_file(without(tmp_path, DEMO, key))
    assert not verdict.passed
    assert key in [complaint.key for complaint in verdict.complaints if complaint.found == "not in the log"]


@pytest.mark.parametrize("key", ["init_start", "init_stop"])
def test_half_an_init_window_fails(tmp_path, key):
    assert not check_file(without(tmp_path, SETUP_FIRST, key)).passed


def test_init_window_of_20_minutes_fails(tmp_path):
    lines = SETUP_FIRST.read_text().splitlines()
    start = next(json.loads(line[9:])["time_ms"] for line in lines if '"init_start"' in line)
    for index, line in enumerate(lines):
        if '"init_stop"' in line:
            lines[index] = line.replace(str(json.loads(line[9:])["time_ms"]), str(start + 1_200_000))
    path = tmp_path / "result_0.txt"
    path.write_text("\n".join(lines))
    (complaint,) = [item for item in check_file(path).complaints if item.key == "init_stop"]
    assert "less than 20 minutes" in complaint.needed


@pytest.mark.parametrize(("werror", "passed"), [(False, True), (True, False)])
def test_a_repeated_key_is_a_warning(tmp_path, werror, passed):
    log = tmp_path / "result_0.txt"
    lines = DEMO.read_text().splitlines()
    log.write_text("\n".join(line for line in lines for _ in range(2 if '"opt_name"' in line else 1)))
    verdict = check_file(log, werror=werror)
    assert verdict.passed is passed
    (complaint,) = verdict.complaints
    assert (complaint.key, complaint.found, complaint.needed) == ("opt_name", "2 times", "exactly once")


def test_stock_complaints_in_words(tmp_path):
    log = edited(
        tmp_path, DATA / "0.7.0" / "ssd.txt", ('"key": "max_samples", "value": 1', '"key": "max_samples", "value": 7')
    )
    (complaint,) = check_file(log).complaints
    assert (complaint.key, complaint.found, complaint.needed) == ("max_samples", "7", "one of 1, 50")


def test_stock_target_is_checked(tmp_path):
    source = DATA / "0.7.0" / "maskrcnn.txt"
    log = tmp_path / "result_0.txt"
    log.write_text(source.read_text().replace('"SEGM": 0.34', '"SEGM": 0.24'))
    assert log.read_text() != source.read_text()
    (complaint,) = check_file(log).complaints
    assert complaint.key == "eval_accuracy"
    assert "SEGM at least 0.339" in complaint.needed


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "the file is empty"),
        (b"\0\xff" * 500, "not a log: binary data"),
        (b"Traceback\n", "not a log: no line holds"),
        (
            b':::MLLOG {"key": \n',
            "no record of the log can be read; line 1: :::MLLOG record cannot be read (broken JSON",
        ),
    ],
)
def test_what_is_no_log_is_one_line(tmp_path, content, text):
    path = tmp_path / "result_0.txt"
    path.write_bytes(content)
    verdict = check_file(path)
    assert not verdict.passed
    assert text in verdict.text
    assert verdict.complaints == ()
    assert len(check.lines(verdict)) == 1


def _loosened(raw, how):
    """A sound log with one leniency in it: the bytes, and words of the remark."""
    lines = raw.decode().splitlines()
    target = next(index for index, line in enumerate(lines) if '"opt_name"' in line or '"submission_org"' in line)
    record = json.loads(lines[target][9:])
    if how == "zero time":
        record["time_ms"] = 0
    elif how == "time as text":
        record["time_ms"] = str(record["time_ms"])
    elif how == "time_s":
        record["time_s"] = record.pop("time_ms") / 1000
    lines[target] = ":::MLLOG " + json.dumps(record)
    if how == "single quotes":
        lines[target] = ":::MLLOG " + repr(record)
    elif how == "after":
        lines[target] += " and so on"
    elif how == "before":
        lines[target] = "0: " + lines[target]
    elif how == "latin-1":
        lines[target] = lines[target].replace('"metadata": {', '"metadata": {"by": "M\xfcller", ')
        return "\n".join(lines).encode("latin-1")
    elif how == "other format":
        lines.insert(target, ":::MLL 1593132571.1 seed: {oops")
    elif how == "no record":
        lines.insert(target, "we print :::MLPerf now")
    return "\n".join(lines).encode("utf-16" if how == "utf-16" else "utf-8")


@pytest.mark.parametrize("werror", [False, True])
@pytest.mark.parametrize(
    ("how", "remark"),
    [
        ("zero time", "time stamp 0"),
        ("time as text", "time as text"),
        ("latin-1", "not UTF-8, read as latin-1"),
        ("other format", ":::MLL record cannot be read"),
        ("no record", "no record of a known form"),
        ("before", ""),
        ("single quotes", None),
        ("time_s", None),
        ("after", None),
        ("utf-16", None),
    ],
)
def test_leniency_that_the_stock_checker_shares_is_a_remark_and_fails_nothing(tmp_path, how, remark, werror):
    log = tmp_path / "result_0.txt"
    log.write_bytes(_loosened((DATA / "0.7.0" / "ssd.txt").read_bytes(), how))
    verdict = check_file(log, werror=werror)
    passed = remark is not None
    assert verdict.passed is passed
    assert (stock(log, *(["--werror"] if werror else [])) == 0) is passed
    assert bool(verdict.complaints) is not passed
    assert [remark in text for text in verdict.remarks] == ([True] if remark else [])
    printed = check.lines(verdict)
    assert [line for line in printed if line.startswith("  remark: ")] == [
        f"  remark: {text}" for text in verdict.remarks
    ]
    assert run(log, *(["--werror"] if werror else [])) == (0 if passed else 1)


def test_truncated_log_says_so_and_no_more(tmp_path):
    path = tmp_path / "result_0.txt"
    path.write_bytes(DEMO.read_bytes()[:4000])
    verdict = check_file(path)
    assert verdict.text == "cut off: the log has no run_stop; 2 complaints"
    assert [complaint.key for complaint in verdict.complaints] == ["", "run_stop"]
    assert "broken JSON" in verdict.complaints[0].found


def test_log_of_a_run_that_goes_on_is_not_called_cut_off(tmp_path):
    path = tmp_path / "result_0.txt"
    path.write_bytes(DEMO.read_bytes()[:4000])
    (tmp_path / "status.json").write_text('{"status": "running"}', encoding="utf-8")
    verdict = check_file(path)
    assert not verdict.judged
    assert verdict.text == "has not ended yet, or its controller was killed; check it again when it has ended"


@pytest.mark.parametrize(("profile", "status"), [("demo", "success"), ("reference", "success"), ("demo", "aborted")])
def test_a_demo_that_reached_its_own_target_needs_no_other(tmp_path, profile, status):
    path, lines = tmp_path / "result_0.txt", (DATA / "0.7.0" / "ssd.txt").read_text().splitlines()
    settings = {**SUITE_RUN, "workload": "ssd", "profile": profile, "rules": "v0.7", "targets": {"map": 0.1}}
    lines = [re.sub(r'("key": "eval_accuracy", "value": )[\d.]+', r"\g<1>0.2", text) for text in lines]
    start = next(place for place, text in enumerate(lines) if '"run_start"' in text)
    path.write_text(
        "\n".join([*lines[:start], record_line(0, "suite_run", settings), *lines[start:]]).replace("success", status)
    )
    verdict = check_file(path)
    assert verdict.passed == (profile == "demo" and status == "success")
    remark = "a demo run need not reach MLPerf's target: at least 0.230 and below 1.0"
    assert (remark in verdict.remarks) == verdict.passed
    assert verdict.passed or any(item.key == "eval_accuracy" for item in verdict.complaints)


@pytest.mark.parametrize(("profile", "passed"), [("demo", True), ("reference", False)])
def test_a_run_of_fixed_length_is_judged_as_one(tmp_path, profile, passed):
    log = write(tmp_path / "result_0.txt", demo_log(qualities=(0.16,), stop="epochs:1", profile=profile))
    verdict = check_file(log, rules="ncf_demo")
    asked = "stop=epochs:1 asked for one epoch, not for the target: fine as a throughput run, no result by the rules"
    assert verdict.passed is passed
    assert verdict.text == (f"log format valid; {asked}; type stop=target for one" if passed else "1 complaint")
    assert [item.do for item in verdict.complaints] == ([] if passed else [f"{asked}; type stop=target for one"])
    missed = check_file(write(tmp_path / "result_1.txt", demo_log(qualities=(0.16,))))
    assert {item.key for item in missed.complaints} == {"run_stop", "eval_accuracy"}


def test_a_changed_target_is_told(tmp_path):
    deviations = ["data set ml-demo, not ml-20m", "targets hr_at_10 0.5, not hr_at_10 0.635 or above"]
    lines = demo_log((0.3, 0.59), status="success", targets={"hr_at_10": 0.5}, deviations=deviations)
    (complaint,) = check_file(write(tmp_path / "result_0.txt", lines)).complaints
    assert complaint.do == "target 0.5 was typed, the rules ask 0.635: leave workload.target out"


@pytest.mark.parametrize("key", ["init_start", "opt_weight_decay", "eval_start"])
def test_of_glued_records_the_last_counts_as_for_the_checker(tmp_path, key):
    path = tmp_path / "result_0.txt"
    lines = (DATA / "0.7.0" / "ssd.txt").read_text().splitlines()
    path.write_text("".join(line + ("" if f'"{key}"' in line else "\n") for line in lines))
    verdict = check_file(path)
    assert verdict.passed == (stock(path) == 0)
    assert any(item.found.startswith("several records on one line") for item in verdict.complaints)


def test_broken_line_in_the_middle_fails(tmp_path):
    log = edited(tmp_path, DEMO, ('"key": "tracked_stats", "value": {', '"key": "tracked_stats", "value": {{'))
    verdict = check_file(log)
    assert not verdict.passed
    assert {complaint.key for complaint in verdict.complaints} == {""}
    assert stock(log, "--config", str(RULES_FOLDER / "ncf_demo.yaml")) == 1


@pytest.mark.parametrize("value", ['"0.65"', "null", "[1]", '{"a": 1}', "true", "1e999"])
def test_accuracy_of_another_type_fails_without_a_traceback(tmp_path, value):
    for source in (DEMO, DATA / "0.7.0" / "ssd.txt"):
        lines = [
            line.replace(f'"value": {json.dumps(json.loads(line[9:])["value"])}', f'"value": {value}')
            if '"eval_accuracy"' in line
            else line
            for line in source.read_text().splitlines()
        ]
        path = tmp_path / "result_0.txt"
        path.write_text("\n".join(lines))
        verdict = check_file(path)
        assert not verdict.passed
        assert all(complaint.found and complaint.do for complaint in verdict.complaints)


@pytest.mark.parametrize("key", ["submission_benchmark", "submission_division", "opt_name"])
def test_text_of_a_log_names_no_rule_file(tmp_path, key):
    trap = tmp_path / "trap"
    trap.mkdir()
    code = f"- BEGIN:\n    CODE: \"open('{tmp_path}/ran', 'w')\"\n"
    for name in ("x_common.yaml", "x.yaml"):
        (trap / name).write_text(code)
    source = DATA / "0.7.0" / "resnet.txt"
    lines = source.read_text().splitlines()
    prefix = "closed_" if key == "submission_benchmark" else "closed_resnet_" if key == "opt_name" else ""
    value = "../" * 30 + f"{trap}/x".lstrip("/")
    value = f"{prefix and '../' * 40}{value}"
    old = next(json.loads(line[9:])["value"] for line in lines if f'"key": "{key}"' in line)
    log = edited(tmp_path, source, (f'"key": "{key}", "value": "{old}"', f'"key": "{key}", "value": "{value}"'))
    verdict = check_file(log)
    assert not verdict.passed
    assert key in [complaint.key for complaint in verdict.complaints]
    assert not (tmp_path / "ran").exists()


def test_unknown_benchmark_is_a_complaint(tmp_path):
    log = edited(tmp_path, REFERENCE, ('"ncf"', '"chess"'))
    (complaint,) = check_file(log).complaints
    assert (complaint.key, complaint.found) == ("submission_benchmark", '"chess"')
    assert "'ssd'" in complaint.needed


def test_rules_by_name_and_path(tmp_path):
    assert find_rule_file("ncf_demo") == RULES_FOLDER / "ncf_demo.yaml"
    copy = tmp_path / "own.yaml"
    copy.write_text((RULES_FOLDER / "ncf_demo.yaml").read_text())
    assert check_file(DEMO, rules=str(copy)).rules_name == str(copy)
    copy.write_text("KEY: {")
    for wrong, text in (("ncf", "choose one of ncf_demo, ncf_reference"), (str(copy), "is no rule file")):
        with pytest.raises(ValueError, match=text) as error:
            check_file(DEMO, rules=wrong)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["[]", "", "- KEY: {REQ: EXACTLY_ONE}", "- KEY: text", "just text", "- a\n- b"])
def test_what_is_no_rule_file_is_one_line(tmp_path, text):
    rules = tmp_path / "own.yaml"
    rules.write_text(text)
    with pytest.raises(ValueError, match="is no rule file"):
        check_file(DEMO, rules=str(rules))


def test_rules_that_cannot_run_are_a_complaint(tmp_path):
    rules = tmp_path / "own.yaml"
    rules.write_text("- BEGIN: {CODE: 'x ='}\n- KEY: {NAME: seed}\n")
    (complaint,) = check_file(DEMO, rules=str(rules)).complaints
    assert "SyntaxError" in complaint.found


def run(*arguments):
    parser = argparse.ArgumentParser()
    check.configure(parser)
    return check.run(parser.parse_args([str(argument) for argument in arguments]))


def test_command_prints_one_verdict_a_file(tmp_path, capsys):
    missed = edited(tmp_path, DEMO, ('"value": 0.65,', '"value": 0.55,'))
    assert run(DEMO, REFERENCE) == 0
    assert run(DEMO, missed) == 1
    out = capsys.readouterr().out.splitlines()
    verdicts = [line for line in out if line.startswith(("PASS", "FAIL"))]
    assert [line[:4] for line in verdicts] == ["PASS", "PASS", "PASS", "FAIL"]
    assert verdicts[0].endswith("demo target has no relation to MLPerf (rules: suite/compliance/rules/ncf_demo.yaml)")
    assert "    found:  best 0.55 (epoch 2) of 3" in out


def test_command_with_a_wrong_path(tmp_path):
    with pytest.raises(ValueError, match="is no file or folder"):
        run(DEMO, tmp_path / "none.txt")
    with pytest.raises(ValueError, match="holds no log"):
        run(DEMO, tmp_path)


def test_every_log_below_a_folder_of_runs_is_checked(tmp_path, capsys):
    for name, source in (("a", DEMO), ("b", SETUP_FIRST)):
        (tmp_path / name / "run_0").mkdir(parents=True)
        (tmp_path / name / "run_0" / "result_0.txt").write_bytes(source.read_bytes())
    assert run(tmp_path) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line[:4] for line in out[:2]] == ["PASS", "PASS"]
    assert all("log format valid; demo target has no relation to MLPerf" in line for line in out[:2])
    assert out[2] == "2 of 2 pass (not verified by MLCommons Association)"
    for code, name, status in ((0, "running", "running"), (1, "died", "rank_died")):
        (tmp_path / name / "run_0").mkdir(parents=True)
        (tmp_path / name / "run_0" / "status.json").write_text(json.dumps({"status": status, "reason": "why"}))
        assert run(tmp_path) == code
    out = capsys.readouterr().out
    assert "has not ended yet, or its controller was killed; check it again when it has ended" in out
    assert "2 of 2 pass, 1 not judged" in out
    assert "there is no log to check: rank_died, why" in out
    assert "2 of 3 pass, 1 not judged" in out


def test_hostile_text_is_printed_clean(tmp_path, capsys):
    log = edited(tmp_path, DEMO, ('"adam"', json.dumps("\x1b[2J\n\u202ePASS\ud800" + "x" * 5000)))
    assert run(log) == 1
    out = capsys.readouterr().out
    out.encode()
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert max(len(line) for line in out.splitlines()) < 400


def published():
    return [
        pytest.param(path, id=str(path.relative_to(PUBLISHED))) for path in sorted(PUBLISHED.rglob("result_*.txt"))
    ] or [pytest.param(None, marks=pytest.mark.skip(reason=f"no published logs at {PUBLISHED}"))]


@pytest.mark.parametrize("path", published())
def test_published_logs_pass(path):
    verdict = check_file(path)
    assert verdict.passed, verdict.complaints


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason=f"no published logs at {PUBLISHED}")
def test_published_log_below_target_fails():
    verdict = check_file(PUBLISHED.parent / "odd" / "v07_nvidia_dgx1_resnet_aborted_below_target.txt")
    (complaint,) = verdict.complaints
    assert (complaint.key, complaint.found) == ("eval_accuracy", "best 0.75886 (epoch 37) of 10")
    assert complaint.needed == "one evaluation with at least 0.7590 and below 1.0"


def test_words():
    assert condition_text(" v['value'] >= 0.230 and v['value'] < 1.0 ") == "at least 0.230 and below 1.0"
    assert condition_text("is_integer(math.log2(v['value'] / 0.0001))") == "0.0001 times a power of two"
    assert condition_text("not s['run_started']") == "before run_start"
    assert condition_text("v['value'][0] == 3") == "the rule v['value'][0] == 3"


@pytest.mark.parametrize("name", ["resnet", "ssd", "maskrcnn", "gnmt", "transformer"])
def test_logs_of_v06_are_judged_by_its_rules(name, tmp_path):
    log = DATA / "0.6.0" / f"{name}.txt"
    verdict = check_file(log)
    assert verdict.rules_name == "mlperf-logging training_0.6.0"
    assert verdict.passed, verdict.complaints
    cut = edited(tmp_path, log, ("eval_accuracy", "evil_accuracy"))
    assert any(complaint.key == "eval_accuracy" for complaint in check_file(cut).complaints)


def test_logs_of_v05_are_not_judged_and_no_failure(capsys):
    log = DATA / "0.5.0" / "ncf.txt"
    assert run(log, DEMO) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"not judged  {log}: holds :::MLPv0.5.0 lines of round v0.5")
    assert "1 of 1 pass, 1 not judged" in out


def test_every_ruleset_of_the_installed_checker_can_be_chosen(tmp_path):
    assert installed()[:2] == ("0.6.0", "0.7.0")
    assert installed()[-1] == "6.1.0"
    log = DATA / "0.7.0" / "ssd.txt"
    for ruleset in installed():
        verdict = check_file(log, rules=ruleset)
        assert verdict.rules_name == f"mlperf-logging training_{ruleset}"
        assert verdict.judged == (ruleset != "0.6.0")
    with pytest.raises(ValueError, match=r"0\.6\.0, .*, 6\.1\.0 or give the path"):
        check_file(log, rules="7.7.0")


def test_the_folder_of_a_round_names_its_rules(tmp_path):
    text = (DATA / "0.7.0" / "ssd.txt").read_text()
    for folder, ruleset in (("v1.1", "1.1.0"), ("training_results_v1.0", "1.0.0"), ("v9.9", "0.7.0"), ("any", "0.7.0")):
        log = tmp_path / folder / "results" / "result_0.txt"
        log.parent.mkdir(parents=True)
        log.write_text(text)
        verdict = check_file(log)
        assert verdict.rules_name.endswith(f"training_{ruleset}")
        assert ("does not name its round" in verdict.why_rules) == (folder in ("v9.9", "any"))
