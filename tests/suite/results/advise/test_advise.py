import csv
import io
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results.advise.advise import ASSUMPTION, Placement, advise, parse_deadline
from suite.results.advise.render import (
    advice_csv,
    advice_json,
    advice_text,
    certainty_text,
    duration_text,
    energy_text,
    recommendation_text,
)
from suite.results.published.csv_files import find_published_results
from suite.results.score.scores import TimedRun, score
from tests import helpers
from tests.helpers import PROJECT, suite_here
from tests.suite.results.fake_logs import write_run
from tests.suite.results.score.test_scaling import make_measurement


def suite(*arguments, start=suite_here):
    return start(PROJECT, "advise", *arguments)


def article(**options):
    return {
        one.workload: one
        for one in advise([row.measurement for row in find_published_results("dgx1-article")], **options)
    }


def times(**seconds):
    """Measurements without single runs: times(n1=100) is 100 s on one device."""
    return [
        replace(make_measurement(int(name[1:]), ((value, 10.0),)), runs=(), labels=("article",))
        for name, value in seconds.items()
    ]


def test_where_the_workloads_of_the_article_belong():
    found = article()
    assert {name: one.belongs for name, one in found.items()} == {
        "ncf": Placement.FEWEST,
        "resnet50": Placement.SPREAD,
        "gnmt": Placement.SPREAD,
        "transformer": Placement.SPREAD,
        "maskrcnn": Placement.SOONER,
        "ssd": Placement.SOONER,
    }
    spread = [found[name].pair.total for name in ("resnet50", "gnmt", "transformer")]
    assert spread == pytest.approx([9.7, 10.4, 15.8], abs=0.05)
    assert all(one.fastest.devices == 8 for one in found.values())
    assert {name: one.most_jobs.devices for name, one in found.items() if one.belongs is not Placement.SPREAD} == {
        "ncf": 1,
        "maskrcnn": 1,
        "ssd": 1,
    }
    assert all(one.most_jobs.devices == 8 for one in found.values() if one.belongs is Placement.SPREAD)


def test_words_for_the_article():
    found = article()
    assert recommendation_text(found["ncf"]).startswith(
        "ncf belongs on one device each: 8 devices finish one job only 2.8× sooner"
    )
    assert recommendation_text(found["ncf"]).endswith("35% of the jobs of eight 1-device jobs side by side.")
    assert recommendation_text(found["resnet50"]).startswith(
        "resnet50 gains even in throughput when spread: 9.7× on 8×"
    )
    assert "only when a single result is wanted sooner (7.2× sooner on 8 devices)" in recommendation_text(found["ssd"])
    text = advice_text(list(found.values()))
    assert text.count("(article)") == 6
    assert "Not verified by MLCommons Association." in text
    assert "Assumption, not measured" in text


def test_numbers_by_hand():
    ncf = article()["ncf"]
    one, four, eight = ncf.choices
    assert (one.jobs_at_once, four.jobs_at_once, eight.jobs_at_once) == (8, 2, 1)
    assert one.jobs_per_hour == pytest.approx(8 * 60 / 1.76)
    assert eight.jobs_per_hour == pytest.approx(60 / 0.63, rel=1e-6)
    assert one.device_hours == pytest.approx(1.76 / 60)
    assert eight.device_hours == pytest.approx(8 * 0.63 / 60, rel=1e-6)
    assert ncf.cheapest is one


def test_deadline_takes_the_fewest_device_hours_that_meet_it():
    found = article(deadline_seconds=3600.0)
    assert found["ssd"].deadline.choice.devices == 4
    assert found["ncf"].deadline.choice.devices == 1
    assert found["resnet50"].deadline.choice is None
    assert article(deadline_seconds=60.0)["ncf"].deadline.choice.devices == 4  # printed as 1.0 minutes
    text = advice_text([found["resnet50"]])
    assert "deadline 60.0 min: no measured device count meets it; the fastest is 8 devices with 2.3 h" in text


