"""Advice on the number of devices, with hand-computed values and for the article."""

import json
import math
import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.common.labels import Label, LabelKind
from suite.config.compose import compose
from suite.results.predict.predictions import PredictionRequest, predictions
from suite.results.price import parse_prices
from suite.results.render.document import document
from suite.results.scores import find_published, measured
from suite.results.views.advise_view import ASSUMPTION, advise, parse_deadline
from suite.results.views.section import NOT_VERIFIED
from testing.fake_logs import write_run
from tests.helpers import PROJECT, examples, suite_here
from tests.suite.results.rows import lines, make_result

SPREAD = ["gnmt", "resnet50", "transformer"]


def times(**seconds):
    """Return results without single runs, such as 100 s on one device for `n1=100`."""
    return [
        make_result(int(name[1:]), [(value, 10.0)], single_figure=True)
        for name, value in seconds.items()
    ]


def article(**options):
    return advise(find_published("dgx1-article"), **options).data.to_frame()


def chosen(data, flag):
    return dict(data[data[flag] == True][["workload", "devices"]].values.tolist())  # noqa: E712


def measured_only(data):
    return data[data["kind"] == "measured"]


def verdict_and_notes(view):
    return view.sections[0].above[0], view.sections[0].below


def test_advice_for_the_article_agrees_with_hand_computed_values():
    data = article()
    belongs = {
        **dict.fromkeys(SPREAD, "spread"),
        "ncf": "fewest",
        "maskrcnn": "sooner",
        "ssd": "sooner",
    }
    assert dict(data[["workload", "belongs"]].values.tolist()) == belongs
    assert set(chosen(data, "fastest_single_job").values()) == {8}
    assert chosen(data, "most_jobs_per_hour") == {
        **dict.fromkeys(SPREAD, 8),
        "ncf": 1,
        "maskrcnn": 1,
        "ssd": 1,
    }
    assert set(data["labels"]) == {"article"}
    ncf = data[data["workload"] == "ncf"].set_index("devices")
    assert ncf["jobs_at_once"].to_dict() == {1: 8, 4: 2, 8: 1}
    assert ncf["jobs_per_hour"].to_dict() == pytest.approx(
        {1: 8 * 60 / 1.76, 4: 120.0, 8: 60 / 0.63}
    )
    assert ncf["device_hours_per_job"].to_dict() == pytest.approx(
        {1: 1.76 / 60, 4: 4 / 60, 8: 8 * 0.63 / 60}
    )
    assert chosen(data, "fewest_device_hours")["ncf"] == 1


@pytest.mark.parametrize(
    ("seconds", "belongs", "most_jobs", "words"),
    [
        (
            {"n1": 100.0, "n4": 20.0, "n8": 18.0},
            "between",
            4,
            "one job is 5.56× faster than on 1, and",
        ),
        (
            {"n1": 80.0, "n8": 10.0},
            "spread",
            8,
            "on 8 devices one job is 8.00× faster than on 1, and",
        ),
        ({"n1": 10.0, "n2": 12.8}, "fewest", 1, "on 2 devices one job is 1.28× slower than on 1"),
        (
            {"n1": 10.0, "n2": 10.0},
            "fewest",
            1,
            "on 2 devices one job is as fast as on 1, and 2-device jobs in",
        ),
        (
            {"n1": 10.0, "n2": 6.0},
            "sooner",
            1,
            "do 83 % of the jobs of two 1-device jobs side by side.",
        ),
    ],
)
def test_the_best_device_count_for_a_queue(seconds, belongs, most_jobs, words):
    view = advise(times(**seconds))
    assert set(view.data.to_frame()["belongs"]) == {belongs}
    assert chosen(view.data.to_frame(), "most_jobs_per_hour") == {"ncf": most_jobs}
    assert words in verdict_and_notes(view)[0]


