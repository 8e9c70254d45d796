"""Schedules, sets, log keys and sizes; what is refused."""

import dataclasses
import json
import math

import numpy as np
import pytest

from suite.compliance.check import check_file
from tests.helpers import PROJECT
from tests.workloads.gnmt import synthetic_gnmt
from workloads.api import Batch, Facts, LossScaling, Settings
from workloads.common.text.beam import Candidates
from workloads.gnmt.settings import REFERENCE_MODEL
from workloads.gnmt.workload import GNMT

SETS = GNMT.named_sets()

DATA = PROJECT / "tests" / "data" / "logs"
SIZES = {"vocabulary": 32_317, "dev": 5_168, "dev_longest": 123, "test_longest": 148, "pairs": 3_969_024}
"""Of WMT16."""
WMT = Facts(3_969_024, 3_003, SIZES, "published")


def made(set_name, rules="v0.7", facts=WMT, **changes):
    """The full workload with one of the sets."""
    values = {name: setting.value for name, setting in SETS[set_name].items()}
    batch = values.pop("batch_size_global")
    values.pop("lr_scaling")
    settings = Settings(
        workload="gnmt", framework="pytorch", profile="reference", rules=rules, device="cuda",
        devices=8, nodes=1, cores_per_device=1, precision="fp32", batch_size_global=batch, batch_rule="set",
        lr_scaling="none", dataset="wmt16-en-de", model=REFERENCE_MODEL,
        targets=dict(GNMT.defaults("reference", rules, {}).targets), hyperparameter_set=set_name, hyperparameters=values,
    )  # fmt: skip
    return GNMT(dataclasses.replace(settings, **changes), facts)


def with_values(set_name, rules="v0.7", **values):
    """The same with some hyperparameters changed."""
    return made(set_name, rules, hyperparameters={**made(set_name).settings.hyperparameters, **values})


