"""Forecasts: from published rows by the law, from our logs by the parts of a step, and what each refuses."""

import csv
import importlib
import io
import math
from dataclasses import replace

import pytest

from suite.plan.jobs import kinds
from suite.plan.settings import resolve_settings
from suite.results.advise.advise import advise
from suite.results.html.scaling_curves import forecast_charts
from suite.results.predict.comparable import comparable
from suite.results.predict.epochs import UNKNOWN, epochs_at, reference_points
from suite.results.predict.forecast import forecast, forecasts, gradients_of
from suite.results.predict.forecast_text import forecasts_csv, forecasts_text
from suite.results.predict.links import measured_links, with_link
from suite.results.predict.observations import observation, outside_of_the_law
from suite.results.predict.points import Range, Wanted
from suite.results.predict.step import StepCost, step_time
from suite.results.predict.systems import find_system
from suite.results.predict.validate import Protocol, select, validate
from suite.results.published.csv_files import find_published_results
from suite.results.published.other_logs import measurements_below, rows_below
from suite.results.score.measurement import measurements
from suite.results.score.price import parse_prices
from tests.helpers import composed, suite_here
from tests.suite.results.fake_logs import write_run
from tests.suite.results.report.test_all_reduce_report import ALPHA, BANDWIDTH, write_sums
from workloads.api import GradientTraffic
from workloads.ncf import weights


def published(name, workload):
    return [item.measurement for item in find_published_results(name) if item.benchmark == workload]


@pytest.fixture(scope="module")
def a100_ssd():
    """SSD on 8, 16, 64 and 512 A100 of round v0.7."""
    items = [item for item in published("v0.7/NVIDIA", "ssd") if "A100" in item.hardware]
    items.sort(key=lambda item: item.devices)
    assert [item.devices for item in items] == [8, 16, 64, 512]
    return items


def test_the_law_predicts_what_it_was_not_given(a100_ssd):
    """From 8 and 16 devices to 64 and 512, at the batches that were run there."""
    known = [item for item in a100_ssd if item.devices <= 16]
    for item in a100_ssd:
        if item.devices > 16:
            one = forecast(known, Wanted((item.devices,), batch_global=float(item.batch_size_global)))
            point = one.points[-1]
            assert not point.measured
            assert point.seconds_per_epoch.low < item.score.seconds_per_epoch < point.seconds_per_epoch.high
            assert point.seconds_per_epoch.middle == pytest.approx(item.score.seconds_per_epoch, rel=0.2)


def test_a_published_row_does_not_count_twice(a100_ssd):
    """From the smallest row: the same as the validation, which forgets the family."""
    held = next(
        item
        for item in select(validate().held["law"], Protocol.SMALLEST, "ssd")
        if item.row.devices == 512 and "a100" in item.row.name.lower()
    )
    smallest = [item for item in a100_ssd if item.devices == 8]
    point = forecast(smallest, Wanted((512,), batch_global=2048.0)).points[-1]
    expected = held.row.seconds_per_epoch * (1 + held.error)
    assert point.seconds_per_epoch.middle == pytest.approx(expected, rel=1e-6)


def test_points_are_in_order_and_labelled(a100_ssd):
    one = forecast(a100_ssd, Wanted((32, 1024)))
    assert [(point.devices, point.measured) for point in one.points] == [
        (8, True), (16, True), (32, False), (64, True), (512, True), (1024, False),
    ]  # fmt: skip
    assert one.points[2].batch_size_global == 32 * 1536 / 64, "of two counts as near the larger batch"
    assert one.points[-1].batch_size_global == 1024 * 2048 / 512
    assert one.efficiency(one.points[0]) == pytest.approx(1.0)
    assert 0 < one.efficiency(one.points[-1]) < 1
    rows = list(csv.DictReader(io.StringIO(forecasts_csv([one]))))
    assert [row["kind"] for row in rows].count("prediction") == 2
    for row in rows:
        low, high = float(row["seconds_per_epoch_low"]), float(row["seconds_per_epoch_high"])
        assert (low < high) == (row["kind"] == "prediction")
    text = forecasts_text([one])
    assert "| prediction |" in text
    assert "Not verified" in text
    assert max(map(len, text.splitlines())) <= 120


