"""Forecasts from published rows with the scaling law, and from our logs with the parts of a step.

In all forecasts, rates and times must agree.
"""

import importlib
import json
import math
from dataclasses import replace

import pytest

from suite.plan.load import load_workload_and_framework
from suite.plan.settings import resolve_settings
from suite.results.logs.all_reduce import AllReduceTime, SizeTimes
from suite.results.predict.epochs_to_target import EpochsEstimate, epochs_at, reference_points
from suite.results.predict.fits import StepFit
from suite.results.predict.predictions import (
    PredictionRequest,
    comparable_groups,
    predict,
    predict_times,
    predictions,
    samples_of_epoch,
    why_not_by_model,
)
from suite.results.predict.step import gradients_of, step_time
from suite.results.predict.systems import find_system, measured_links, with_link
from suite.results.predict.validate import validate
from suite.results.price import parse_prices
from suite.results.scores import find_published, published_results, results
from suite.results.views.scaling_view import scaling_view
from testing.fake_logs import write_run
from tests.helpers import composed, suite_here
from tests.suite.results.rows import lines
from workloads.api import GradientAllReduceInfo
from workloads.ncf import weights

STEP = (2e-3, 1e-5)
"""Fixed cost t0 and cost per sample c of the runs below, in seconds."""
PCIE = find_system("pcie")
LINK = GradientAllReduceInfo(8e6)


def published(name, workload, **wanted):
    found = [row for row in find_published(name) if row.workload == workload]
    return [
        row for row in found if all(value in getattr(row, key) for key, value in wanted.items())
    ]


@pytest.fixture(scope="module")
def h100():
    """Return the v4.0 results of ResNet-50 on 8, 64, and 2,528 H100 by number of devices."""
    found = published("v4.0/NVIDIA", "resnet50", device_name="H100")
    return sorted(
        (row for row in found if row.system.startswith("eos")), key=lambda row: row.devices
    )


def write_batches(folder, batches=(64, 256, 1024), name="ncf", per_sample=1, **options):
    """Write a run of each batch on one device and return the folder.

    A step with batch b takes exactly t0 + c·b. Each epoch takes an additional second.
    """
    for batch in batches:
        seconds, samples = 101 * (STEP[0] + STEP[1] * batch), 101 * batch // per_sample
        keys = {
            "global_batch_size": batch,
            "suite_gradients": {"bytes": 8_000_000, "tensors": 12, "buckets": 1},
        }
        write_run(
            folder / "logs",
            f"{name}-{batch}",
            global_batch_size=batch,
            batch_rule=f"per_device:{batch}",
            samples=samples,
            train_seconds=seconds,
            seconds_per_epoch=seconds + 1,
            keys=keys,
            **options,
        )
    return folder


@pytest.fixture
def batch_study(tmp_path):
    return write_batches(tmp_path)


def read(folder):
    return results(folder)


def last(forecast, devices=None):
    """Return the last row, or the last predicted row on `devices` devices, or None."""
    rows = [row for row in lines(forecast.table) if devices in (None, row.devices)]
    rows = [row for row in rows if devices is None or row.kind == "prediction"]
    return rows[-1] if rows else None


def assert_rates_and_times_agree(forecast):
    """Check that the rates and times in all rows of a forecast agree.

    samples_per_second × seconds_per_epoch must be constant, and the time to target must be
    epochs × seconds_per_epoch.
    """
    samples = samples_of_epoch(forecast.results)
    for row in lines(forecast.table):
        for low, high in (("", ""), ("_low", "_high"), ("_high", "_low")):
            rate, seconds = (
                getattr(row, f"samples_per_second{low}"),
                getattr(row, f"seconds_per_epoch{high}"),
            )
            assert (rate is None) == (samples is None or seconds is None), row
            assert rate is None or rate * seconds == pytest.approx(samples, rel=1e-9)
        timed = row.seconds_per_epoch is not None and row.epochs is not None
        assert row.seconds == (
            pytest.approx(row.epochs * row.seconds_per_epoch, rel=1e-9) if timed else None
        )
        assert row.device_hours == (
            pytest.approx(row.devices * row.seconds / 3600) if timed else None
        )
        for name in ("seconds", "device_hours"):
            low, high = getattr(row, f"{name}_low"), getattr(row, f"{name}_high")
            bounded = timed and row.kind == "prediction"
            assert (low is None) == (high is None) == (not bounded)
            assert not bounded or low < getattr(row, name) < high
            assert (
                not bounded
                or high / low >= row.seconds_per_epoch_high / row.seconds_per_epoch_low * 0.999
            )
        assert (row.seconds_per_epoch_low is None) == (
            row.kind == "measured" or row.seconds_per_epoch is None
        )