def test_warm_up_hold_and_four_halvings():
    """NVIDIA's v0.6 entry, update u from 1: 2e-3 · 0.01^((200 - u) / 200), then 2e-3, from 6,453 halved every 809."""
    workload = made("nvidia_v0.6_dgx1")

    def rate(update):
        return workload.learning_rate(update - 1)

    assert rate(1) == pytest.approx(2.047e-5, abs=5e-9), "the first that NVIDIA's code uses: its scheduler steps first"
    assert rate(100) == pytest.approx(2e-4)
    assert rate(150) == pytest.approx(2e-3 * 0.01**0.25)
    assert [rate(200), rate(6_452)] == [2e-3, 2e-3]
    updates = [6_453, 6_453 + 808, 6_453 + 809, 6_453 + 2 * 809, 6_453 + 3 * 809, 6_453 + 100 * 809]
    assert [rate(update) for update in updates] == [1e-3, 1e-3, 5e-4, 2.5e-4, 1.25e-4, 1.25e-4]


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("reference", {}),
        ("nvidia_v0.7_dgxa100", {}),
        ("reference", {"warmup_steps": 300, "remain_steps": 100.0}),
        ("reference", {"remain_steps": 1.0}),
    ],
)
def test_rates_are_those_of_the_references_scheduler(name, changed):
    """Written anew from lr_scheduler.py (mlcommons/training aa344c7f), which is stepped before each update."""
    workload = with_values(name, **changed)
    values, total = workload.options, workload.options.max_epochs * workload.steps_per_epoch
    remain = int(values.remain_steps * total) if values.remain_steps <= 1 else int(values.remain_steps)
    interval = values.decay_interval or max((total - remain) // 4, 1)
    warm = min(values.warmup_steps, remain)

    def scheduled(last_epoch):
        if last_epoch <= warm:
            return values.learning_rate * math.exp(math.log(0.01) / warm) ** (warm - last_epoch)
        if last_epoch >= remain:
            return values.learning_rate * 0.5 ** min((last_epoch - remain) // interval + 1, 4)
        return values.learning_rate

    updates = [1, 2, warm - 1, warm, warm + 1, remain - 1, remain, remain + 1, remain + interval, total]
    got = [workload.learning_rate(update - 1) for update in updates]
    np.testing.assert_allclose(got, [scheduled(update) for update in updates], rtol=1e-12)


def test_no_decay_before_the_end_of_all_steps():
    """1.0 is all steps (v0.7's rules: it switches the decay off), not the first one, which would end the warm-up too."""
    workload = with_values("reference", remain_steps=1.0)
    assert [workload.learning_rate(step) for step in (0, 199, 5_000)] == pytest.approx(
        [1.0233e-5, 1e-3, 1e-3], rel=1e-4
    )


def test_a_share_of_all_steps_and_an_interval_of_the_rest():
    """The reference: from 0.666 of the steps of all epochs, the rest in four parts."""
    workload = made("reference")
    total = 8 * workload.steps_per_epoch
    assert workload.remain_steps == int(0.666 * total)
    assert workload.decay_interval == (total - workload.remain_steps) // 4
    assert len(workload.decay_boundaries) == 4
    assert workload.decay_boundaries[-1] < total
    assert workload.learning_rate(total) == pytest.approx(1e-3 / 16)
    assert with_values("reference", remain_steps=100.0).log_keys()["opt_learning_rate_warmup_steps"] == 100


def test_v05_reference_has_a_constant_rate():
    workload = made("reference_v0.5", "v0.5")
    assert {workload.learning_rate(step) for step in (0, 100, 10**6)} == {5e-4}
    keys = workload.log_keys()
    assert keys["opt_learning_rate_alt_decay_func"] is False
    assert keys["opt_learning_rate_alt_warmup_func"] is False


def test_evaluation_after_every_epoch():
    workload = made("reference")
    steps = workload.evaluation_steps()
    assert [next(steps), next(steps)] == [workload.steps_per_epoch, 2 * workload.steps_per_epoch]


def test_targets_follow_the_rules():
    assert GNMT.defaults("reference", "v0.5", {}).targets == {"bleu": 21.8}
    assert GNMT.defaults("reference", "v0.7", {}).targets == {"bleu": pytest.approx(0.24)}
    assert GNMT.defaults("demo", "v0.7", {}).targets == {"bleu": 0.5}
    assert GNMT.defaults("reference", "v0.5", {}).hyperparameter_set == "reference_v0.5"
    with pytest.raises(ValueError, match="profile=fast: gnmt has reference, demo, synthetic"):
        GNMT.defaults("fast", "v0.7", {})


def test_a_score_of_24_points_meets_the_target():
    assert made("reference").met({"bleu": 24.0 / 100})
    assert not made("reference").met({"bleu": 23.99 / 100})


def test_every_field_of_every_set_has_a_source():
    fields = set(SETS["reference"])
    for name, values in SETS.items():
        assert set(values) == fields, name
        for key, setting in values.items():
            assert setting.source.split(":")[0] in ("published", "derived", "presumed"), (name, key)


def test_adam_clips_and_fp16_scales_as_the_reference():
    settings = made("reference").optimizer()
    assert (settings.name, settings.beta1, settings.beta2, settings.epsilon) == ("adam", 0.9, 0.999, 1e-8)
    assert settings.clip_norm == 5.0
    assert settings.loss_scaling == LossScaling()
    assert made("reference", precision="fp16").optimizer().loss_scaling == GNMT.fp16_scaling
    assert (GNMT.fp16_scaling.start, GNMT.fp16_scaling.maximum, GNMT.fp16_scaling.growth_interval) == (8192, 8192, 128)


@pytest.mark.parametrize("name", ["reference", "nvidia_v0.7_dgxa100"])
def test_stock_checker_takes_the_keys(tmp_path, name):
    """The minimal log of v0.7 with this workload's keys instead of its own."""
    workload = made(name)
    keys = {"global_batch_size": workload.settings.batch_size_global, **workload.log_keys()}
    keys |= {"train_samples": workload.facts.train_samples, "eval_samples": workload.facts.evaluation_samples}
    lines, template = [], None
    for line in (DATA / "0.7.0" / "gnmt.txt").read_text().splitlines():
        record = json.loads(line.partition(" ")[2])
        if record["key"] == "global_batch_size":
            template = record
            lines += [":::MLLOG " + json.dumps({**template, "key": key, "value": value}) for key, value in keys.items()]
        elif record["key"] not in keys:
            lines.append(line)
    path = tmp_path / "result_0.txt"
    path.write_text("\n".join(lines) + "\n")
    verdict = check_file(path, werror=True)
    assert verdict.passed, verdict.complaints
    assert type(keys["opt_learning_rate_alt_decay_func"]) is bool
    positive = [name for name in keys if name.startswith("opt_learning_rate") and "alt" not in name]
    assert len(positive) == 5
    assert all(keys[name] > 0 for name in positive), "the rules of v0.6 want it"


def test_hidden_and_layers_for_scaling_studies():
    model = GNMT.defaults("synthetic", "v0.7", {"hidden": 2_048, "layers": 2}).model
    workload = made("reference", model=model, profile="synthetic")
    assert (workload.network.hidden, len(workload.network.decoder)) == (2_048, 2)
    with pytest.raises(ValueError, match=r"workload.hidden=1001: not a multiple of 8; type workload.hidden=1008"):
        GNMT.defaults("synthetic", "v0.7", {"hidden": 1_001})


@pytest.mark.parametrize(("precision", "words", "parameters"), [("fp32", 32_317, 6_147), ("fp16", 32_320, 0)])
def test_the_vocabulary_is_filled_up_in_half_precision_alone(precision, words, parameters):
    workload = made("reference", precision=precision)
    assert workload.network.vocabulary == words
    assert workload.log_keys()["model_parameters"] == 160_671_297 - parameters


def test_memory_of_a_batch_on_cpu_cores():
    """At least the logits of the longest pair."""
    assert GNMT.activation_bytes(made("reference").settings) > 50 * 32_320 * 4
    half = GNMT.activation_bytes(made("reference", precision="bf16").settings)
    assert 2 * half == GNMT.activation_bytes(made("reference").settings)


class Copies:
    """A decoder that says the source again, word by word."""

    def __init__(self):
        self.steps = 0

    def start(self, batch):
        return batch.arrays["source"], 0

    def step(self, state, tokens, parents):
        source, place = state
        self.steps += 1
        rows = len(tokens) // len(source)
        scores = np.full((len(tokens), 48), -20.0)
        scores[np.arange(len(tokens)), np.repeat(source[:, place + 1], rows)] = -0.1
        attention = np.full((len(tokens), source.shape[1]), 1.0 / source.shape[1])
        return Candidates(scores, np.tile(np.arange(48), (len(tokens), 1)), attention), (source, place + 1)


def test_translations_of_valid_sentences_and_two_words_of_a_dummy():
    workload = synthetic_gnmt.workload("steps", "pytorch")
    batch = synthetic_gnmt.evaluation(workload)[0]
    limit = workload.settings.model["longest_translation"]
    found = workload.translated(Copies(), batch)
    for row, length in enumerate(batch.arrays["source_length"][:-1]):
        wanted = batch.arrays["source"][row, 1:length]
        if len(wanted) > limit:
            continue
        assert found["tokens"][row, : len(wanted)].tolist() == wanted.tolist()
    dummy = Batch({name: batch.arrays[name] for name in ("source", "source_length")}, 6, 6, 6)
    decoder = Copies()
    workload.translated(decoder, dummy)
    assert decoder.steps <= 2