def test_time_to_target_and_the_counts_that_are_best():
    items = [item for item in published("v0.7/NVIDIA", "resnet50") if item.system == "dgx1_ngc20.06_mxnet"]
    one = forecast(items, Wanted((64, 256, 2048)))
    assert one.fastest.devices == 256
    assert one.cheapest.devices == 8
    sources = {point.devices: point.epochs.source for point in one.points}
    assert sources == {8: "measured", 64: "RCP", 256: "RCP", 2048: ""}
    assert one.points[-1].seconds is None
    assert any("2048 devices are not known" in note for note in one.notes)
    text = forecasts_text([one]).replace("\n", " ")
    assert "- shortest time to target, of the counts with a known time: 256 devices" in text
    assert "- fewest device-hours, of the counts with a known time: 8 devices" in text
    known = forecasts_text([forecast(items, Wanted((64, 256)))])
    assert "- shortest time to target: 256 devices" in known
    assert "of the counts" not in known
    point = one.points[1]
    assert point.seconds.middle == pytest.approx(point.epochs.value * point.seconds_per_epoch.middle)


def test_reference_points_are_those_of_the_rules():
    assert dict(reference_points("resnet50"))[4096] == pytest.approx(40.0)
    assert dict(reference_points("maskrcnn"))[256] == pytest.approx(17.1)
    assert dict(reference_points("ssd"))[1024] == pytest.approx(50.0), "SSD-300, not the RetinaNet of later rounds"
    assert reference_points("gnmt") == ()


def test_epochs_are_never_extrapolated(a100_ssd):
    bare = [replace(item, score=replace(item.score, epochs=None)) for item in a100_ssd]
    assert epochs_at(1024, bare).value == pytest.approx(50.0)
    assert 50 < epochs_at(1280, bare).value < 55
    assert epochs_at(8192, bare) == UNKNOWN
    other = [replace(item, targets={"map": 0.212}) for item in bare]
    assert epochs_at(1024, other) == UNKNOWN, "another target needs other epochs"
    assert epochs_at(a100_ssd[0].batch_size_global, a100_ssd).source == "measured"


STEP = (2e-3, 1e-5)
"""t0 and c of the runs below, in seconds."""


@pytest.fixture
def batch_study(tmp_path):
    """One device, three batches, whose steps take t0 + c·b exactly."""
    for batch in (64, 256, 1024):
        rate = batch / (STEP[0] + STEP[1] * batch)
        write_run(
            tmp_path / "logs", f"ncf-{batch}", batch_size_global=batch, batch_rule=f"per_device:{batch}", samples=400_000,
            train_seconds=400_000 / rate, seconds_per_epoch=400_000 / rate + 1,
            keys={"global_batch_size": batch, "suite_gradients": {"bytes": 8_000_000, "tensors": 12, "buckets": 1}},
        )  # fmt: skip
    return tmp_path


def test_parts_of_a_step_from_our_logs(batch_study):
    groups = comparable(measurements_below([batch_study / "logs"]))
    assert [len(group) for group in groups] == [3], "batches of one study belong together"
    one = forecast(
        groups[0], Wanted((4, 16), batch_per_device=256.0, system=find_system("pcie"), gradients=GradientTraffic(8e6))
    )
    step = STEP[0] + STEP[1] * 256
    exposed = 2 * 3 / 4 * 8e6 / 10e9 + 6 * 5.7e-6
    four = next(point for point in one.points if point.devices == 4)
    assert four.samples_per_second.low == pytest.approx(4 * 256 / (step + exposed), rel=1e-4)
    assert four.samples_per_second.low <= four.samples_per_second.middle <= four.samples_per_second.high
    sixteen = one.points[-1]
    inside, between = 2 * 7 / 8 * 8e6 / 10e9 + 14 * 5.7e-6, 2 * 1 / 2 * 8e6 / 2.5e9 + 2 * 14e-6
    assert sixteen.samples_per_second.low == pytest.approx(16 * 256 / (step + inside + between), rel=1e-4)
    assert sixteen.binds == "samples"
    small = Wanted((16,), batch_per_device=64.0, system=find_system("pcie"), gradients=GradientTraffic(8e6))
    assert forecast(groups[0], small).points[-1].binds == "bandwidth between nodes"
    assert sixteen.epochs == UNKNOWN
    assert "t0 2 ms, c 0.01 ms a sample" in one.method
    assert [one.efficiency(point) for point in one.points if point.measured] == pytest.approx([1.0, 1.0, 1.0])
    assert set(one.labels) == {"demo", "cpu"}