def test_a_deadline_that_only_the_mean_meets_says_so():
    runs = [(80.0, 10.0), (90.0, 10.0), (100.0, 10.0), (180.0, 10.0)]
    (one,) = advise([make_measurement(1, runs)], deadline_seconds=100.0)
    assert one.deadline.choice.devices == 1
    assert "on average only: its slowest run took 3.0 min" in advice_text([one]).replace("\n  ", " ")


def test_a_machine_of_another_size_uses_measured_counts_only():
    ncf = article(devices=6)["ncf"]
    assert [choice.devices for choice in ncf.choices] == [1, 4]
    assert [(choice.jobs_at_once, choice.idle_devices) for choice in ncf.choices] == [(6, 0), (1, 2)]
    assert "6 devices were not measured for one job; only measured counts are used (1, 4)" in ncf.notes
    assert not ncf.extrapolated
    wide = article(devices=16)["resnet50"]
    assert [choice.jobs_at_once for choice in wide.choices] == [16, 4, 2]
    assert "machine of 16 devices, extrapolated" in advice_text([wide])
    assert "extrapolated: jobs/h on 16 devices, when no more than 8 were busy in any measurement" in wide.notes
    assert "article; extrapolated" in advice_csv([wide])
    assert "extrapolated" not in advice_csv([article()["resnet50"]])
    assert wide.belongs is Placement.SPREAD


def test_devices_over_several_nodes_are_said():
    one, eight = times(n1=100.0, n8=20.0)
    (said,) = advise([one, replace(eight, nodes=2)])
    assert "over several nodes (nodes × devices of each): 2 × 4 devices" in said.notes
    assert not any("nodes" in note for note in advise([one, eight])[0].notes)


def test_too_small_a_machine_is_one_line():
    with pytest.raises(ValueError, match=r"--devices 2: the fewest devices that were measured are 8; give 8 or more"):
        advise(times(n8=10.0), devices=2)


def test_most_jobs_in_between():
    (one,) = advise(times(n1=100.0, n4=20.0, n8=18.0))
    assert (one.belongs, one.most_jobs.devices) == (Placement.BETWEEN, 4)
    assert "most jobs on 4 devices each" in recommendation_text(one)


def test_exactly_linear_is_spread_because_the_first_result_comes_sooner():
    (one,) = advise(times(n1=80.0, n8=10.0))
    assert (one.belongs, one.most_jobs.devices) == (Placement.SPREAD, 8)


def test_slower_with_more_devices_is_not_called_sooner():
    (one,) = advise(times(n1=10.0, n2=20.0))
    assert one.belongs is Placement.FEWEST
    assert "later, not sooner (0.50×)" in recommendation_text(one)


def test_one_count_says_what_to_run_next(tmp_path):
    write_run(tmp_path, "a", devices=2)
    done = suite(tmp_path)
    assert done.returncode == 0
    assert "Run next: python run_suite.py workload=ncf framework=pytorch profile=demo gpus=4" in done.stdout.replace(
        "\n", " "
    )
    assert "(demo, cpu)" in done.stdout


def test_runs_tell_how_sure_the_speedup_is():
    runs = [(100.0 + 5 * index, 10.0) for index in range(5)]
    near, far = ([(seconds / ratio, epochs) for seconds, epochs in runs] for ratio in (2.0, 1.3))
    (sure,), (unsure,) = (advise([make_measurement(1, runs), make_measurement(2, other)]) for other in (far, near))
    assert "95% interval" in certainty_text(sure)
    assert "more runs are needed" not in certainty_text(sure)
    assert certainty_text(unsure).endswith("that includes 2×, so more runs are needed to tell which queue is faster")
    assert certainty_text(article()["ncf"]) == "how sure: unknown (no single runs are known on 1 device)"