def test_rates_agree_with_times_although_training_is_faster_than_an_epoch(tmp_path):
    """Rates are those of whole epochs, with evaluation. Training rates have a separate column."""
    for devices, seconds in ((8, 50.0), (16, 30.0)):
        write_run(
            tmp_path,
            f"resnet-{devices}",
            workload="resnet50",
            profile="reference",
            device="gpu",
            device_name="NVIDIA A100",
            devices=devices,
            global_batch_size=256 * devices,
            labels=[],
            batch_rule="per_device:256",
            sample_unit="images",
            samples=1_281_167,
            train_seconds=seconds * 0.7,
            seconds_per_epoch=seconds,
            keys={"global_batch_size": 256 * devices, "train_samples": 1_281_167},
        )
    (forecast,) = predictions(read(tmp_path), PredictionRequest((32, 64)))
    assert_rates_and_times_agree(forecast)
    assert list(forecast.table.to_frame()["kind"]) == [
        "measured",
        "measured",
        "prediction",
        "prediction",
    ]
    eight, sixteen, *_ = lines(forecast.table)
    assert eight.samples_per_second == pytest.approx(1_281_167 / 50, rel=1e-3)
    assert eight.training_samples_per_second == pytest.approx(1_281_167 / 35, rel=1e-3)
    ratio = eight.seconds_per_epoch / sixteen.seconds_per_epoch
    assert sixteen.samples_per_second / eight.samples_per_second == pytest.approx(ratio)


@pytest.mark.parametrize("name", ["v0.6/NVIDIA", "v0.7/DellEMC", "v4.0/NVIDIA", "dgx1-article"])
def test_published_rows_have_no_rate_because_the_samples_of_an_epoch_are_unknown(name):
    found = [
        row
        for row in find_published(name)
        if row.workload in ("resnet50", "ssd", "maskrcnn", "transformer")
    ]
    for forecast in predictions(found, PredictionRequest((24, 96), batch_global=9600.0)):
        assert_rates_and_times_agree(forecast)
        assert forecast.table.to_frame()["samples_per_second"].isna().all()
        assert any("samples of an epoch are not known" in note for note in forecast.notes)


def test_times_computed_from_rates_are_marked(tmp_path):
    """Runs of fixed length have no time per epoch, so it is computed from the rate.

    The time per epoch is the number of samples of an epoch, including negative samples, divided by
    the rate.
    """
    fixed = {"stop": "steps:100", "status": {"status": "success"}, "qualities": (None,)}
    write_batches(tmp_path, (64, 256), **fixed)
    (forecast,) = predictions(read(tmp_path), PredictionRequest((4,), system=PCIE, gradients=LINK))
    assert_rates_and_times_agree(forecast)
    assert samples_of_epoch(forecast.results) == 82_152 * 5
    assert any("without evaluation" in note for note in forecast.notes)
    rates = forecast.table.to_frame()[
        ["samples_per_second", "training_samples_per_second"]
    ].to_numpy()
    assert rates[:, 0] == pytest.approx(rates[:, 1])
    bare = [replace(row, train_samples=None) for row in forecast.results]
    unknown = predict(bare, PredictionRequest((4,), system=PCIE, gradients=LINK))
    assert_rates_and_times_agree(unknown)
    assert unknown.table.to_frame()["seconds_per_epoch"].isna().all()
    assert last(unknown).training_samples_per_second > 0