def test_runs_of_another_mode_have_a_forecast_of_their_own_that_says_so(batch_study):
    for batch in (64, 256):
        write_run(
            batch_study / "logs", f"forward-{batch}", mode="forward", stop="steps:100", qualities=(None,), status="success",
            batch_size_global=batch, batch_rule=f"per_device:{batch}", keys={"global_batch_size": batch},
        )  # fmt: skip
    items = measurements_below([batch_study / "logs"])
    wanted = Wanted((4,), 256.0, system=find_system("pcie"), gradients=GradientTraffic(8e6))
    made = {("mode forward" in one.settings): one for one in forecasts(items, wanted)}
    assert len(made[False].points) == 4, "three measured batches, and the prediction"
    assert len(made[True].points) == 3
    assert "batch rule" not in made[True].settings, "what only names the batch does not tell them apart"
    text = forecasts_text(list(made.values()))
    assert "mode train" in text.replace("\n", " ")
    assert "mode forward" in text.replace("\n", " ")
    assert {row["settings"] for row in csv.DictReader(io.StringIO(forecasts_csv(list(made.values()))))} == {
        one.settings for one in made.values()
    }


def test_a_batch_of_tokens_is_no_number_of_sentences(tmp_path):
    """Rates count sentence pairs, 16 tokens each here; t0 and c are those of the step, whatever unit the batch has."""
    for batch in (1_024, 4_096):
        seconds, pairs = 101 * (STEP[0] + STEP[1] * batch), 101 * batch // 16
        write_run(
            tmp_path / "logs", f"transformer-{batch}", workload="transformer", sample_unit="sentence pairs",
            batch_unit="tokens", batch_size_global=batch, batch_rule=f"per_device:{batch}", samples=pairs,
            train_seconds=seconds, seconds_per_epoch=seconds + 1, keys={"global_batch_size": batch},
        )  # fmt: skip
    (group,) = comparable(measurements_below([tmp_path / "logs"]))
    assert {(item.batch_unit, item.rate_unit) for item in group} == {("tokens", "sentence pairs")}
    assert [item.samples_per_batch_unit for item in group] == [1 / 16, 1 / 16]
    of_published_rows = replace(group[0], samples_per_batch_unit=None, sample_unit="")  # the rate counts tokens, too
    samples_of = importlib.import_module("suite.results.predict.forecast")._samples
    assert samples_of(of_published_rows) == of_published_rows.batch_size_global
    link = GradientTraffic(8e6)
    one = forecast(group, Wanted((4,), batch_per_device=2_048.0, system=find_system("pcie"), gradients=link))
    assert "t0 2 ms, c 0.01 ms a token" in one.method
    step = STEP[0] + STEP[1] * 2_048 + 2 * 3 / 4 * 8e6 / 10e9 + 6 * 5.7e-6
    assert one.points[-1].samples_per_second.low == pytest.approx(4 * 2_048 / 16 / step, rel=1e-4)
    assert observation(group[0]).batch_per_device == group[0].batch_size_global / 16
    assert "batch in tokens" in suite_here(tmp_path, "tables", "logs").stdout
    assert "4,096 tokens" in suite_here(tmp_path, "report", "logs").stdout