def test_energy_only_where_every_run_has_it():
    timed = tuple(TimedRun(100.0, 10.0, energy_joules=joules) for joules in (7.2e6, 3.6e6))
    one = replace(make_measurement(1), runs=timed, score=score(timed))
    two = replace(make_measurement(2), runs=(*timed[:1], TimedRun(50.0, 10.0)), score=score(timed))
    (advice,) = advise([one, two])
    assert [choice.energy_joules for choice in advice.choices] == [5.4e6, None]
    assert advice.least_energy.devices == 1
    assert "least energy (GPUs): 1 device, 1.5 kWh a job (not measured on 2)" in advice_text([advice])
    assert article()["ncf"].least_energy is None


def test_energy_comes_from_the_telemetry_beside_the_log(tmp_path):
    for devices in (1, 2):
        folder = write_run(tmp_path, f"{devices}", devices=devices)
        samples = [{"seconds": float(second), "gpu_power_watts": [300.0] * devices} for second in range(7)]
        (folder / "telemetry.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    table = json.loads(suite(tmp_path, "--format", "json").stdout)["advice"][0]["choices"]
    assert [row["energy_joules_per_job"] for row in table] == [1800.0, 3600.0]


def test_profiles_never_mix(tmp_path):
    write_run(tmp_path, "a", devices=1)
    write_run(tmp_path, "b", devices=2, profile="reference", labels=["cpu"])
    done = suite(tmp_path)
    assert "Several profiles were given; each has advice of its own, and they are never mixed." in done.stdout
    assert done.stdout.count("nothing to choose from") == 2


def test_nothing_to_choose_is_one_sentence_and_the_next_command(tmp_path):
    write_run(tmp_path, "a", devices=2)
    lines = [line for line in suite(tmp_path).stdout.splitlines() if line]
    assert " ".join(lines[1:-1]) == (
        "Recommendation (NCF): pytorch on laptop (demo, cpu): 6.0 s on 2 devices, the only count measured, so there is nothing "
        "to choose from."
    )
    assert lines[-1] == "Run next: python run_suite.py workload=ncf framework=pytorch profile=demo gpus=4"


def test_families_with_one_heading_are_distinguished(tmp_path):
    for precision in ("fp32", "bf16"):
        for devices in (1, 2):
            write_run(tmp_path, f"{precision}{devices}", devices=devices, precision=precision)
    text = suite(tmp_path).stdout
    assert "precision fp32" in text
    assert "precision bf16" in text


def test_failures_are_said(tmp_path):
    write_run(tmp_path, "a", 0, devices=1)
    write_run(tmp_path, "a", 1, devices=1, qualities=(0.1,))
    assert "1 of 2 runs on 1 device failed" in suite(tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give a folder with runs"),
        (("--published", "v9.9/Nobody/box"), "--published v9.9/Nobody/box: no such published result; nearest:"),
        (("--published", "dgx1-article", "--workload", "resnet5"), "--workload=resnet5: allowed: gnmt, "),
        (("--published", "dgx1-article", "--deadline", "soon"), "such as 2h, 90m or 3600s"),
        (("--published", "dgx1-article", "--devices", "0"), "whole number of devices"),
        (("/no/such/folder",), "does not exist"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(arguments, words):
    done = suite(*arguments)
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_no_run_succeeded_is_one_line(tmp_path):
    write_run(tmp_path, "a", 0, qualities=(0.1,))
    done = suite(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no run succeeded (1 of 1 did not); the reasons: suite report" in done.stderr
    write_run(tmp_path, "b", 0, log=False, status={"status": "running"})
    assert "no run succeeded (1 of 2 did not, 1 of 2 has not ended); the reasons" in suite(tmp_path).stderr


def test_runs_of_fixed_length_alone_are_one_line(tmp_path):
    write_run(tmp_path, "a", 0, stop="epochs:3")
    done = suite(tmp_path)
    assert done.returncode == 2
    assert "advice needs runs that reached a target" in done.stderr


def test_csv_and_json():
    found = list(article(deadline_seconds=7200.0).values())
    table = list(csv.DictReader(io.StringIO(advice_csv(found))))
    assert len(table) == 18
    assert {row["labels"] for row in table} == {"article"}
    ssd = [row for row in table if row["workload"] == "ssd"]
    assert [row["deadline_choice"] for row in ssd] == ["False", "True", "False"]
    assert [float(row["jobs_per_hour"]) for row in ssd] == pytest.approx([2.4010, 2.1964, 2.1757], abs=1e-3)
    assert ["assumed" in row["note"] for row in ssd] == [True, True, False]
    document = json.loads(advice_json(found))
    assert document["assumption"] == ASSUMPTION
    assert {one["workload"]: one["belongs"] for one in document["advice"]}["ncf"] == "fewest"


def test_hostile_names_stay_text(tmp_path):
    evil = "a|b\x1b[31m <script>x</script> [y](z)"
    write_run(tmp_path, "a", framework=evil, system=evil, labels=[evil], workload=evil)
    done = suite(tmp_path, start=helpers.suite)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "<script>" not in done.stdout
    assert json.loads(suite(tmp_path, "--format", "json").stdout)["advice"]


def test_order_changes_nothing():
    rows = [row.measurement for row in find_published_results("dgx1-article")]
    assert advice_text(advise(rows)) == advice_text(advise(list(reversed(rows))))


@pytest.mark.parametrize(
    ("text", "seconds"), [("2h", 7200), ("90m", 5400), ("3600s", 3600), ("1h30m", 5400), ("1.5h", 5400)]
)
def test_deadlines(text, seconds):
    assert parse_deadline(text) == seconds


@given(st.text(max_size=12).filter(lambda text: text[-1:] not in ("h", "m", "s")))
def test_other_deadlines_are_one_line(text):
    with pytest.raises(ValueError, match=r"\A[^\n]*such as 2h, 90m or 3600s\Z"):
        parse_deadline(text)


def test_a_run_of_no_time_is_left_out():
    with pytest.raises(ValueError, match="advice needs runs that reached a target"):
        advise(times(n1=0.0))


@given(st.dictionaries(st.integers(1, 64), st.floats(1, 1e5), min_size=1, max_size=6), st.integers(64, 200))
def test_no_choice_beats_the_advice(seconds, machine):
    (one,) = advise(times(**{f"n{count}": value for count, value in seconds.items()}), devices=machine)
    assert one.fastest.seconds == min(seconds.values())
    assert one.most_jobs.jobs_per_hour == pytest.approx(max((machine // k) * 3600 / s for k, s in seconds.items()))
    assert one.cheapest.device_hours == pytest.approx(min(k * s / 3600 for k, s in seconds.items()))
    assert (one.belongs is Placement.UNKNOWN) == (len(seconds) == 1)


def test_units():
    assert [duration_text(value) for value in (0.25, 38.04, 130.0, 7300.0)] == ["0.25 s", "38.0 s", "2.2 min", "2.0 h"]
    assert [energy_text(value) for value in (None, 820.0, 7200.0, 7.2e6)] == ["–", "820 J", "2.0 Wh", "2.0 kWh"]


def test_cpu_systems_of_unknown_size_reached_their_target():
    items = [item.measurement for item in find_published_results("v0.7/Intel") if item.benchmark == "resnet50"]
    with pytest.raises(ValueError, match="the number of devices of a CPU system is not known: Intel 1-node"):
        advise(items)


def test_published_entries_over_several_nodes_say_so():
    items = [item.measurement for item in find_published_results("v0.7/DellEMC") if item.benchmark == "resnet50"]
    notes = [note for one in advise(items) for note in one.notes]
    assert "over several nodes (nodes × devices of each): 2 × 4 devices, 4 × 4 devices" in notes
    assert "across nodes: the network between them counts" in notes


def test_a_section_of_one_count_is_as_wide_as_others():
    items = [item.measurement for item in find_published_results("v0.7/DellEMC/DSS8440")]
    text = advice_text(advise(items))
    assert "the only count measured" in text.replace("\n", " ")
    assert max(map(len, text.splitlines())) <= 118