def test_the_law_predicts_excluded_results(h100):
    """Predict the measured batches on 64 and 2,528 devices from the result on 8 devices.

    The errors must equal those of the validation, which excludes the family from the fit.
    """
    assert [row.devices for row in h100] == [8, 64, 2528]
    held = validate().held
    for row in h100[1:]:
        point = last(
            predict(h100[:1], PredictionRequest((row.devices,), batch_global=row.global_batch_size))
        )
        assert point.seconds_per_epoch_low < row.seconds_per_epoch < point.seconds_per_epoch_high
        expected = held[
            (held["run"] == row.run)
            & (held["rule"] == "scaling model")
            & (held["predicted_from"] == "smallest")
        ]
        assert point.seconds_per_epoch / row.seconds_per_epoch - 1 == pytest.approx(
            expected["error"].iloc[0], rel=1e-6
        )


def test_rows_are_sorted_and_use_the_batch_per_device_of_the_nearest_row(h100):
    forecast = predict(h100, PredictionRequest((8, 32, 4096)))
    assert forecast.table.to_frame()["devices"].tolist() == [8, 32, 64, 2528, 4096]
    batches = forecast.table.to_frame()["global_batch_size"].tolist()
    assert batches[1] == 32 * h100[1].global_batch_size / 64
    assert batches[-1] == pytest.approx(4096 * h100[2].global_batch_size / 2528)
    efficiencies = forecast.table.to_frame()["scaling_efficiency"].tolist()
    assert efficiencies[0] == pytest.approx(1.0)
    assert 0 < efficiencies[-1] < 1
    assert len(predict(h100, PredictionRequest((8,), batch_global=1024.0)).table) == 4, (
        "a different batch is a separate row"
    )
    with pytest.raises(ValueError, match="less than a sample for each of 512 devices"):
        predict(h100, PredictionRequest((512,), batch_global=100.0))


def test_time_to_target_cost_and_the_best_device_counts():
    found = published("v0.7/NVIDIA/dgx1_ngc20.06_mxnet", "resnet50")
    forecast = predict(found, PredictionRequest((64, 256, 2048), prices=parse_prices("v100=3")))
    assert forecast.table.to_frame()["epochs_source"].tolist() == ["measured", "RCP", "RCP", ""]
    for row in lines(forecast.table):
        assert row.cost == (None if row.seconds is None else pytest.approx(3 * row.device_hours))
    assert last(forecast).seconds is None
    below = scaling_view([forecast]).sections[0].below
    assert below[0].startswith(
        "Shortest time to target, among the device counts with a known time: 256 devices"
    )
    assert below[1].startswith(
        "Fewest device-hours, among the device counts with a known time: 8 devices"
    )
    assert any("2048 devices are not known" in note for note in forecast.notes)


def test_epochs_are_never_extrapolated():
    assert dict(reference_points("resnet50"))[4096] == pytest.approx(40.0)
    assert dict(reference_points("ssd"))[1024] == pytest.approx(50.0), (
        "SSD-300, not the RetinaNet of later rounds"
    )
    assert reference_points("gnmt") == {}
    found = published("v0.7/NVIDIA", "ssd", device_name="A100")
    bare = [replace(row, epochs=None) for row in found]
    assert (epochs_at(1024, bare).epochs, epochs_at(1024, bare).source) == (
        pytest.approx(50.0),
        "RCP",
    )
    assert 50 < epochs_at(1280, bare).epochs < 55
    assert epochs_at(8192, bare) == EpochsEstimate()
    with_other_target = [replace(row, targets={"map": 0.212}) for row in bare]
    assert epochs_at(1024, with_other_target) == EpochsEstimate(), (
        "the epochs of a different target are unknown"
    )
    assert epochs_at(found[0].global_batch_size, found).source == "measured"