def test_the_command_on_our_logs(batch_study):
    done = suite_here(
        batch_study, "scaling", "logs", "--devices", "2,64", "--system", "dgx1", "--batch-per-device", "256"
    )
    assert done.returncode == 0, done.stderr
    assert "prediction" in done.stdout
    assert "(demo, cpu)" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--devices 16,64,512"),
        (("logs", "--devices", "8"), "give --system NAME or FILE"),
        (("logs", "--devices", "8", "--system", "dgx3"), "neither a file nor one of dgx1"),
        (("--devices", "8"), "give a folder with runs (suite scaling logs/)"),
        (("logs", "--validate"), "give no DIR"),
        (("logs", "--devices", "8", "--workload", "bert"), "--workload"),
    ],
)
def test_mistakes_are_one_line(batch_study, arguments, message):
    done = suite_here(batch_study, "scaling", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_one_batch_is_not_enough_for_the_parts_of_a_step(tmp_path):
    write_run(tmp_path / "logs", "ncf-1")
    done = suite_here(tmp_path, "scaling", "logs", "--devices", "8", "--system", "dgx1")
    assert done.returncode == 2
    assert "two batch sizes on one device" in done.stderr


def test_advice_beyond_what_was_measured_is_labelled_with_its_interval(a100_ssd):
    large = [item for item in a100_ssd if item.family == a100_ssd[-1].family]
    (wide,) = advise(large, 2048)
    note = next(note for note in wide.notes if "prediction" in note)
    assert "not measured: 2048 devices, batch 8,192" in note
    assert "90% interval" in note
    (measured,) = advise(large, 512)
    assert not any("prediction" in note for note in measured.notes)
    article = published("dgx1-article", "ncf")
    assert not any("prediction" in note for one in advise(article, 64) for note in one.notes)


def test_a_measured_point_is_the_fastest_entry_and_several_systems_are_headed_as_such():
    """v3.0/Dell: eight A100 took 49.2 s an epoch in one system, and 45.1 s in another."""
    made = forecasts(published("v3.0/Dell", "resnet50"), Wanted((256,)))
    assert len({(one.series, one.settings) for one in made}) == len(made), "headings differ"
    for one in made:
        assert len({(point.devices, point.batch_size_global) for point in one.points}) == len(one.points)
    slow, fast = 49.2, 45.1
    eight = [point for one in made for point in one.points if point.measured and point.devices == 8]
    times = [round(point.seconds_per_epoch.middle, 1) for point in eight]
    assert fast in times
    assert slow not in times
    assert "Dell, several systems with NVIDIA A100-SXM-80GB CTS" in [one.series for one in made]


def test_of_throughput_alone_the_highest_rate_is_shown(batch_study):
    (items,) = comparable(measurements_below([batch_study / "logs"]))
    bare = [replace(item, score=replace(item.score, seconds=None, epochs=None)) for item in items]
    faster = replace(bare[0], score=replace(bare[0].score, samples_per_second=2 * bare[0].score.samples_per_second))
    wanted = Wanted((4,), 256.0, system=find_system("pcie"), gradients=GradientTraffic(8e6))
    for order in ([*bare, faster], [faster, *bare]):
        point = forecast(order, wanted).points[0]
        assert point.samples_per_second.middle == faster.score.samples_per_second


@pytest.mark.parametrize(
    ("name", "hardware", "reason"),
    [
        ("v2.1/Intel-HabanaLabs", "Habana", "no NVIDIA GPU"),
        ("v0.7/Google", "tpu", "no NVIDIA GPU"),
        ("v0.7/SIAT", "Ascend", "no NVIDIA GPU|open division"),
        ("v0.6/Fujitsu", "V100", "open division"),
    ],
)
def test_the_law_says_nothing_of_rows_that_it_did_not_learn_from(name, hardware, reason):
    items = [item for item in published(name, "resnet50") if hardware.lower() in item.hardware.lower()]
    if reason == "open division":
        items = [item for item in items if item.division == "open"]
    assert items
    with pytest.raises(ValueError, match=reason):
        forecasts(items, Wanted((4096,)))
    assert not any("prediction" in note for one in advise(items, 4096) for note in one.notes)


@pytest.mark.parametrize(
    ("hardware", "reason"),
    [
        ("A100-SXM4-40GB", ""),
        ("8x H100 80GB", ""),
        ("GeForce RTX 3090", ""),
        ("TPU v3", "no NVIDIA GPU"),
        ("tpu-v100000", "no NVIDIA GPU"),
        ("Habana Gaudi2", "no NVIDIA GPU"),
        ("AMD MI300X", "no NVIDIA GPU"),
    ],
)
def test_a_gpu_is_known_without_its_makers_name(hardware, reason):
    item = replace(next(item for item in published("v0.7/NVIDIA", "resnet50")), hardware=hardware, division="closed")
    assert outside_of_the_law(item) == reason


def test_what_was_measured_is_not_predicted_and_a_device_needs_a_sample(a100_ssd):
    assert all(point.measured for point in forecast(a100_ssd, Wanted((8, 512))).points)
    assert len(forecast(a100_ssd, Wanted((8,), batch_global=1024.0)).points) == 5, "another batch is another point"
    with pytest.raises(ValueError, match="less than a sample for each of 512 devices"):
        forecast(a100_ssd, Wanted((512,), batch_global=100.0))


def test_rows_with_less_than_a_sample_a_device_are_shown_and_not_carried_on_from():
    items = [item for item in published("v1.1/NVIDIA", "maskrcnn") if "A100" in item.hardware]
    assert [(item.devices, item.batch_size_global) for item in items if item.batch_size_global < item.devices] == [
        (408, 272)
    ]
    one = forecast(items, Wanted((128,)))
    (point,) = (point for point in one.points if not point.measured)
    assert point.batch_size_global == 128 * 128 / 32
    assert one.points[-1].devices == 408
    without = forecast([item for item in items if item.devices < 408], Wanted((128,)))
    assert point in without.points


def test_cost_follows_the_price(a100_ssd):
    one = forecast(a100_ssd, Wanted((32,), prices=parse_prices("a100=3")))
    for point in one.points:
        assert (point.seconds is None) == (one.cost(point) is None)
    assert one.cost(one.cheapest) == pytest.approx(3 * one.cheapest.devices * one.cheapest.seconds.middle / 3600)
    assert "cost" in forecasts_text([one])


def test_overlap_comes_from_measured_steps_on_several_devices(batch_study):
    (items,) = comparable(measurements_below([batch_study / "logs"]))
    link = find_system("pcie")
    step = step_time(StepCost(*STEP), 256, 2, GradientTraffic(64e6), link, 0.25).seconds
    two = replace(
        items[0], devices=2, batch_size_global=512, score=replace(items[0].score, samples_per_second=512 / step)
    )
    one = forecast([*items, two], Wanted((4,), batch_per_device=256.0, system=link, gradients=GradientTraffic(64e6)))
    assert "middle: 0.25, from measured steps" in one.bounds
    assert not any("far from measured" in note for note in one.notes)
    slow = replace(two, score=replace(two.score, samples_per_second=100 / step))
    missed = forecast(
        [*items, slow], Wanted((4,), batch_per_device=256.0, system=link, gradients=GradientTraffic(64e6))
    )
    assert any("far from measured" in note for note in missed.notes)
    assert missed.points[-1].samples_per_second.low < one.points[-1].samples_per_second.low / 4, "the bounds say it too"
    assert "middle: 0.7, assumed" in forecast(items, Wanted((4,), system=link)).bounds


def test_ranges():
    assert Range.exactly(2.0).inverse(4.0) == Range.exactly(2.0)
    assert Range(2.0, 1.0, 4.0).inverse(4.0) == Range(2.0, 1.0, 4.0)
    assert Range(2.0, 1.0, 4.0).times(0.5) == Range(1.0, 0.5, 2.0)


def test_a_measured_link_takes_the_place_of_a_systems_own(batch_study):
    """On CPU cores nothing overlaps with the backward pass: predicted = t0 + c·b + all-reduce, with the logged gradients."""
    write_sums(batch_study / "logs", framework="pytorch")
    table = rows_below([batch_study / "logs"])
    (link,) = measured_links(table)
    assert (link.on_cpu, link.devices, link.several_machines) == (True, (2,), False)
    (items,) = comparable(measurements(table))
    items = [replace(item, gradients=GradientTraffic(8e6, 10, 3)) for item in items]
    one = forecast(items, Wanted((2, 4), batch_per_device=256.0, links=(link,)))
    two, four = (point for point in one.points if not point.measured)
    step = STEP[0] + STEP[1] * 256
    assert two.samples_per_second.middle == pytest.approx(2 * 256 / (step + 2 * 3 * ALPHA + 8e6 / BANDWIDTH), rel=1e-3)
    assert four.samples_per_second.middle == pytest.approx(
        4 * 256 / (step + 6 * 3 * ALPHA + 1.5 * 8e6 / BANDWIDTH), rel=1e-3
    )
    assert "all-reduces measured on 2 devices: α 40 µs, B 2 GB/s" in one.method
    assert "8.0 MB of gradients in 10 tensors, 3 buckets" in one.method
    assert "the cores that compute also carry them" in one.bounds
    assert any("measured on up to 2 devices" in note for note in one.notes)
    other = [replace(item, hardware="another CPU") for item in items]
    with pytest.raises(ValueError, match="give --system"):
        forecast(other, Wanted((2,), links=(link,)))


def test_a_measured_link_stands_in_a_described_system(batch_study):
    write_sums(batch_study / "logs")
    (link,) = measured_links(rows_below([batch_study / "logs"]))
    system = with_link(find_system("dgx1"), link)
    assert system.inside.bytes_per_second == pytest.approx(BANDWIDTH)
    assert system.between == find_system("dgx1").between
    over = with_link(find_system("dgx1"), replace(link, several_machines=True))
    assert over.between.latency_seconds == pytest.approx(ALPHA)
    assert over.inside == find_system("dgx1").inside


def test_the_command_takes_all_reduces_among_the_runs_and_draws(batch_study):
    write_sums(batch_study / "logs")
    done = suite_here(batch_study, "scaling", "logs", "--devices", "2,4", "--figures", "figures")
    assert done.returncode == 0, done.stderr
    assert "all-reduces measured on 2 devices" in done.stdout.replace("\n", " ")
    assert sorted(path.suffix for path in (batch_study / "figures").iterdir()) == [".png", ".png", ".svg", ".svg"]
    again = suite_here(batch_study, "scaling", "logs", "--devices", "2", "--figures", "figures")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)


