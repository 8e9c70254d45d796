"""Validation of the scaling law on published results: rows, errors, and acceptance limits."""

from dataclasses import replace

import pandas as pd
import pytest

from suite.results.experiment_key import key
from suite.results.names import short_title
from suite.results.predict import scaling_model
from suite.results.predict.validate import PROTOCOLS, errors, held_out, select, validate
from suite.results.scores import find_published, published_results
from tests.helpers import PROJECT

ROW, SMALLEST, NEAR, FAR, NEW, NEW_FAR = PROTOCOLS


@pytest.fixture(scope="module")
def validation():
    return validate()


def figure(held, protocol, name="median_error", rule="scaling model"):
    return errors(select(held, protocol, rule))[name]


def test_families_agree_with_the_experiment_key():
    families, left_out = scaling_model.published_families()
    covered = [row for row in published_results() if row.workload in scaling_model.WORKLOADS]
    assert sum(map(len, families)) + sum(left_out.values()) == len(covered)
    by_name = {(row.run, row.workload, row.devices): key(row, "gpus", "batch") for row in covered}
    for family in families:
        counts = [row.devices for row in family]
        assert counts == sorted(set(counts))
        if family[0].round != "dgx1-article":
            assert len({by_name[row.name, row.workload, row.devices] for row in family}) == 1


@pytest.mark.parametrize(
    ("hardware", "reason"),
    [
        *((name, "") for name in ("A100-SXM4-40GB", "GeForce RTX 3090")),
        *((name, "no NVIDIA GPU") for name in ("TPU v3", "tpu-v100000", "AMD MI300X")),
    ],
)
def test_an_nvidia_gpu_is_recognized_without_the_vendor_name(hardware, reason):
    row = next(row for row in find_published("v0.7/NVIDIA") if row.workload == "resnet50")
    changed = replace(row, device_name=hardware)
    assert scaling_model.why_not_covered(changed) == reason
    assert scaling_model.why_not_covered(replace(changed, division="open")) == "open division"


def test_the_law_meets_the_acceptance_limits_and_perfect_scaling_fails_them(validation):
    assert validation.bars["met"].all()
    linear = validation.held[validation.held["rule"] == "perfect scaling"].assign(
        rule="scaling model"
    )
    rest = validation.held[validation.held["rule"] != "scaling model"]
    failing = replace(validation, held=pd.concat([linear, rest])).bars
    assert not failing.loc[failing["bar"].str.contains("error|percentile"), "met"][:5].any()


def test_intervals_have_their_nominal_coverage(validation):
    assert round(validation.factor, 2) == scaling_model.INTERVAL_FACTOR
    near = validation.held[validation.held["predicted_from"] != "new machine"]
    inside = near.loc[near["rule"] == "scaling model", "width"] <= validation.factor
    assert inside.mean() == pytest.approx(scaling_model.LEVEL, abs=0.005)


def test_errors_of_the_law_and_of_perfect_scaling_near_and_far(validation):
    """Compare the errors of both rules with the limits for near, far, and new systems.

    For near device counts, the error of perfect scaling is a few percent. For far device counts, it
    is tens of percent and more than four times the error of the law. For a new machine, the 90th
    percentile of the law's error is below 28 %.
    """
    held = validation.held
    assert figure(held, NEAR, rule="perfect scaling") < 0.07
    assert figure(held, FAR, rule="perfect scaling") > 4 * figure(held, FAR)
    assert figure(held, SMALLEST, "p90_error") < figure(held, NEW, "p90_error") < 0.28
    assert figure(held, NEW_FAR, "p90_error") < 0.36
    later = validation.later
    assert figure(later, ROW) < 0.045
    assert set(later["round"]) == {"v2.1", "v3.0", "v3.1", "v4.0"}
    assert figure(later, FAR) < 0.06
    assert figure(later, FAR, rule="perfect scaling") > 0.3
    assert abs(figure(later, NEAR) - figure(later, NEAR, rule="perfect scaling")) < 0.01


def test_a_new_machine_is_predicted_without_data_of_its_submitter():
    """Fit only families of the submitter of the new machine, and then no families at all.

    Both predictions must be equal, because the families of the submitter are excluded.
    """
    families = scaling_model.families_of_workload(scaling_model.published_families()[0], "resnet50")
    chosen = [family for family in families if family[0].submitter == "NVIDIA"]
    unknown, empty = (held_out(chosen[:1], fitted) for fitted in (chosen, []))
    assert list(select(unknown, NEW)["error"]) == pytest.approx(
        list(select(empty, SMALLEST)["error"])
    )


def test_the_model_holds_on_the_workloads_of_later_rounds(validation):
    """The constants of the model were chosen on earlier workloads alone."""
    held = validation.later_workloads
    assert set(held["workload"]) == {*scaling_model.LATER_WORKLOADS}
    assert figure(held, ROW) < 0.04
    assert figure(held, ROW, "p90_error") < 0.20
    assert figure(held, SMALLEST) < 0.06
    for protocol in (ROW, SMALLEST, FAR):
        assert figure(held, protocol) < figure(held, protocol, rule="perfect scaling") / 2
        assert figure(held, protocol) < figure(held, protocol, rule="power of devices")
    inaccurate = {
        workload
        for workload in scaling_model.LATER_WORKLOADS
        if figure(held[held["workload"] == workload], ROW) > 0.1
    }
    assert inaccurate == {"dlrm_dcnv2", "rgat"}


@pytest.mark.parametrize("workload", scaling_model.LATER_WORKLOADS)
def test_intervals_of_later_workloads_contain_their_share_of_results(validation, workload):
    held = validation.later_workloads
    rows = held[
        (held["workload"] == workload)
        & (held["rule"] == "scaling model")
        & (held["predicted_from"] != "new machine")
    ]
    needed = rows["width"].quantile(scaling_model.LEVEL)
    chosen = scaling_model.LATER_INTERVAL_FACTORS.get(workload, scaling_model.INTERVAL_FACTOR)
    assert needed <= chosen
    if workload in scaling_model.LATER_INTERVAL_FACTORS:
        assert chosen == pytest.approx(needed, abs=0.02)
    assert scaling_model.published_model(workload).interval_factor == chosen


def test_the_page_on_validation_has_the_figures_of_later_workloads(validation):
    page = (PROJECT / "docs" / "dev" / "scaling_validation.md").read_text(encoding="utf-8")
    for workload in scaling_model.LATER_WORKLOADS:
        cells = [short_title(workload)]
        for protocol in (ROW, SMALLEST):
            held = validation.later_workloads
            rows = held[held["workload"] == workload]
            model, linear = (
                errors(select(rows, protocol, rule))
                for rule in ("scaling model", "perfect scaling")
            )
            cells += [
                str(model["rows"]),
                f"{100 * model['median_error']:.1f} / {100 * model['p90_error']:.0f}",
                f"{100 * linear['median_error']:.1f}",
                f"{100 * validation.later_coverage(workload, protocol):.0f} %",
            ]
        assert f"| {' | '.join(cells)} |" in page
