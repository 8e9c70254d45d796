"""Definition of one experiment: `key`, `same`, `differences`, and `settings_difference` agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results import experiment_key
from suite.results.experiment_key import EPOCH_TIME, EPOCHS, THROUGHPUT, TIME, key, same
from suite.results.scores import results_of
from suite.results.settings_difference import settings_difference
from tests.helpers import examples
from tests.suite.results.rows import make_runs

RATE = "opt_base_learning_rate"
VALUES = {
    **{
        "precision": ["fp32", "bf16"],
        "global_batch_size": [512, 4096],
        "devices": [1, 2],
        "framework": ["a", "b"],
    },
    **{
        "targets": [{"hr_at_10": 0.5}, {"hr_at_10": 0.635}],
        "seed": [1, 2],
        "stop": ["target", "epochs:1"],
    },
    "environment_variables": [{}, {"XLA_FLAGS": "--a"}, {"XLA_FLAGS": "--a", "TF_X": "1"}],
    "hyperparameters": [
        {"opt_base_learning_rate": rate, "global_batch_size": 1} for rate in (0.002, 0.006)
    ],
}
settings = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})
rows = settings.map(lambda changed: make_runs(**changed)[0])
ignored_settings = st.lists(
    st.sampled_from(["gpus", "batch", "precision", "framework", "workload.target"]), unique=True
)


@examples(200)
@given(rows, rows, ignored_settings)
def test_same_differences_key_and_labels_agree(first_run, second_run, ignored):
    alike = same(first_run, second_run, *ignored)
    assert (
        alike
        == (key(first_run, *ignored) == key(second_run, *ignored))
        == same(second_run, first_run, *ignored)
    )
    found = experiment_key.differences(first_run, second_run, *ignored)
    difference = settings_difference((first_run, second_run), *ignored)
    assert alike == (not found) == (not difference.columns)
    assert set(found) <= set(difference.columns)
    first, second = difference.labels()
    assert alike == (first == second) == (first == "" == second)
    assert alike or all(experiment_key.label(name) in first for name in found)


@pytest.mark.parametrize(("round", "alike"), [("v4.0", True), ("not known", False)])
def test_results_of_unknown_rounds_are_not_one_experiment(round, alike):
    common = {"profile": "", "round": round, "submitter": "A"}
    small, large = (
        make_runs(count, folder=f"/{count}", system=f"n{count}", **common)[0] for count in (8, 64)
    )
    assert same(small, large, "gpus") == alike


def test_values_as_text_contain_no_python_literals():
    (run,) = make_runs(targets={"hr_at_10": 0.5})
    assert [experiment_key.value_text("devices", value) for value in (None, 8192, "")] == [
        "none",
        "8,192",
        "none",
    ]
    assert "{" not in "".join(
        experiment_key.value_text(name, getattr(run, name), run) for name in experiment_key.FIELDS
    )


@pytest.mark.parametrize(
    ("changed", "refused", "reason"),
    [
        ({"mode": "forward"}, {TIME, EPOCHS, EPOCH_TIME, THROUGHPUT},
         "mode train and mode forward do different work"),
        ({"to_target": False}, {TIME, EPOCHS, EPOCH_TIME},
         "the second has a fixed length and no target"),
        ({"dataset": "ml-1m"}, {TIME, EPOCHS, EPOCH_TIME},
         "trained on different data sets (ml-20m and ml-1m)"),
        ({"targets": {"hr_at_10": 0.5}}, {TIME, EPOCHS},
         "trained to different targets (hit rate at 10 ≥ 0.635 and hit rate at 10 ≥ 0.5)"),
        ({"sample_unit": "tokens"}, {THROUGHPUT}, "throughput counts pairs and tokens"),
        *(({name: "x"}, set(), "")
          for name in ("framework", "precision", "system", "clock", "sample_unit")),
        # An unknown value is not a difference.
        *(({"dataset": ""}, set(), ""), ({"targets": {}}, set(), "")),
    ],
)  # fmt: skip
def test_ratios_are_refused_for_different_work_data_targets_or_units(changed, refused, reason):
    first, second = (
        make_runs(**{"dataset": "ml-20m", "sample_unit": "pairs", **settings})[0]
        for settings in ({}, changed)
    )
    found = [*experiment_key.refusals(first, second)]
    assert {quantity for refusal in found for quantity in refusal.quantities} == refused
    assert next((refusal.text for refusal in found), "").startswith(reason)
    assert bool(found) == bool(reason)


@pytest.mark.parametrize(
    ("rate", "targets", "results"), [({}, {}, 1), ({RATE: 0.5}, {"hr_at_10": 0.635}, 2)]
)
def test_a_run_that_failed_early_counts_for_the_only_result_that_it_fits(rate, targets, results):
    failed = make_runs(1, [(None, None)], hyperparameters=rate, targets=targets, succeeded=False)
    assert len(results_of([*failed, *make_runs()])) == results
    assert len(results_of([*make_runs(), *failed])) == results
    further = make_runs(hyperparameters={"opt_base_learning_rate": 0.9})
    assert len(results_of([*make_runs(), *further, *failed])) == 3
