"""Scaling law: recovery of its constants, intervals, and likelihood of the fixed constants."""

import csv
import math
from dataclasses import replace

import numpy as np
import pytest

from suite.results.predict import scaling_model
from suite.results.predict.scaling_model import Observation, ScalingModel
from suite.results.published_results import SHIPPED


def exact_family(rate, b_half, exponent, rows):
    seconds = [(n, b, rate * (1 + b_half / b) * n**exponent / n) for n, b in rows]
    return tuple(Observation("resnet50", *point, name=f"made {rate}") for point in seconds)


ROWS = ((8, 400.0), (16, 200.0), (64, 50.0), (512, 40.0))


def test_constants_are_recovered_and_predict_from_the_smallest_row_alone():
    b_half, exponent = float(scaling_model.MODEL_GRID.b_half[30 * 21]), 0.05
    fit = ScalingModel(
        [
            exact_family(rate, b_half, exponent, ROWS)
            for rate in (100.0, 250.0, 900.0, 950.0, 7.0, 8.0)
        ]
    )
    assert fit.constants == pytest.approx((b_half, exponent))
    new = exact_family(3.0, b_half, exponent, ROWS)
    for row in new[1:]:
        assert math.exp(fit.predict(new[:1], row).center) == pytest.approx(
            row.device_seconds, rel=0.02
        )


def test_resubmitted_logs_count_once_even_without_a_note(monkeypatch):
    with (SHIPPED / "results.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    entries = {f"{row['round']} {row['submitter']}/{row['system']}" for row in rows}
    named = {row["first_entry"] for row in rows} - {""}
    assert sum(bool(row["first_entry"]) for row in rows) == 42 + 27
    assert named <= entries
    families, left_out = scaling_model.published_families()
    # 27 results are of later workloads. One result is left out for a different reason: it is not on
    # NVIDIA GPUs.
    assert left_out["logs of an earlier round again"] == 41
    results = scaling_model.published_results((SHIPPED,))
    monkeypatch.setattr(
        scaling_model,
        "published_results",
        lambda folders: [replace(row, note="") for row in results],
    )
    assert scaling_model.published_families() == (families, left_out)


def test_the_measured_time_of_a_predicted_row_is_not_used():
    family = exact_family(100.0, 30.0, 0.02, ROWS)
    fit = ScalingModel([family, exact_family(50.0, 30.0, 0.02, ROWS)])
    wrong = Observation("resnet50", 64, 50.0, 1e9)
    prediction, prediction_with_wrong_time = (
        fit.predict(family[:2], row, without=[family]) for row in (family[2], wrong)
    )
    assert prediction == prediction_with_wrong_time


def test_an_excluded_family_has_no_influence():
    families = [exact_family(100.0, 30.0, 0.02, ROWS), exact_family(50.0, 3.0, 0.2, ROWS)]
    forgotten = ScalingModel(families).predict(
        families[0][:1], families[0][3], without=families[1:]
    )
    never_seen = ScalingModel(families[:1]).predict(families[0][:1], families[0][3])
    assert forgotten.center == pytest.approx(never_seen.center)
    assert ScalingModel(families).predict(families[0][:1], families[0][3]).center != pytest.approx(
        never_seen.center, abs=1e-3
    )


def test_intervals_grow_with_the_distance():
    fit = ScalingModel([exact_family(rate, 30.0, 0.02, ROWS) for rate in (100.0, 250.0, 900.0)])
    measured = exact_family(100.0, 30.0, 0.02, ROWS)[:1]
    places = ((16, 400.0), (64, 100.0), (512, 12.0))
    found = [fit.predict(measured, Observation("resnet50", n, b, 1.0)) for n, b in places]
    assert found == sorted(found, key=lambda prediction: prediction.spread)
    middle, low, high = found[1].seconds_per_epoch(64)
    assert low < middle < high
    assert math.log(high / middle) == pytest.approx(scaling_model.INTERVAL_FACTOR * found[1].spread)


def test_the_linear_grid_predicts_perfect_scaling():
    fit = ScalingModel([], scaling_model.LINEAR_GRID)
    row = Observation("resnet50", 8, 64.0, 10.0)
    assert math.exp(
        fit.predict([row], Observation("resnet50", 80, 8.0, 1.0)).center
    ) == pytest.approx(80.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spread", 0.025),
        ("spread", 0.035),
        ("drift", 3),
        ("drift", 5),
        ("freedom", 2),
        ("freedom", 4),
    ],
)
def test_the_fixed_constants_are_the_likeliest_for_the_rounds_that_they_were_chosen_on(name, value):
    families = [
        family
        for family in scaling_model.published_families()[0]
        if family[0].round in scaling_model.CONSTANTS_UP_TO
    ]
    of_workloads = [
        scaling_model.families_of_workload(families, workload)
        for workload in scaling_model.WORKLOADS
    ]
    chosen, neighbour = (
        sum(
            math.log(
                np.exp(
                    ScalingModel(families_of_one, scaling_model.MODEL_GRID, **changed)._total
                ).mean()
            )
            for families_of_one in of_workloads
        )
        for changed in ({}, {name: value})
    )
    assert neighbour < chosen