def test_all_reduces_alone_predict_nothing(tmp_path):
    write_sums(tmp_path / "logs")
    done = suite_here(tmp_path, "scaling", "logs", "--devices", "4")
    assert done.returncode == 2
    assert "all-reduces alone, and nothing that trains" in done.stderr


def test_charts_show_what_is_measured_what_is_predicted_and_what_binds(a100_ssd):
    time, work = forecast_charts([forecast(a100_ssd, Wanted((32, 1024)))])
    measured, predicted = time.series
    assert [x for x, _ in measured.paths[0]] == [8, 16, 64, 512]
    assert [x for x, *_ in predicted.ranges] == [x for x, _ in predicted.paths[0]] == [32, 1024]
    assert all(low < y < high for (_, y), (_, low, high) in zip(predicted.paths[0], predicted.ranges, strict=True))
    assert (time.y_label, work.y_label) == ("seconds per epoch", "work of a device over the fewest")
    assert time.labels[0] == "prediction"
    assert "32: samples" in time.note


def test_advice_says_what_a_step_sums():
    small = published("dgx1-article", "ssd")
    (article,) = advise(small)
    assert any("each step sums 79.9 MB of gradients" in note for note in article.notes)
    told = [replace(item, gradients=GradientTraffic(8e6, 10, 3)) for item in small]
    assert any("8.0 MB of gradients in 10 tensors, 3 buckets" in note for note in advise(told)[0].notes)
    demo = [replace(item, profile="demo") for item in small]
    assert not any("gradients" in note for note in advise(demo)[0].notes), "no demo has the reference's model"


