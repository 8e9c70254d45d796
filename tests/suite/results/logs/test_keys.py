"""Classification of logged keys, compared with the rules of all rounds in mlperf-logging."""

import re
from pathlib import Path

import pytest

from suite.results.logs.keys import STRUCTURAL, is_hyperparameter

NO_HYPERPARAMETERS = {
    "train_samples", "eval_samples", "config_filename", "save_model",
    "submission_entry", "submission_poc_name", "actual_selfplay_games_per_generation",
    "averaged_validation_loss", "aggregated_eval_accuracy", "initial_eval_accuracy",
    *(f"{part}_train_{what}" for part in ("epoch", "block") for what in ("throughput", "samples")),
}  # fmt: skip
"""Names in the rules that are counts of data, facts of the submission, or results."""


def test_every_name_in_the_rules_is_structural_a_hyperparameter_or_a_listed_exception():
    from mlperf_logging import compliance_checker

    rules = Path(compliance_checker.__file__).parent.glob("training_*/*.yaml")
    names = {name for path in rules for name in re.findall(r"NAME:\s*(\w+)", path.read_text())}
    assert len(names) > 130
    unclassified = {
        name for name in names - STRUCTURAL if not is_hyperparameter(name, of_this_suite=False)
    }
    assert unclassified == NO_HYPERPARAMETERS & names


MEASURED = (
    "throughput",
    "train_loss",
    "loss",
    "trained_samples",
    "data_file",
    "checkpoint",
    "local",
)
OF_V05 = (
    "model_hp_mf_dim",
    "opt_hp_Adam_beta1",
    "opt_lr",
    "preproc_hp_num_eval",
    "model_l2_regularization",
)


@pytest.mark.parametrize("name", MEASURED + OF_V05)
def test_measurements_are_hyperparameters_only_in_logs_of_this_suite(name):
    assert (is_hyperparameter(name, False), is_hyperparameter(name, True)) == (name in OF_V05, True)
