"""Tests of names of earlier versions."""

import pytest

from suite.catalog.former_names import current_name, current_run_file, current_settings


@pytest.mark.parametrize(
    ("former", "current"),
    [
        ({"link": "no_p2p"}, {"transport": "no_p2p"}),
        ({"batch_rule": "set"}, {"batch_rule": "default"}),
        ({"batch_rule": "global:8"}, {"batch_rule": "global:8"}),
        ({"options": {"device_draws": "on"}}, {"options": {"sample_on_device": "on"}}),
        (
            {"hyperparameters": {"momentum_rate": "inside"}},
            {"hyperparameters": {"lr_in_momentum": True}},
        ),
        ({"timing_each": "stretch"}, {"timing_each": "interval"}),
        ({"seed": 1}, {"seed": 1}),
    ],
)  # fmt: skip
def test_settings_of_earlier_versions_get_current_names_and_values(former, current):
    assert current_settings(former) == current
    assert current_settings(current) == current  # files of this version stay unchanged


def test_run_file_of_earlier_version_gets_current_keys():
    assert current_run_file({"typed": ["gpus=2"], "settings": {"link": "auto"}}) == {
        "overrides": ["gpus=2"],
        "settings": {"transport": "auto"},
    }


def test_open_reason_names_the_current_setting():
    assert (current_name("batch_size_global"), current_name("seed")) == (
        "global_batch_size",
        "seed",
    )