def test_the_page_has_the_prediction_with_its_figures(batch_study):
    write_sums(batch_study / "logs")
    done = suite_here(batch_study, "report", "logs", "--html", "page.html", "--predict", "2,4")
    assert done.returncode == 0, done.stderr
    text = (batch_study / "page.html").read_text()
    assert "Prediction, Recommendation (NCF)" in text
    assert "all-reduces measured on 2 devices" in text
    assert text.count("Recommendation (NCF), predicted") >= 2
    alone = suite_here(batch_study, "report", "logs/ncf-64", "--html", "other.html", "--predict", "2")
    assert (alone.returncode, alone.stderr.count("\n")) == (2, 1)
    assert not (batch_study / "other.html").exists()


@pytest.mark.parametrize("name", ["ncf", "resnet50", "ssd", "maskrcnn", "gnmt", "transformer"])
def test_gradients_of_reference_models_are_those_that_the_suite_trains(name):
    config = composed(f"workload={name}", "profile=synthetic", "device=cpu")
    settings = resolve_settings(config, *kinds(config))
    workload = kinds(config)[0](settings, kinds(config)[0].read_facts(settings))
    shapes = (
        weights.shapes(workload.users, workload.items, settings.model)
        if name == "ncf"
        else importlib.import_module(f"workloads.{name}.network").shapes(workload.network)
    )
    trained = [math.prod(shape) for one, shape in shapes.items() if not workload.parameter_rule(one).frozen]
    found = gradients_of([replace(published("dgx1-article", "ssd")[0], workload=name)])
    assert found == GradientTraffic(4.0 * sum(trained), len(trained))


def test_groups_without_a_prediction_are_named_beside_those_with_one():
    """Google's round v0.7 has GPUs and TPUs."""
    (made,) = forecasts(published("v0.7/Google", "resnet50"), Wanted((64,)))
    assert "gpu-v100" in made.series
    (note,) = [note for note in made.notes if note.startswith("No prediction for 2 more groups of runs: ")]
    assert note.count("tpu-v") == 2
    (only,) = forecasts(published("v0.7/NVIDIA", "ssd"), Wanted((64,)))[:1]
    assert not any(note.startswith("No prediction") for note in only.notes)