def repeated(spread=0.01, **seconds):
    """Return results of five runs each, such as about 100 s on one device for `n1=100`."""
    return [
        make_result(
            int(name[1:]),
            [(value * (1 + spread * index), 10.0) for index in (-2, -1, 0, 1, 2)],
            evaluations=10,
        )
        for name, value in seconds.items()
    ]


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        (
            {"n1": 100.0, "n4": 20.0, "n8": 18.0},
            "In a queue, run each job on 4 devices: on 8 devices one job is 5.56×",
        ),
        (
            {"n1": 90.0, "n8": 10.0},
            "Run each job on 8 devices, also in a queue: on 8 devices one job is 9.00× faster",
        ),
        (
            {"n1": 10.0, "n2": 12.8},
            "Keep each job on 1 device: on 2 devices one job is 1.28× slower",
        ),
        (
            {"n1": 10.0, "n2": 6.0},
            (
                "Run a job on 2 devices only if its result is needed sooner: on 2 devices one job"
                " is 1.67"
            ),
        ),
    ],
)
def test_advice_is_given_if_repeated_runs_support_it(seconds, verdict):
    view = advise(repeated(**seconds))
    assert verdict_and_notes(view)[0].startswith(verdict)
    assert set(view.data.to_frame()["decided"]) == {True}


BUSY = Label(LabelKind.BUSY, "others took 48 % of its cores")


@pytest.mark.parametrize(
    ("results", "missing"),
    [
        (times(n1=10.0, n2=12.8),
         "the run-to-run variation (no single runs are known on 1 device)"),
        ([make_result(1), make_result(2, [(60.0, 10.0)])],
         "the run-to-run variation (too few runs on 1 device: 1, and 3"),
        ([replace(row, machine_condition=BUSY.text, busy=BUSY)
          for row in repeated(n1=10.0, n2=12.8)],
         "runs on 1 device while the machine is not busy "
         "(busy machine: others took 48 % of its cores); runs on 2 devices"),
        ([make_result(count, [(10.0 + count, 1.0)] * 3, evaluations=1) for count in (1, 2)],
         "more frequent evaluations on 1 device "
         "(a run has 1 evaluation, which limits the accuracy of its time)"),
        (repeated(n1=10.0, n2=5.02, spread=0.1),
         "more runs: the interval of the speedup allows several answers"),
        (repeated(n1=10.0, n2=6.6, spread=0.1),
         "more runs: the interval of the speedup allows several answers"),
        ([make_result(1, [(10.0, 5.0)] * 3, 2, evaluations=9), *repeated(n2=12.8)],
         "an official score on 1 device (2 of 5 runs failed)"),
    ],
)  # fmt: skip
def test_no_advice_is_given_without_sufficient_evidence(results, missing):
    """Print the measured facts and the missing evidence instead of advice."""
    view = advise(results)
    verdict = verdict_and_notes(view)[0]
    assert verdict.startswith("No advice from these runs. They show: on 2 devices one job is ")
    assert missing in verdict.partition(" Missing: ")[2]
    assert set(view.data.to_frame()["decided"]) == {False}
    assert not any(
        word in verdict for word in ("Keep", "Run a job", "Run each job", "run each job")
    )


def published(name, workload, hardware=""):
    return [
        row
        for row in find_published(name)
        if row.workload == workload and hardware in row.device_name
    ]


def by_kind(view, kind):
    return view.data.to_frame()[view.data.to_frame()["kind"] == kind].set_index("devices")


def test_a_deadline_is_answered_with_a_measured_and_a_predicted_device_count():
    """Recommend 64 measured devices, and 16 predicted devices, which need fewer device-hours."""
    found = published("v1.1/NVIDIA", "resnet50")
    view = advise(found, deadline=1200.0)
    measured, predicted = by_kind(view, "measured"), by_kind(view, "predicted")
    assert measured.index.tolist() == [8, 64, 1024, 4320]
    assert {4, 16, 32} <= {*predicted.index}
    assert measured.index[measured["deadline_choice"] == True].tolist() == [64]  # noqa: E712
    assert predicted.index[predicted["deadline_choice"] == True].tolist() == [16]  # noqa: E712
    for name in ("train_seconds", "device_hours_per_job"):
        assert (predicted[f"{name}_low"] < predicted[name]).all()
        assert (predicted[name] < predicted[f"{name}_high"]).all()
        assert measured[f"{name}_low"].isna().all()
    (forecast,) = predictions(found, PredictionRequest((16,)))
    (sixteen,) = [row for row in lines(forecast.table) if row.devices == 16]
    assert predicted.loc[16, "train_seconds"] == pytest.approx(sixteen.seconds)
    answers = [line for line in verdict_and_notes(view)[1] if "the deadline" in line]
    assert answers[0].startswith("The measured device count with the fewest device-hours")
    assert "the deadline of 20.00 min: 64 devices, 4.53 min" in answers[0]
    assert answers[1].startswith("The predicted device count with the fewest device-hours")
    assert ": 16 devices, 17.20 min (15.47 min to 19.12 min)" in answers[1]
    assert "over the whole 90 % interval" in answers[1]
    assert "fewer than the measured 4.84." in answers[1]


