"""Kinds of rows, and what is made of settings that no row allows."""

import pytest

from suite.common import registry
from workloads.api import ROUNDS, Settings
from workloads.api.rules import (
    ANY,
    LESS_HALVINGS,
    above,
    at_least,
    at_most,
    at_targets,
    below,
    deviations,
    multiple,
    one_of,
    per_batch,
    per_device,
    power_of_two,
    reference,
    rule,
    stretched,
    whole,
)

BOUNDARIES = stretched((40, 50))
LATER = stretched((40, 50), least=0)


@pytest.mark.parametrize(
    ("allowed", "fine", "refused"),
    [
        (one_of(1, 50), [1, 50, 1.0], [2, 0]),
        (one_of((1, 2)), [[1, 2], (1, 2)], [[2, 1], 1]),
        (whole(1, 4), [1, 4, 2.0], [0, 5, 1.5]),
        (whole(0), [0, 10**6], [-1, 0.5]),
        (at_least(3), [3, 4.5], [2.9]),
        (at_least("warmup"), [5], [4]),
        (at_most(0.01), [0, 0.01], [0.010001]),
        (above(0), [1e-9], [0, -1]),
        (below(32_768), [32_767], [32_768]),
        (below(9, "warmup", "nothing"), [4], [5, 9]),
        (multiple(0.001), [0.001, 0.6, 7.4], [0.0, -0.001, 0.0015, 0.51234, float("inf"), float("nan")]),
        (power_of_two(1e-4), [1e-4, 2.5e-5, 8e-4], [5e-4, 3e-4, 0.0, -1e-4]),
        (per_batch(0.128, 256), [0.032], [0.064]),
        (per_device(1_000), [16_000], [1_000, 64_000]),
        (LESS_HALVINGS, [0, 0.5, 0.75, 1 - 2**-10], [1 / 3, 1, 1.5, -1]),
        (BOUNDARIES, [[40, 50], [44, 55], [36, 45], [80, 100]], [[44, 50], [42, 52.5], [40], [0, 0], [-4, -5]]),
        (LATER, [[40, 50], [44, 55]], [[36, 45]]),
        (at_targets({"box": 0.3, "mask": 0.2}), [{"box": 0.3, "mask": 0.4}], [{"box": 0.3}, {"box": 0.4, "mask": 0.1}]),
        (reference({"sides": (1, 2)}), [{"sides": [1, 2]}], [{"sides": [1, 3]}, {}, {"sides": [1, 2], "more": 1}]),
        (
            reference({"side": 1, "pad": 2}, free=("pad",)),
            [{"side": 1, "pad": 3}],
            [{"side": 1}, {"side": 2, "pad": 2}],
        ),
    ],
)
def test_what_a_kind_allows(allowed, fine, refused):
    values = {"warmup": 5, "nothing": None, "batch_size_global": 64, "devices": 4}
    assert [value for value in fine if not allowed.allows(value, values)] == []
    assert [value for value in refused if allowed.allows(value, values)] == []


def test_rows_are_alternatives_where_they_apply():
    rows = (
        rule("rate", multiple(0.1), "a line"),
        rule("rate", one_of(0.03), "another"),
        rule("rate", ANY, "a third", {"kind": one_of("lars")}),
    )

    def found(rate, kind):
        return deviations(rows, {"rate": rate, "kind": kind}, ["rate"])

    assert found(0.3, "sgd") == found(0.03, "sgd") == found(0.05, "lars") == []
    assert found(0.05, "sgd") == ["rate 0.05, not 0.1 · k or 0.03"]


def test_phrases_name_what_differs():
    rows = (
        rule("model", reference({"width": 64, "depth": 2}), "a line"),
        rule("targets", at_targets({"top1": 0.759}), "a line"),
        rule("cache_clear", one_of(True), "a line"),
        rule("unit", one_of("epochs"), "a line"),
        rule("rate", ANY, "a line"),
    )
    values = {"model": {"width": 32, "depth": 2, "gain": 1}, "targets": {"top1": 0.7}, "cache_clear": False}
    values |= {"unit": "", "rate": 1, "new": 2}
    assert deviations(rows, values, values) == [
        "model with other width, gain than the reference's",
        "targets top1 0.7, not top1 0.759 or above",
        *("cache_clear false, not true", "unit none, not epochs", "new 2, which no rule allows"),
    ]


@pytest.mark.parametrize(
    ("name", "rules", "profile", "framework", "found"),
    [
        ("resnet50", "v0.5", "reference", "mxnet", ("imagenet", "reference_v0.5", {"top1": 0.749})),
        ("resnet50", "v0.7", "reference", "mxnet", ("imagenet", "nvidia_v0.7_dgx1", {"top1": 0.759})),
        ("resnet50", "v0.7", "synthetic", "mxnet", ("imagenet", "reference_1gpu", {"top1": 0.759})),
        ("resnet50", "v0.5", "synthetic", "pytorch", ("imagenet", "reference_v0.5_1gpu", {"top1": 0.749})),
        ("resnet50", "v0.7", "demo", "pytorch", ("imagenet-demo", "demo", {"top1": 0.8})),
        ("maskrcnn", "v0.7", "demo", "pytorch", ("coco-demo", "demo", {"BBOX": 0.35, "SEGM": 0.28})),
        ("gnmt", "v0.7", "demo", "pytorch", ("translation-demo", "demo", {"bleu": 0.5})),
        ("transformer", "v0.7", "demo", "pytorch", ("translation-demo", "demo", {"bleu": 0.5})),
        ("ssd", "v0.5", "synthetic", "pytorch", ("coco2017", "reference_1gpu", {"map": 0.212})),
        ("ssd", "v0.7", "demo", "pytorch", ("coco-demo", "demo", {"map": 0.23})),
        ("ncf", "v0.5", "synthetic", "pytorch", ("ml-20m", "nvidia_v0.5", {"hr_at_10": 0.635})),
    ],
)
def test_a_round_gives_data_set_hyperparameters_and_target(name, rules, profile, framework, found):
    defaults = registry.load_workload(name).defaults(profile, rules, {})
    assert (defaults.dataset, defaults.set_for(framework), dict(defaults.targets)) == found


@pytest.mark.parametrize("name", ["gnmt", "maskrcnn", "resnet50", "ssd", "transformer"])
def test_a_profile_that_there_is_not_is_refused_with_those_that_there_are(name):
    with pytest.raises(ValueError, match=f"profile=fast: {name} has reference, demo, synthetic"):
        registry.load_workload(name).defaults("fast", "v0.7", {})


def test_a_workload_of_no_round_follows_the_conventions_of_each_and_is_open():
    assert registry.load_workload("zoo").rules is ROUNDS
    assert all((found.targets, found.dataset, found.rows) == ({}, "", ()) for found in ROUNDS.values())
    settings = Settings(workload="zoo", rules="v0.5")
    assert registry.load_workload("zoo").deviations(settings) == ["rules v0.5, whose round has no zoo"]


@pytest.mark.parametrize(("name", "found"), registry.load_workload("transformer").rules.items())
def test_a_round_is_quoted_with_its_own_words(name, found):
    """ "Arbitrary batching" and "exactly once" were written into v0.7's text of the data order."""
    of_order = [rule.source for rule in found.rows if "Data Order" in rule.source and rule.source.startswith(name)]
    assert len(of_order) >= 2
    assert all(("arbitrary" in source or "exactly once" in source) == (name == "v0.7") for source in of_order)
