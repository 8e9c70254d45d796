"""Kinds of rules in rounds, and the deviations of settings that no rule allows."""

import pytest

from suite.catalog.division import find_deviations
from suite.catalog.rounds import find_round, get_round, workload_rounds
from suite.catalog.rules import Rule, allowed, deviations
from suite.common import registry
from workloads.api import Settings

MODEL = {"width": 64, "depth": 2, "sides": (1, 2)}
WIDER, NEXT = {**MODEL, "width": 128}, {**MODEL, "sides": [1, 3]}
BOTH = {"box": 0.3, "mask": 0.2}


@pytest.mark.parametrize(
    ("definition", "fine", "refused"),
    [
        ({"one_of": [1, 50]}, [1, 50, 1.0], [2, 0]),
        ([1, 2], [[1, 2], (1, 2)], [[2, 1], 1]),
        ("1e-8", [1e-8], [1e-9, "1e-8"]),
        ("any", [0, "x", None], []),
        ({"whole": 1, "most": 4}, [1, 4, 2.0], [0, 5, 1.5]),
        ({"whole": 0}, [0, 10**6], [-1, 0.5]),
        ({"at_least": 3}, [3, 4.5], [2.9]),
        ({"at_least": "warmup"}, [5], [4]),
        ({"at_most": 0.01}, [0, 0.01], [0.010001]),
        ({"above": 0}, [1e-9], [0, -1]),
        ({"below": [32_768]}, [32_767], [32_768]),
        ({"below": [9, "warmup", "nothing"]}, [4], [5, 9]),
        (
            {"multiple": 0.001},
            [0.001, 0.6, 7.4],
            [0.0, -0.001, 0.0015, 0.51234, float("inf"), float("nan")],
        ),
        ({"power_of_two": 1e-4}, [1e-4, 2.5e-5, 8e-4], [5e-4, 3e-4, 0.0, -1e-4]),
        ({"per_batch": 0.128, "batch": 256}, [0.032], [0.064]),
        ({"per_device": 1_000}, [16_000], [1_000, 64_000]),
        ("less_halvings", [0, 0.5, 0.75, 1 - 2**-10], [1 / 3, 1, 1.5, -1]),
        (
            {"stretched": [40, 50]},
            [[44, 55], [36, 45], [80, 100]],
            [[44, 50], [42, 52.5], [40], [0, 0], [-4, -5]],
        ),
        ({"stretched": [40, 50], "least": 0}, [[40, 50], [44, 55]], [[36, 45]]),
        (
            {"at_targets": BOTH},
            [{"box": 0.3, "mask": 0.4}],
            [{"box": 0.3}, {"box": 0.4, "mask": 0.1}],
        ),
        (
            {"at_most_targets": {"loss": 3.3}},
            [{"loss": 3.3}, {"loss": 3.2, "more": 1.0}],
            [{"loss": 3.31}, {"more": 1.0}],
        ),
        ("reference_model", [{**MODEL, "sides": [1, 2]}], [NEXT, {}, {**MODEL, "more": 1}]),
        (
            {"reference_model": ["width"]},
            [WIDER],
            [{"depth": 2, "sides": (1, 2)}, {**WIDER, "depth": 3}],
        ),
    ],
)
def test_each_kind_of_rule_allows_its_values(definition, fine, refused):
    values = {"warmup": 5, "nothing": None, "global_batch_size": 64, "devices": 4}
    found = allowed(definition, MODEL)
    assert [value for value in fine if not found.allows(value, values)] == []
    assert [value for value in refused if found.allows(value, values)] == []


@pytest.mark.parametrize(
    ("definition", "line"),
    [
        (
            {"multipel": 1},
            r"multipel: unknown kind, allowed: any, .* \(did you mean 'multiple'\?\)$",
        ),
        ({"multiple": "x"}, "multiple: expected a number, got multiple x$"),
        ({"whole": 1, "most": "x"}, "whole: expected a number, got whole 1, most x$"),
        ({"whole": 1, "upto": 2}, "whole: .*unexpected keyword argument 'upto'$"),
        ({"per_batch": 0.1}, "per_batch: .*missing 1 required positional argument: 'batch'$"),
        ({"stretched": 3}, "stretched: expected a list of numbers"),
        ({"below": []}, "below: expected a list"),
        ({"at_targets": {"top1": "high"}}, "at_targets: expected {METRIC: NUMBER}"),
    ],
)
def test_an_invalid_rule_is_refused_in_one_line(definition, line):
    with pytest.raises(ValueError, match=f"^{line}"):
        allowed(definition, MODEL)


def texts(found):
    return [deviation.text for deviation in found]


def row(name, definition, **when):
    return Rule(
        (name,),
        allowed(definition, MODEL),
        "a line",
        {key: allowed(condition, {}) for key, condition in when.items()},
    )


