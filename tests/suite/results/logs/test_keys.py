"""Which logged keys are hyperparameters: held against the rules of all rounds that mlperf-logging
has.
"""

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
"""Names in the rules that count data, say who submitted, or are results."""


def test_every_name_in_the_rules_of_all_rounds_is_one_or_the_other():
    from mlperf_logging import compliance_checker

    rules = Path(compliance_checker.__file__).parent.glob("training_*/*.yaml")
    names = {name for path in rules for name in re.findall(r"NAME:\s*(\w+)", path.read_text())}
    assert len(names) > 130
    others = {
        name for name in names - STRUCTURAL if not is_hyperparameter(name, of_this_suite=False)
    }
    assert others == NO_HYPERPARAMETERS & names


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
def test_what_other_programs_measure_is_none_and_what_ours_log_is(name):
    assert (is_hyperparameter(name, False), is_hyperparameter(name, True)) == (name in OF_V05, True)
