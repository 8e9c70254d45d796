"""Differences in the settings of results: columns, common values, and labels of minimal length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results.settings_difference import distinct_labels, named_apart, settings_difference
from tests.helpers import examples
from tests.suite.results.rows import make_result, make_runs

RATE = "opt_base_learning_rate"


@pytest.mark.parametrize(
    ("changed", "ignored", "phrases"),
    [
        ({"seed": 2}, (), []),
        ({"hyperparameters": {RATE: 0.002}}, (), ["learning rate 0.001 and 0.002"]),
        (
            {"targets": {"hr_at_10": 0.5}},
            (),
            ["target hit rate at 10 ≥ 0.635 and hit rate at 10 ≥ 0.5"],
        ),
        ({"devices": 2, "global_batch_size": 8192}, ("gpus",), []),
        ({"global_batch_size": 512, "batch_rule": "global:512"}, ("batch",), []),
        ({"global_batch_size": 512}, (), ["global batch 4,096 and 512"]),
        ({"environment_variables": {"XLA_FLAGS": "--a"}}, (), ["XLA_FLAGS none and --a"]),
        ({"environment_variables": {"CUDA_VISIBLE_DEVICES": "3"}}, (), []),
        ({"labels": ("demo", "special"), "precision": "bf16"}, (), ["precision fp32 and bf16"]),
    ],
)
def test_phrases_of_two_runs(changed, ignored, phrases):
    (first,), (second,) = make_runs(), make_runs(**changed)
    assert settings_difference((first, second), *ignored).without_derived().phrases() == phrases


def test_columns_and_common_values_are_separate():
    results = [make_result(devices, global_batch_size=4096 * devices) for devices in (1, 2, 4)]
    found = settings_difference(results)
    assert found.columns == {"devices": (1, 2, 4), "global_batch_size": (4096, 8192, 16384)}
    assert found.common["framework"] == "pytorch"
    assert not {"devices", "global_batch_size"} & set(found.common)
    assert set(found.without({"devices"}).columns) == {"global_batch_size"}
    assert set(found.only({"devices"}).columns) == {"devices"}


def test_a_setting_that_a_log_does_not_contain_is_unknown():
    results = [
        make_result(hyperparameters={RATE: 0.1}),
        make_result(hyperparameters={RATE: 0.1, "opt_name": "sgd"}),
    ]
    found = settings_difference(results)
    assert found.columns == {"hyperparameters.opt_name": (None, "sgd")}
    assert found.known().columns == {}


def test_labels_name_only_the_settings_that_distinguish_results():
    """Only the first two results need a learning rate: the batch size distinguishes the rest."""
    settings = ((4096, 0.004), (4096, 0.008), (512, 0.0005))
    results = [
        make_result(global_batch_size=batch, hyperparameters={RATE: rate})
        for batch, rate in settings
    ]
    names = ("global batch 4,096, learning rate 0.004", "global batch 4,096, learning rate 0.008")
    assert distinct_labels(results) == [*names, "global batch 512, learning rate 0.0005"]
    of_batches = [
        make_result(global_batch_size=batch, hyperparameters={RATE: rate})
        for batch, rate in settings[1:]
    ]
    assert distinct_labels(of_batches) == ["global batch 4,096", "global batch 512"]
    assert distinct_labels(results[:1]) == [""]


def test_labels_of_differently_named_results_show_only_settings_that_are_always_shown():
    results = [
        make_result(framework=name, precision=precision)
        for name, precision in (("a", "fp32"), ("b", "fp16"))
    ]
    assert distinct_labels(results, ["a", "b"]) == ["", ""]
    assert distinct_labels(results, ["a", "b"], always=("precision",)) == [
        "precision fp32",
        "precision fp16",
    ]
    assert named_apart(results, ["x", "x"], shown=("framework",)) == [
        "x, precision fp32",
        "x, precision fp16",
    ]


def test_exceptions_label_only_the_results_that_deviate_from_the_majority():
    results = [
        make_result(devices, precision=precision)
        for devices, precision in ((1, "fp32"), (2, "fp32"), (4, "bf16"))
    ]
    difference = settings_difference(results).without({"devices"})
    assert difference.labels(exceptions=True) == ["", "", "precision bf16"]
    assert difference.labels() == ["precision fp32", "precision fp32", "precision bf16"]


def test_only_labels_that_differ_are_named():
    results = [
        make_result(labels=("demo", "cpu")),
        make_result(labels=("demo", "cpu", "oversubscribed")),
    ]
    assert distinct_labels(results) == ["", "labels oversubscribed"]


def test_long_values_stay_different():
    runs = [make_runs(framework="x" * 100 + end)[0] for end in "ab"]
    assert len(set(distinct_labels(runs))) == 2


@examples(100)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([512, 4096]), st.sampled_from([0.1, 0.2, 0.3]), st.sampled_from("ab")
        ),
        min_size=2,
    )
)
def test_labels_are_equal_exactly_for_equal_settings(settings):
    results = [
        make_result(global_batch_size=batch, hyperparameters={RATE: rate}, framework=name)
        for batch, rate, name in settings
    ]
    labels = distinct_labels(results)
    for label, setting in zip(labels, settings, strict=True):
        alike = [
            candidate for candidate, its in zip(labels, settings, strict=True) if its == setting
        ]
        assert alike == [label] * len(alike)
    assert len(set(labels)) == len(set(settings))