def test_a_prediction_that_may_miss_the_deadline_is_marked():
    view = advise(published("v1.1/NVIDIA", "resnet50"), devices=16, deadline=1100.0)
    (answer,) = [
        line for line in verdict_and_notes(view)[1] if line.startswith("The predicted device count")
    ]
    assert (
        "not over the whole 90 % interval: 16 devices, 17.20 min (15.47 min to 19.12 min)" in answer
    )
    assert (
        "No measured device count meets the deadline of 18.33 min. The fastest is 8 devices, 29.15"
        " min." in verdict_and_notes(view)[1]
    )
    none = advise(published("v1.1/NVIDIA", "resnet50"), devices=16, deadline=10.0)
    assert any(
        "No predicted device count meets the deadline (4 and 16)" in line
        for line in verdict_and_notes(none)[1]
    )


def test_all_measured_counts_are_named_for_a_machine_of_an_unmeasured_size():
    view = advise(published("v1.1/NVIDIA", "resnet50"), devices=16, prices=parse_prices("a100=2"))
    verdict, below = verdict_and_notes(view)
    assert (
        verdict
        == "The results are on 8, 64, 1,024 and 4,320 devices. Of these counts, only 8 fits a"
        " machine of 16 devices."
    )
    assert "Results on 64, 1,024 and 4,320 devices exist too, but do not fit the machine." in below
    assert by_kind(view, "predicted").index.tolist() == [16]
    row = by_kind(view, "predicted").loc[16]
    assert row["cost_per_job"] == pytest.approx(2 * row["device_hours_per_job"])
    assert row["cost_per_job_low"] < row["cost_per_job"] < row["cost_per_job_high"]


def test_the_reason_is_printed_if_a_prediction_is_impossible():
    view = advise(times(n1=100.0, n4=30.0), deadline=60.0)
    assert set(view.data.to_frame()["kind"]) == {"measured"}
    (note,) = [
        line
        for line in verdict_and_notes(view)[1]
        if line.startswith("There is no prediction for 2 devices: ")
    ]
    assert "no published results" in note