def test_the_epochs_of_a_batch_have_the_same_source_in_every_family_of_a_round():
    """Check Mask R-CNN of v3.0 at a batch of 192 images.

    The RCPs yield 15.7 epochs. Interpolation between NVIDIA's measured batches would yield 16.3.
    """
    forecasts = predictions(
        published("v3.0", "maskrcnn"), PredictionRequest((16,), batch_global=192.0)
    )
    rows = [
        row for forecast in forecasts for row in lines(forecast.table) if row.kind == "prediction"
    ]
    assert len(rows) > 10
    assert {row.epochs_source for row in rows} == {"RCP"}
    assert all(row.epochs == pytest.approx(15.7, abs=0.05) for row in rows)


def test_rcps_are_not_used_if_they_contradict_the_measured_epochs():
    """ResNet-50 of v0.6 took 60 epochs, but the RCPs, which are from v1.1, have 35."""
    found = published("v0.6/NVIDIA", "resnet50")
    batches = sorted({row.global_batch_size for row in found if row.epochs})
    estimate = epochs_at(math.sqrt(batches[0] * batches[-1]), found)
    assert estimate.source == "between measured batches"
    assert estimate.epochs > 55


@pytest.mark.slow
def test_intervals_of_the_time_to_target_have_their_nominal_coverage():
    """Predict every published result with epochs from the rest of its family.

    Neither the time nor the epochs of the result are used.
    """
    families = [
        family
        for workload in ("resnet50", "ssd", "maskrcnn")
        for family in comparable_groups(
            [row for row in published_results() if row.workload == workload]
        )
    ]
    inside = []
    for family in families:
        for row in family:
            rest = [candidate for candidate in family if candidate.devices != row.devices]
            if (
                not rest
                or not row.seconds
                or row.global_batch_size < row.devices
                or why_not_by_model(rest)
            ):
                continue
            point = last(
                predict(
                    rest, PredictionRequest((row.devices,), batch_global=row.global_batch_size)
                ),
                row.devices,
            )
            if point is not None and point.seconds is not None:
                inside.append(point.seconds_low <= row.seconds <= point.seconds_high)
    assert len(inside) > 100
    assert 0.85 < sum(inside) / len(inside) < 0.97


@pytest.mark.parametrize(
    ("name", "hardware", "reason"),
    [
        ("v0.7/Google", "TPU v3", "no NVIDIA GPU"),
        ("v0.7/SIAT", "Ascend", "open division"),
        ("v0.6/Fujitsu", "V100", "open division"),
    ],
)
def test_the_law_predicts_no_rows_of_kinds_that_it_was_not_fitted_to(name, hardware, reason):
    found = published(name, "resnet50", device_name=hardware)
    with pytest.raises(ValueError, match=reason):
        predictions(found, PredictionRequest((4096,)))
    assert all(predict_times(group, [4096])[0] == [] for group in comparable_groups(found))


def test_times_for_advice_equal_the_times_of_the_forecast(h100):
    rows, why = predict_times(h100, [16, 512], parse_prices("h100=2"))
    assert why == ""
    expected = [
        row
        for row in lines(predict(h100, PredictionRequest((16, 512))).table)
        if row.kind == "prediction"
    ]
    assert [row.seconds for row in rows] == [row.seconds for row in expected if row.seconds]
    assert all(row.cost_low < row.cost < row.cost_high for row in rows)
    assert predict_times(h100, []) == ([], "")
    ncf = [row for row in published_results() if row.workload == "ncf"][:1]
    assert predict_times(ncf, [64]) == (
        [],
        "there are no published results on several device counts to fit the scaling model to",
    )