def test_applicable_rows_are_alternatives():
    rows = (row("rate", {"multiple": 0.1}), row("rate", 0.03), row("rate", "any", kind="lars"))

    def found(rate, kind):
        return texts(deviations(rows, {"rate": rate, "kind": kind}, ["rate"]))

    assert found(0.3, "sgd") == found(0.03, "sgd") == found(0.05, "lars") == []
    assert found(0.05, "sgd") == ["rate 0.05, not 0.1 · k or 0.03"]


def test_a_row_with_unusable_values_allows_nothing():
    rows = (
        row("kind", {"multiple": 0.1}),
        row("rate", {"at_least": "nothing"}),
        row("rate", {"stretched": [0]}),
    )
    values = {"kind": "sgd", "rate": 1}
    assert texts(deviations(rows, values, values)) == [
        "kind sgd, not 0.1 · k",
        "rate 1, not nothing or more or [0] · (1 + k/10)",
    ]


def test_sentences_of_deviations_name_the_differing_parts():
    definitions = {
        "model": "reference_model",
        "targets": {"at_targets": {"top1": 0.759}},
        "cache_clear": True,
    }
    rows = [
        row(name, definition)
        for name, definition in {**definitions, "unit": "epochs", "rate": "any"}.items()
    ]
    values = {
        "model": {**MODEL, "width": 32, "gain": 1},
        "targets": {"top1": 0.7},
        "cache_clear": False,
    }
    values |= {"unit": "", "rate": 1, "new": 2}
    assert texts(deviations(rows, values, values)) == [
        "model with other width, gain than the reference's",
        "targets top1 0.7, not top1 0.759 or above",
        "cache_clear false, not true", "unit none, not epochs", "new 2, which no rule allows",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rules", "profile", "framework", "found"),
    [
        ("resnet50", "v0.5", "reference", "mxnet", ("imagenet", "reference_v0.5", {"top1": 0.749})),
        (
            "resnet50",
            "v0.7",
            "reference",
            "mxnet",
            ("imagenet", "nvidia_v0.7_dgx1", {"top1": 0.759}),
        ),
        ("resnet50", "v0.7", "synthetic", "mxnet", ("imagenet", "reference_1gpu", {"top1": 0.759})),
        (
            "resnet50",
            "v0.5",
            "synthetic",
            "pytorch",
            ("imagenet", "reference_v0.5_1gpu", {"top1": 0.749}),
        ),
        ("resnet50", "v0.7", "demo", "pytorch", ("imagenet-demo", "demo", {"top1": 0.8})),
        (
            "maskrcnn",
            "v0.7",
            "demo",
            "pytorch",
            ("coco-demo", "demo", {"BBOX": 0.35, "SEGM": 0.28}),
        ),
        ("gnmt", "v0.7", "demo", "pytorch", ("translation-demo", "demo", {"bleu": 0.5})),
        ("transformer", "v0.7", "demo", "pytorch", ("translation-demo", "demo", {"bleu": 0.5})),
        ("ssd", "v0.5", "synthetic", "pytorch", ("coco2017", "reference_1gpu", {"map": 0.212})),
        ("ssd", "v0.7", "demo", "pytorch", ("coco-demo", "demo", {"map": 0.23})),
        ("ncf", "v0.5", "synthetic", "pytorch", ("ml-20m", "nvidia_v0.5", {"hr_at_10": 0.635})),
    ],
)
def test_a_round_gives_data_set_hyperparameters_and_target(name, rules, profile, framework, found):
    workload = registry.load_workload(name)
    defaults = workload.defaults(profile, get_round(rules, workload), {})
    assert (defaults.dataset, defaults.set_for(framework), dict(defaults.targets)) == found


@pytest.mark.parametrize("name", ["gnmt", "maskrcnn", "resnet50", "ssd", "transformer"])
def test_an_unknown_profile_is_refused_with_the_available_profiles(name):
    workload = registry.load_workload(name)
    with pytest.raises(ValueError, match=f"profile=fast: {name} has reference, demo, synthetic"):
        workload.defaults("fast", get_round("v0.7", workload), {})


def test_a_workload_without_rounds_follows_the_conventions_and_is_open():
    found = workload_rounds(registry.load_workload("zoo"))
    assert found == {name: find_round(name) for name in ("v0.5", "v0.7", "v5.1", "v6.0")}
    assert all(
        (round_.targets, round_.dataset, round_.rows) == ({}, "", ()) for round_ in found.values()
    )
    settings = Settings(workload="zoo", rules="v0.5")
    assert texts(find_deviations(registry.load_workload("zoo"), settings)) == [
        "rules v0.5, whose round has no zoo"
    ]


@pytest.mark.parametrize(
    ("name", "found"), workload_rounds(registry.load_workload("transformer")).items()
)
def test_the_source_of_the_data_order_quotes_the_text_of_its_round(name, found):
    """Only the text of v0.7 contains "arbitrary batching" and "exactly once"."""
    sources = [
        rule.source
        for rule in found.rows
        if "Data Order" in rule.source and rule.source.startswith(name)
    ]
    assert len(sources) >= 2
    assert all(
        ("arbitrary" in source or "exactly once" in source) == (name == "v0.7")
        for source in sources
    )
