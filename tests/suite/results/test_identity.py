"""What makes two runs the same experiment: `key`, `same`, `differences` and `own_words` agree with each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.results import identity
from suite.results.identity import EPOCH_TIME, EPOCHS, THROUGHPUT, TIME, key, same
from suite.results.scores import results_of
from tests.helpers import examples
from tests.suite.results.rows import make_runs

RATE = "opt_base_learning_rate"
VALUES = {
    **{"precision": ["fp32", "bf16"], "batch_size_global": [512, 4096], "devices": [1, 2], "framework": ["a", "b"]},
    **{"targets": [{"hr_at_10": 0.5}, {"hr_at_10": 0.635}], "seed": [1, 2], "stop": ["target", "epochs:1"]},
    "environment_variables": [{}, {"XLA_FLAGS": "--a"}, {"XLA_FLAGS": "--a", "TF_X": "1"}],
    "hyperparameters": [{"opt_base_learning_rate": rate, "global_batch_size": 1} for rate in (0.002, 0.006)],
}
settings = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})
rows = settings.map(lambda changed: make_runs(**changed)[0])
asides = st.lists(st.sampled_from(["gpus", "batch", "precision", "framework", "workload.target"]), unique=True)


@examples(200)
@given(rows, rows, asides)
def test_same_differences_key_and_words_agree(one, other, aside):
    alike = same(one, other, *aside)
    assert alike == (key(one, *aside) == key(other, *aside)) == same(other, one, *aside)
    found = identity.differences(one, other, *aside)
    assert alike == (not found) == (identity.differences_text(one, other, *aside) == "")
    first, second = identity.own_words([one, other], *aside)
    assert alike == (first == second) == (first == "" == second)
    assert alike or all(identity.label(name) in first for name in found)


@pytest.mark.parametrize(
    ("changed", "aside", "words"),
    [
        ({"seed": 2}, (), ""),
        ({"hyperparameters": {"opt_base_learning_rate": 0.002}}, (), "learning rate 0.001 and 0.002"),
        ({"targets": {"hr_at_10": 0.5}}, (), "target hit rate at 10 ≥ 0.635 and hit rate at 10 ≥ 0.5"),
        ({"devices": 2, "batch_size_global": 8192}, ("gpus",), ""),
        ({"batch_size_global": 512, "batch_rule": "global:512"}, ("batch",), ""),
        ({"batch_size_global": 512}, (), "global batch 4,096 and 512"),
        ({"labels": ("demo", "own")}, (), "labels demo and demo; own"),
        ({"environment_variables": {"XLA_FLAGS": "--a"}}, (), "XLA_FLAGS none and --a"),
        ({"environment_variables": {"CUDA_VISIBLE_DEVICES": "3"}}, (), ""),
        ({"labels": ("demo", "own"), "precision": "bf16"}, (), "precision fp32 and bf16"),
    ],
)
def test_differences_in_words(changed, aside, words):
    (one,), (other,) = make_runs(), make_runs(**changed)
    assert identity.differences_text(one, other, *aside) == words


@pytest.mark.parametrize(("round", "alike"), [("v4.0", True), ("not known", False)])
def test_folders_of_rounds_that_are_not_known_are_no_series(round, alike):
    common = {"profile": "", "round": round, "submitter": "A"}
    one, other = (make_runs(count, folder=f"/{count}", system=f"n{count}", **common)[0] for count in (8, 64))
    assert same(one, other, "gpus") == alike


def test_what_rows_without_words_have_is_said_once():
    usual, faster = ({"opt_base_learning_rate": rate} for rate in (0.001, 0.002))
    rows = [make_runs(devices=count, hyperparameters=rate)[0] for count, rate in ((1, usual), (2, usual), (4, faster))]
    words = identity.distinguishing_words(rows, [1, 1, 1], ["devices"])
    assert words == ["", "", "learning rate 0.002"]
    assert identity.usual_words(rows, words, ["devices"]) == "learning rate 0.001"
    assert identity.usual_words(rows[:2], words[:2], ["devices"]) == ""


def test_words_never_print_what_a_program_would():
    every = [make_runs(targets={"hr_at_10": one})[0] for one in (0.5, 0.55)]
    assert identity.own_words(every) == ["target hit rate at 10 ≥ 0.5", "target hit rate at 10 ≥ 0.55"]
    assert identity.own_words(every[:1]) == [""]
    assert len(set(identity.own_words([make_runs(framework="x" * 100 + end)[0] for end in "ab"]))) == 2
    assert [identity.value_text("devices", one) for one in (None, 8192, "")] == ["none", "8,192", "none"]
    assert "{" not in "".join(identity.value_text(name, getattr(every[0], name), every[0]) for name in identity.FIELDS)


@pytest.mark.parametrize(
    ("changed", "refused", "reason"),
    [
        ({"mode": "forward"}, {TIME, EPOCHS, EPOCH_TIME, THROUGHPUT}, "mode train does other work than mode forward"),
        ({"to_target": False}, {TIME, EPOCHS, EPOCH_TIME},
         "theirs is a run of fixed length: there is a throughput only"),
        ({"dataset": "ml-1m"}, {TIME, EPOCHS, EPOCH_TIME}, "trained on another data set: ml-20m against ml-1m"),
        ({"targets": {"hr_at_10": 0.5}}, {TIME, EPOCHS},
         "trained to another target: hit rate at 10 ≥ 0.635 against hit rate at 10 ≥ 0.5"),
        ({"sample_unit": "tokens"}, {THROUGHPUT}, "samples are pairs against tokens"),
        *(({name: "x"}, set(), "") for name in ("framework", "precision", "system", "clock", "sample_unit")),
        *(({"dataset": ""}, set(), ""), ({"targets": {}}, set(), "")),  # not known is no difference
    ],
)  # fmt: skip
def test_what_makes_a_ratio_meaningless(changed, refused, reason):
    one, other = (make_runs(**{"dataset": "ml-20m", "sample_unit": "pairs", **own})[0] for own in ({}, changed))
    found = [*identity.refusals(one, other)]
    assert {quantity for quantities, _ in found for quantity in quantities} == refused
    assert next((text for _, text in found), "") == reason


def test_runs_of_another_batch_are_called_by_it_and_not_by_the_rate_that_follows_from_it():
    settings = ((4096, 0.004), (4096, 0.008), (512, 0.0005))
    rows = [make_runs(batch_size_global=batch, hyperparameters={RATE: rate})[0] for batch, rate in settings]
    different = ["learning rate 0.004", "learning rate 0.008", "global batch 512, learning rate 0.0005"]
    assert identity.own_words(rows, fewest=True) == different


@pytest.mark.parametrize(("rate", "targets", "results"), [({}, {}, 1), ({RATE: 0.5}, {"hr_at_10": 0.635}, 2)])
def test_a_run_that_failed_early_counts_for_the_only_result_that_it_fits(rate, targets, results):
    lost = make_runs(1, [(None, None)], hyperparameters=rate, targets=targets, succeeded=False)
    assert len(results_of([*lost, *make_runs()])) == len(results_of([*make_runs(), *lost])) == results
    others = make_runs(hyperparameters={"opt_base_learning_rate": 0.9})
    assert len(results_of([*make_runs(), *others, *lost])) == 3
