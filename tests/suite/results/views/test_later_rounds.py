"""Comparison, prediction, and advice for published results of v4.1 to v5.1.

Their workloads have no class in the suite.
"""

import math

import pytest

from suite.results.predict.epochs_to_target import reference_points
from suite.results.predict.predictions import PredictionRequest, predictions
from suite.results.predict.systems import (
    accelerators_without_links,
    bf16_peaks,
    find_system,
    systems,
)
from suite.results.price import parse_prices
from suite.results.render.document import document
from suite.results.scores import measured, published_results
from suite.results.targets import epoch_unit
from suite.results.views.advise_view import advise
from suite.results.views.compare_sides import published_side
from suite.results.views.compare_view import compare
from suite.results.views.scaling_view import scaling_view
from tests.helpers import PROJECT, one_line, suite_here

WORKLOADS = ("llama31_8b", "llama2_70b_lora", "retinanet", "flux1", "rgat", "dlrm_dcnv2")


def of_submitter(workload, name="v5.1/NVIDIA"):
    return measured([], [name], workload)


def compared(first, second, workload):
    sides = (
        published_side(name, "AB"[index], [workload]) for index, name in enumerate((first, second))
    )
    return compare(*sides, published_results())


@pytest.mark.parametrize("workload", WORKLOADS)
def test_two_submitters_are_compared(workload):
    view = compared("v5.1/NVIDIA", "v5.1/Dell", workload)
    unit = epoch_unit(workload)
    ratios = [row for row in view.data if row["kind"] == "ratio"]
    if workload != "flux1":  # Dell has no result of it.
        assert {"time to target", "time per epoch", "epochs to target"} <= {
            row["quantity"] for row in ratios
        }
        counts = [row for row in ratios if row["quantity"] == "epochs to target"]
        assert {row["unit"] for row in counts} == {unit}
        assert f"{unit} to target" in document(view)


def test_the_side_with_fewer_samples_and_the_lower_loss_is_the_better_side():
    names = ("v5.1/NVIDIA/theia_ngpu512_ngc25.09_nemo", "v5.1/NVIDIA/tyche_ngpu512_ngc25.09_nemo")
    view = compared(*names, "llama31_8b")
    by_quantity = {row["quantity"]: row for row in view.data if row["kind"] == "ratio"}
    counts = by_quantity["epochs to target"]
    assert counts["ratio"] == pytest.approx(counts["theirs_value"] / counts["ours_value"])
    total = by_quantity["time to target"]["ratio"]
    assert total == pytest.approx(by_quantity["time per epoch"]["ratio"] * counts["ratio"])


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_workload_is_predicted_within_its_published_device_counts(workload):
    results = of_submitter(workload)
    view = scaling_view(predictions(results, PredictionRequest((8, 16, 32, 64))))
    rows = [row for row in view.data if row["kind"] == "prediction"]
    assert rows
    for row in rows:
        assert (
            row["seconds_per_epoch_low"] < row["seconds_per_epoch"] < row["seconds_per_epoch_high"]
        )
        if row["seconds"]:
            time = row["epochs"] * row["seconds_per_epoch"] + row["seconds_outside_epochs"]
            assert row["seconds"] == pytest.approx(time)
    text = document(view)
    if epoch_unit(workload) == "samples":
        assert "samples to target" in text
        assert "| time per epoch |" not in text
        for row in view.data:
            rate = row["samples_per_second"]
            assert rate == pytest.approx(1 / row["seconds_per_epoch"])
            assert rate <= 1.01 * (row["training_samples_per_second"] or math.inf)


def test_several_devices_share_a_sample_in_language_models_alone():
    [prediction, *_] = predictions(
        of_submitter("llama31_8b"), PredictionRequest((256,), batch_global=64)
    )
    assert [row.devices for row in prediction.rows if row.kind == "prediction"] == [256]
    with pytest.raises(ValueError, match="less than a sample for each of 256 devices"):
        predictions(of_submitter("retinanet"), PredictionRequest((256,), batch_global=64))


def test_reference_points_have_the_units_of_the_published_results():
    for workload in WORKLOADS:
        points = reference_points(workload)
        epochs = [result.epochs for result in of_submitter(workload) if result.epochs]
        assert min(points.values()) / 3 < min(epochs)
        assert max(epochs) < 3 * max(points.values())
    # Mean of the 20 reference runs at batch 32.
    assert reference_points("llama31_8b")[32.0] == pytest.approx(179_404.8)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_advice_is_given(workload):
    view = advise(of_submitter(workload), prices=parse_prices("6"))
    assert [row for row in view.data if row["kind"] == "measured"]


def test_amd_gpus_are_not_predicted_and_the_message_says_why():
    results = of_submitter("llama2_70b_lora", "v5.1/AMD")
    with pytest.raises(ValueError, match=one_line("no NVIDIA GPU")):
        predictions(results, PredictionRequest((16,)))


def test_the_command_before_renting_a_machine(tmp_path):
    options = ("--workload", "llama31_8b", "--devices", "8,16,64", "--price-per-device-hour", "6")
    done = suite_here(tmp_path, "scaling", "--published", "v5.1/Oracle", *options)
    assert done.returncode == 0, done.stderr
    assert "log perplexity ≤ 3.3" in done.stdout
    page = (PROJECT / "docs/how-to/predict_time_and_cost.md").read_text(encoding="utf-8")
    shown = page.partition("```text\n")[2].partition("```")[0].splitlines()
    for line in shown:
        assert line == "…" or line in done.stdout.splitlines()
    assert len(shown) > 5


@pytest.mark.parametrize("name", sorted(accelerators_without_links()))
def test_a_system_without_a_known_bandwidth_is_refused(name):
    assert name not in systems()
    with pytest.raises(ValueError, match=one_line("Set --system FILE")):
        find_system(name)


def test_peaks_are_known_for_published_accelerators_and_unknown_for_one():
    assert bf16_peaks()["B200"] == 2.25e15
    assert bf16_peaks()["H200 NVL"] == 8.35e14
    assert "MI350X" not in bf16_peaks()
    assert {*bf16_peaks()} <= {*accelerators_without_links().values()}