def test_rows_with_less_than_a_sample_per_device_are_shown_but_not_used_for_predictions():
    found = published("v1.1/NVIDIA", "maskrcnn", device_name="A100")
    forecast = max(
        predictions(found, PredictionRequest((128,))), key=lambda candidate: len(candidate.table)
    )
    below = forecast.table.to_frame()[
        forecast.table.to_frame()["global_batch_size"] < forecast.table.to_frame()["devices"]
    ]
    assert below[["devices", "kind"]].values.tolist() == [[408, "measured"]]
    without = predict(
        [row for row in forecast.results if row.devices < 408], PredictionRequest((128,))
    )
    with_small_batch, without_small_batch = (
        [row["seconds_per_epoch"] for row in each.table if row["kind"] == "prediction"]
        for each in (forecast, without)
    )
    assert with_small_batch == without_small_batch


def test_forecasts_from_our_logs_use_the_parts_of_a_step(batch_study):
    (forecast,) = predictions(
        read(batch_study / "logs"), PredictionRequest((4, 16), 256.0, system=PCIE, gradients=LINK)
    )
    assert_rates_and_times_agree(forecast)
    step = STEP[0] + STEP[1] * 256
    exposed = 2 * 3 / 4 * 8e6 / 10e9 + 6 * 5.7e-6
    *_, four, sixteen = lines(forecast.table)
    assert four.training_samples_per_second_low == pytest.approx(
        4 * 256 / (step + exposed), rel=1e-4
    )
    inside, between = 2 * 7 / 8 * 8e6 / 10e9 + 14 * 5.7e-6, 2 * 1 / 2 * 8e6 / 2.5e9 + 2 * 14e-6
    assert sixteen.training_samples_per_second_low == pytest.approx(
        16 * 256 / (step + inside + between), rel=1e-4
    )
    assert (sixteen.binds, sixteen.epochs) == ("samples", None)
    small = PredictionRequest((16,), 64.0, system=PCIE, gradients=LINK)
    assert last(predict(forecast.results, small)).binds == "bandwidth between nodes"
    assert "t0 2 ms, c 0.01 ms per sample" in forecast.how
    assert forecast.title == "ncf in pytorch on laptop (demo, cpu)"


@pytest.mark.parametrize(
    "settings", [{"mode": "forward", "stop": "steps:100"}, {"update": "async"}, {"variant": "own"}]
)
def test_runs_that_do_different_work_have_separate_forecasts_and_titles(batch_study, settings):
    write_batches(batch_study, (64, 256), "other", **settings)
    forecasts = predictions(
        read(batch_study / "logs"), PredictionRequest((4,), 256.0, system=PCIE, gradients=LINK)
    )
    assert sorted(len(forecast.results) for forecast in forecasts) == [2, 3]
    first, second = (item.title for item in forecasts)
    assert first != second
    assert all(
        title.startswith("ncf in pytorch on laptop (demo, cpu), ") for title in (first, second)
    )


def test_efficiency_is_relative_to_the_measured_row_with_the_nearest_batch(batch_study):
    found = read(batch_study / "logs")
    for each in (64, 1024):
        row = last(predict(found, PredictionRequest((4,), each, system=PCIE, gradients=LINK)))
        (base,) = (candidate for candidate in found if candidate.global_batch_size == each)
        rates = row.training_samples_per_second / base.samples_per_second / 4
        seconds = base.seconds_per_epoch / row.seconds_per_epoch / 4
        assert row.scaling_efficiency in (pytest.approx(rates), pytest.approx(seconds))


def test_the_fastest_of_equal_devices_and_batch_is_shown_and_far_smaller_batches_are_noted(
    tmp_path, h100
):
    fixed = {"stop": "steps:100", "status": {"status": "success"}, "qualities": (None,)}
    write_batches(tmp_path, (64, 256), **fixed)
    found = [
        replace(row, train_samples=None) for row in read(tmp_path)
    ]  # without times of epochs rates decide
    slower = replace(found[0], samples_per_second=found[0].samples_per_second / 2, precision="fp32")
    forecast = predict([slower, *found], PredictionRequest((4,), system=PCIE, gradients=LINK))
    equal = forecast.table.to_frame()["global_batch_size"] == found[0].global_batch_size
    measured = forecast.table.to_frame()[equal & (forecast.table.to_frame()["kind"] == "measured")]
    assert measured["training_samples_per_second"].tolist() == [found[0].samples_per_second]
    least = min(row.global_batch_size / row.devices for row in h100)
    for share, noted in ((7, False), (9, True)):
        notes = predict(h100, PredictionRequest((512,), least / share)).notes
        assert any("less than an eighth of any measured batch" in note for note in notes) == noted