@examples(30)
@given(
    st.dictionaries(st.integers(1, 64), st.floats(1, 1e5), min_size=1, max_size=6),
    st.integers(65, 200),
)
def test_no_device_count_is_better_than_the_advice(seconds, machine):
    data = advise(
        times(**{f"n{count}": value for count, value in seconds.items()}), devices=machine
    ).data.to_frame()

    def best(flag, column):
        return float(data[data[flag]][column].iloc[0])

    assert best("fastest_single_job", "train_seconds") == min(seconds.values())
    most = max((machine // count) * 3600 / value for count, value in seconds.items())
    assert best("most_jobs_per_hour", "jobs_per_hour") == pytest.approx(most)
    fewest = min(count * value / 3600 for count, value in seconds.items())
    assert best("fewest_device_hours", "device_hours_per_job") == pytest.approx(fewest)
    assert (set(data["belongs"]) == {"unknown"}) == (len(seconds) == 1)


def test_a_deadline_selects_the_count_with_the_fewest_device_hours_that_meets_it():
    found = chosen(measured_only(article(deadline=3600.0)), "deadline_choice")
    assert (found["ssd"], found["ncf"], "resnet50" in found) == (4, 1, False)
    # The article prints 1.0 minutes, which is exactly the deadline.
    assert chosen(measured_only(article(deadline=60.0)), "deadline_choice")["ncf"] == 4
    for seconds, deadline, words in (
        (
            (80.0, 90.0, 100.0, 180.0),
            100.0,
            (
                "0.0264 device-hours per job.It meets the deadline on average only: its slowest run"
                " took"
            ),
        ),
        (
            (95.0,),
            9.0,
            (
                "No measured device count meets the deadline of 9.0 s. The fastest is 1 device,"
                " 95.0 s."
            ),
        ),
    ):
        assert words in "".join(
            verdict_and_notes(
                advise([make_result(1, [(length, 10.0) for length in seconds])], deadline=deadline)
            )[1]
        )


def test_a_machine_of_an_unmeasured_size_uses_only_measured_counts():
    data = article(devices=6)
    ncf = data[data["workload"] == "ncf"]
    assert ncf[["devices", "jobs_at_once", "idle_devices"]].values.tolist() == [
        [1, 6, 0],
        [4, 1, 2],
    ]
    assert "extrapolated" not in "".join(data["labels"])
    wide = advise(times(n1=100.0, n4=30.0), devices=16)
    assert wide.sections[0].title.endswith("; machine of 16 devices, extrapolated")
    assert set(wide.data.to_frame()["labels"]) == {"demo; extrapolated"}
    assert (
        "No job was measured on 16 devices, so only measured counts are used (1 and 4)."
        in verdict_and_notes(wide)[1]
    )


def test_energy_is_shown_only_if_every_run_has_it(tmp_path):
    for devices in (1, 2):
        folder = write_run(tmp_path, f"{devices}", devices=devices)
        samples = [
            {"seconds": float(second), "gpu_power_watts": [300.0] * devices} for second in range(7)
        ]
        (folder / "telemetry.jsonl").write_text(
            "".join(json.dumps(sample) + "\n" for sample in samples)
        )
    write_run(tmp_path, "2", 1, devices=2)
    view = advise(measured([tmp_path]))
    assert [
        None if math.isnan(joules) else joules
        for joules in view.data.to_frame()["energy_joules_per_job"]
    ] == [1800.0, None]
    assert (
        "The least energy of the GPUs is 1,800 J per job, on 1 device (not measured on 2)."
        in verdict_and_notes(view)[1]
    )


def test_uncertain_speedups_require_more_runs():
    runs = [(100.0 + 5 * index, 10.0) for index in range(5)]
    for faster, more in ((1.3, False), (2.0, True)):
        view = advise(
            [
                make_result(1, runs),
                make_result(2, [(seconds / faster, epochs) for seconds, epochs in runs]),
            ]
        )
        assert (
            "more runs are needed to decide which queue is faster"
            in "".join(verdict_and_notes(view)[1])
        ) == more
    assert (
        "run-to-run variation (no single runs are known on 1 device)"
        in verdict_and_notes(advise(times(n1=2.0, n2=1.0)))[0]
    )


def test_nodes_failed_runs_and_several_settings_are_noted():
    _, below = verdict_and_notes(
        advise([make_result(1, failed=1), make_result(8, [(20.0, 10.0)], nodes=2)])
    )
    assert "Results over several nodes (nodes × devices per node): 2 × 4 devices." in below
    assert "1 of 2 runs on 1 device failed. The time of failed runs is not counted." in below
    apart = [
        make_result(4, [(seconds, 10.0)], nodes=nodes) for nodes, seconds in ((1, 9.0), (2, 8.0))
    ]
    assert (
        "On 4 devices the fastest of 2 settings is used: nodes 2."
        in verdict_and_notes(advise([make_result(1), *apart]))[1]
    )


def test_only_results_of_one_experiment_give_advice(tmp_path):
    """Check that two devices are compared with one device at the same learning rate only.

    One device takes 21.0 s at a learning rate of 0.003 and 22.4 s at 0.006. Two devices take 22.0 s
    at 0.006, which is 1.02× faster.
    """
    for devices, rate, seconds in ((1, 0.003, 7.0), (1, 0.006, 7.46), (2, 0.006, 22 / 3)):
        options = {
            "devices": devices,
            "seconds_per_epoch": seconds,
            "keys": {"opt_base_learning_rate": rate},
        }
        write_run(tmp_path, f"{devices}-{rate}", **options)
    view = advise(measured([tmp_path]))
    verdicts = {
        section.title.partition(", learning ")[2]: section.above[0] for section in view.sections
    }
    assert verdicts["rate 0.003"].startswith("21.0 s on 1 device, the only measured device count.")
    assert (
        "on 2 devices one job is 1.02× faster than on 1"
        in verdicts["rate 0.006; machine of 2 devices"]
    )
    assert {section.facts for section in view.sections} == {
        (("Target", "hit rate at 10 ≥ 0.635"), ("Data set", "ml-demo"))
    }
    assert sorted(view.data.to_frame()["train_seconds"]) == pytest.approx([21.0, 22.0, 22.38])


def test_headings_contain_no_ratios_and_notices_appear_once(tmp_path):
    for devices, target in ((1, 0.5), (2, 0.5), (1, 0.6), (2, 0.6)):
        write_run(tmp_path, f"{devices}-{target}", devices=devices, targets={"hr_at_10": target})
    view = advise(measured([tmp_path]))
    title = "ncf in pytorch on laptop (demo, cpu), target hit rate at 10 ≥ {}; machine of 2 devices"
    assert [section.title for section in view.sections] == [
        title.format(target) for target in (0.5, 0.6)
    ]
    page = document(view)
    assert page.count(NOT_VERIFIED) == page.count(ASSUMPTION.split(":")[0]) == 1
    assert "×" not in page
    assert max(map(len, page.splitlines())) <= 120


def test_the_next_command_repeats_the_arguments_with_twice_the_devices(tmp_path):
    """Print the arguments of a job, which may be part of a sweep, quoted for the shell.

    The arguments come from a file that any user may have changed.
    """
    sweep = compose(
        [
            "-m",
            "workload=ncf",
            "device=cpu",
            "profile=demo",
            "gpus=1,2",
            "workload.beta1=0.8",
            "runs=3",
        ]
    )
    words = {job.config.gpus: list(job.overrides) for job in sweep.jobs}
    words[2] += ["framework=pytorch; touch /tmp/x"]
    spec = write_run(tmp_path, "a", devices=2) / "run.json"
    spec.write_text(json.dumps({"typed": words[2]}))
    output_lines = suite_here(PROJECT, "advise", tmp_path, exits=0).stdout.splitlines()
    (command,) = [line for line in output_lines if line.startswith("    python run_suite.py")]
    kept = [
        "workload=ncf",
        "device=cpu",
        "profile=demo",
        "workload.beta1=0.8",
        "framework=pytorch; touch /tmp/x",
    ]
    assert shlex.split(command)[2:] == [*kept, "gpus=4"]
    assert "'framework=pytorch; touch /tmp/x'" in command
    for unknown in ("{}", "[]", json.dumps({"typed": "gpus=2"})):
        spec.write_text(unknown)
        assert "run_suite.py" not in suite_here(PROJECT, "advise", tmp_path, exits=0).stdout


def test_results_that_allow_no_advice_are_rejected_in_one_line():
    with pytest.raises(
        ValueError,
        match=r"--devices 2: the fewest devices that were measured are 8\. Give 8 or more",
    ):
        advise(times(n8=10.0), devices=2)
    with pytest.raises(
        ValueError, match=r"Intel .*the number of devices is not known; it is a CPU system, or"
    ):
        advise([row for row in find_published("v0.7/Intel") if row.workload == "resnet50"])
    with pytest.raises(ValueError, match="advice needs runs that reached a target"):
        advise([make_result(1, stop="epochs:3", to_target=False)])


def test_a_series_without_time_per_epoch_has_no_prediction():
    """Logs of foreign programs may label evaluations with samples instead of epochs."""
    without_epochs = make_result(
        8, [(600.0, None)], workload="llama31_8b", profile="", targets={"quality": 3.3}
    )
    alone = advise([without_epochs], deadline=300.0)
    assert "neither a time per epoch nor a throughput is known" in "\n".join(
        map(str, alone.sections)
    )
    assert [row.devices for row in lines(alone.data)] == [8]
    resnet = make_result(4, [(900.0, 3.0)], workload="resnet50", profile="")
    assert {
        row.devices for row in lines(advise([without_epochs, resnet], deadline=300.0).data)
    } >= {
        4,
        8,
    }


def test_deadlines_are_parsed_in_hours_minutes_and_seconds():
    assert [parse_deadline(text) for text in ("2h", "90m", "3600s", "1h30m", "1.5h")] == [
        7200,
        5400,
        3600,
        5400,
        5400,
    ]


@given(st.text(max_size=12).filter(lambda text: text[-1:] not in ("h", "m", "s")))
def test_an_invalid_deadline_is_rejected_in_one_line(text):
    with pytest.raises(ValueError, match=r"\A[^\n]*such as 2h, 90m or 3600s\Z"):
        parse_deadline(text)
