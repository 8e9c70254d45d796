"""Notes in packages about random numbers and optimizers."""

from types import SimpleNamespace

import pytest

from suite.common.paths import PROJECT
from suite.compliance.check_log import check_file
from suite.compliance.equivalences import RANDOM_NUMBERS, equivalences
from suite.launch.registered_frameworks import registered_frameworks
from suite.results.logs.record import RunSettings
from tests.suite.packaging.package_logs import our_run

UNLISTED = "Round v0.7 does not list it for"


def notes(workload, framework, optimizer, rules="v0.7"):
    settings = RunSettings(workload=workload, framework=framework, rules=rules)
    return equivalences(SimpleNamespace(settings=settings, hyperparameters={"opt_name": optimizer}))


@pytest.mark.parametrize(
    ("workload", "framework", "optimizer", "unlisted"),
    [
        ("resnet50", "pytorch", "lars", True), ("resnet50", "mxnet", "sgd", True),
        ("ssd", "mxnet", "sgd", True), ("maskrcnn", "mxnet", "sgd_with_momentum", True),
        ("resnet50", "mxnet", "lars", False), ("resnet50", "tensorflow", "lars", False),
        ("resnet50", "pytorch", "sgd", False), ("ncf", "mxnet", "adam", False),
    ],
)  # fmt: skip
def test_an_optimizer_that_the_round_lists_for_other_frameworks_is_named(
    workload, framework, optimizer, unlisted
):
    random_numbers, *stated, found = notes(workload, framework, optimizer)
    assert ["max pool" in text for text in stated] == (
        [False, True] if workload == "resnet50" else []
    )
    assert random_numbers == RANDOM_NUMBERS
    assert (f"{UNLISTED} {framework}" in found) == unlisted
    measured = registered_frameworks()[framework].max_error_vs_float64
    assert f"{measured[optimizer.removesuffix('_with_momentum')]:.1e} of float64" in found
    assert max(len(random_numbers), len(found)) <= 300  # length of a line in the README


def test_the_docs_have_the_same_figures():
    text = (PROJECT / "docs" / "dev/equivalence.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    errors = [
        registered_frameworks()[name].max_error_vs_float64
        for name in ("pytorch", "tensorflow", "mxnet", "jax")
    ]
    for optimizer in errors[0]:
        (row,) = [line for line in rows if line.startswith(f"| `{optimizer}` |")]
        shown = [cell.strip() for cell in row.split("|")[3:7]]
        assert shown == [f"{figures[optimizer]:.1e}" for figures in errors]


def test_the_note_on_an_unknown_optimizer_states_that_it_was_not_measured():
    assert "it was not measured here" in notes("ncf", "numpy", "own")[1]


def test_the_verdict_on_a_closed_log_states_the_equivalences(tmp_path):
    path = our_run(tmp_path / "job", 0)
    assert RANDOM_NUMBERS in check_file(path).remarks
    closed, opened = (
        f'"submission_division", "value": "{division}"' for division in ("closed", "open")
    )
    path.write_text(path.read_text().replace(closed, opened))
    assert check_file(path).remarks == ()