def test_a_batch_in_tokens_is_not_confused_with_a_number_of_sentences(tmp_path):
    """Rates count sentence pairs, which have 16 tokens each here.

    The batch counts tokens, so the cost c is per token.
    """
    units = {"sample_unit": "sentence pairs", "batch_unit": "tokens", "workload": "transformer"}
    write_batches(tmp_path, (1_024, 4_096), per_sample=16, **units)
    (forecast,) = predictions(
        read(tmp_path / "logs"), PredictionRequest((4,), 2_048.0, system=PCIE, gradients=LINK)
    )
    assert_rates_and_times_agree(forecast)
    assert "t0 2 ms, c 0.01 ms per token" in forecast.how
    step = STEP[0] + STEP[1] * 2_048 + 2 * 3 / 4 * 8e6 / 10e9 + 6 * 5.7e-6
    assert last(forecast).training_samples_per_second_low == pytest.approx(
        4 * 2_048 / 16 / step, rel=1e-4
    )


def test_overlap_comes_from_measured_steps_on_several_devices(batch_study):
    found = read(batch_study / "logs")
    wanted = PredictionRequest((4,), 256.0, system=PCIE, gradients=GradientAllReduceInfo(64e6))
    step = step_time(
        StepFit(*STEP, None, None, 0.0), 256, 2, GradientAllReduceInfo(64e6), PCIE, 0.25
    ).seconds
    two = replace(found[0], devices=2, global_batch_size=512, samples_per_second=512 / step)
    forecast = predict([*found, two], wanted)
    assert "middle: 0.25, fitted to measured steps" in forecast.how
    missed = predict([*found, replace(two, samples_per_second=100 / step)], wanted)
    assert any("far from the measured steps" in note for note in missed.notes)
    low = "training_samples_per_second_low"
    assert getattr(last(missed), low) < getattr(last(forecast), low) / 4, "wider bounds"
    assert "middle: 0.7, assumed" in predict(found, wanted).how


ALPHA, BANDWIDTH = 4e-5, 2e9


def test_a_measured_link_replaces_the_link_of_the_system(batch_study):
    """Predict a step as t0 + c·b + all-reduce of the logged gradients.

    On CPU cores, the all-reduce does not overlap with the backward pass.
    """
    found = read(batch_study / "logs")
    sizes = tuple(
        SizeTimes(size, 20, *[2 * ALPHA + size / BANDWIDTH] * 2) for size in (4e3, 4e6, 4e7)
    )
    (link,) = measured_links(
        [*found, replace(found[0], devices=2, all_reduces=(AllReduceTime(2, sizes),))]
    )
    assert (link.on_cpu, link.devices, link.several_machines) == (True, (2,), False)
    forecast = predict(
        found,
        PredictionRequest(
            (2, 4), 256.0, gradients=GradientAllReduceInfo(8e6, 10, 3), links=(link,)
        ),
    )
    *_, two, four = lines(forecast.table)
    step, bandwidth = STEP[0] + STEP[1] * 256, 8e6 / BANDWIDTH
    assert two.training_samples_per_second == pytest.approx(
        512 / (step + 6 * ALPHA + bandwidth), rel=1e-3
    )
    assert four.training_samples_per_second == pytest.approx(
        1024 / (step + 18 * ALPHA + 1.5 * bandwidth), rel=1e-3
    )
    assert "all-reduces measured on 2 devices: α 40 µs, B 2 GB/s" in forecast.how
    assert "8.0 MB of gradients in 10 tensors, 3 buckets" in forecast.how
    assert any("measured on up to 2 devices" in note for note in forecast.notes)
    dgx1 = find_system("dgx1")
    assert with_link(dgx1, link).inside.bytes_per_second == pytest.approx(BANDWIDTH)
    over = with_link(dgx1, replace(link, several_machines=True))
    assert (over.between.latency_seconds, over.inside) == (pytest.approx(ALPHA), dgx1.inside)
    with pytest.raises(ValueError, match="Set --system"):
        predict(
            found,
            PredictionRequest(
                (2,), links=(replace(link, location=("pytorch", "laptop", "another CPU")),)
            ),
        )


@pytest.mark.parametrize("name", ["ncf", "resnet50", "ssd", "maskrcnn", "gnmt", "transformer"])
def test_gradients_of_published_models_agree_with_the_models_of_the_suite(name):
    # Published GNMT runs use half precision, in which the suite pads the vocabulary.
    half = ["precision=bf16"] if name == "gnmt" else []
    config = composed(f"workload={name}", "profile=synthetic", "device=cpu", *half)
    settings = resolve_settings(config, *load_workload_and_framework(config))
    workload = load_workload_and_framework(config)[0](
        settings, load_workload_and_framework(config)[0].load_dataset_info(settings)
    )
    if name == "ncf":
        shapes = weights.shapes(workload.users, workload.items, settings.model)
    else:
        shapes = importlib.import_module(f"workloads.{name}.network").shapes(workload.network)
    trained = [
        math.prod(shape)
        for parameter, shape in shapes.items()
        if not workload.parameter_rule(parameter).frozen
    ]
    row = published("dgx1-article", "ssd")[0]
    found = gradients_of([replace(row, workload=name)])
    assert found == GradientAllReduceInfo(4.0 * sum(trained), len(trained))


def test_the_command_prints_the_forecast_and_writes_its_files(batch_study):
    arguments = (
        "scaling",
        "logs",
        "--devices",
        "2,64",
        "--system",
        "dgx1",
        "--batch-per-device",
        "256",
    )
    done = suite_here(batch_study, *arguments, exits=0)
    assert "## ncf in pytorch on laptop (demo, cpu)" in done.stdout
    assert done.stdout.count("Not verified by MLCommons Association.") == 1
    assert max(map(len, done.stdout.splitlines())) <= 120
    found = json.loads(suite_here(batch_study, *arguments, "--format", "json").stdout)
    assert [row["kind"] for row in found["rows"]] == ["measured"] * 3 + ["prediction"] * 2
    assert all(row["labels"] == '["cpu", "demo"]' for row in found["rows"])
    suite_here(batch_study, *arguments, "--figures", "figures", exits=0)
    assert sorted(path.suffix for path in (batch_study / "figures").iterdir()) == [
        ".png",
        ".png",
        ".svg",
        ".svg",
    ]


def test_the_validation_is_printed(tmp_path):
    done = suite_here(tmp_path, "scaling", "--validate", "--format", "csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert {"rule", "predicted_from", "error"} <= set(done.stdout.partition("\n")[0].split(","))


@pytest.mark.parametrize(
    ("factor", "note"), [(3.0, ""), (4.5, "t0 is taken as 0"), (0.9, "c is taken as 0")]
)
def test_a_fit_that_would_have_a_negative_cost_is_noted(batch_study, factor, note):
    """Steps with four times the batch take `factor` times as long."""
    small, large, _ = sorted(read(batch_study / "logs"), key=lambda row: row.global_batch_size)
    assert large.global_batch_size == 4 * small.global_batch_size
    slower = replace(large, samples_per_second=4 * small.samples_per_second / factor)
    forecast = predict([small, slower], PredictionRequest((4,), system=PCIE, gradients=LINK))
    assert [note in text for text in forecast.notes if "is taken as 0" in text] == [True] * bool(
        note
    )
