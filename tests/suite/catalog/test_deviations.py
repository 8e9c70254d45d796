"""Reasons for the open division: their sentences, their JSON, and the sentences of older logs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.catalog.deviations import (
    RESUMED,
    Deviation,
    DeviationCode,
    data_deviation,
    deviation_from_json,
    deviation_of_text,
)
from suite.plan.jobs import plan
from tests.helpers import composed, examples
from workloads.api import fingerprints

SETTING, UNKNOWN, DATA = DeviationCode.SETTING, DeviationCode.UNKNOWN, DeviationCode.DATA

CURRENT = (
    Deviation(SETTING, "dataset", "ml-demo", "ml-20m", ["ml-20m"]),
    Deviation(
        SETTING, "targets", {"hr_at_10": 0.5}, "hr_at_10 0.635 or above", {"hr_at_10": 0.635}
    ),
    Deviation(
        SETTING, "model", {"width": 32}, "the reference's but for gain", parts=("width", "gain")
    ),
    Deviation(SETTING, "global_batch_size", 7, "8 or more, whole"),
    Deviation(SETTING, "first_decay_samples", None, "below those of the run"),
    Deviation(SETTING, "unit", "", "epochs", ["epochs"]),
    Deviation(SETTING, "boundaries", [1, 2.5], ""),
    Deviation(SETTING, "cache_clear", False, "true", [True]),
    Deviation(DeviationCode.USER_FILE, "rules", "v4"),
    Deviation(DeviationCode.USER_FILE, "hyperparameter_set", "mine"),
    Deviation(DeviationCode.NO_RULES, "rules", "v0.5", detail="zoo"),
    Deviation(
        DeviationCode.ENVIRONMENT_VARIABLE,
        "TF_XLA_FLAGS",
        "a, which b",
        detail="changes the types of arrays",
    ),
    Deviation(
        DeviationCode.PRELOADED_CODE, "LD_PRELOAD", detail="loads other libraries into the workers"
    ),
    Deviation(
        DeviationCode.PRELOADED_CODE, "sitecustomize", detail="runs other code in the workers"
    ),
    Deviation(DeviationCode.CHANGED_CODE, detail="code unlike its commit: suite/a.py and 2 more"),
    Deviation(
        DeviationCode.DATA_CHANGED, detail="the data set changed during the run: /data/x.npy"
    ),
    Deviation(
        DeviationCode.OTHER_CHECKOUT,
        detail="worker 1 imported other code than the controller's checkout /a has",
    ),
    Deviation(
        DeviationCode.REFERENCE_DIFFERS,
        detail="network and order of v0.6 on, not those of tag v0.5",
    ),
    RESUMED,
    data_deviation(fingerprints.NOT_VERIFIED),
    data_deviation("counts differ from the published ml-20m: 3 users, not 4"),
    data_deviation("backbone resnet50.pth, not shown to hold the weights of R-50.pkl"),
)


@pytest.mark.parametrize("deviation", CURRENT, ids=str)
def test_a_deviation_is_restored_from_its_json(deviation):
    assert deviation_from_json(json.loads(json.dumps(deviation.to_json()))) == deviation


@pytest.mark.parametrize("deviation", CURRENT, ids=str)
def test_the_sentence_of_a_deviation_is_translated_to_the_same_code_and_setting(deviation):
    found = deviation_of_text(deviation.text)
    assert (found.code, found.setting, found.allowed) == (
        deviation.code,
        deviation.setting,
        deviation.allowed,
    )
    assert found.text == deviation.text


@pytest.mark.parametrize(
    ("sentence", "code", "setting"),
    [
        # sentences of the first versions, before the rules of each round were a table
        ("data set ml-1m", SETTING, "dataset"),
        ("target 0.6", SETTING, "targets"),
        ("profile demo", SETTING, "profile"),
        ("stop steps:50", SETTING, "stop"),
        ("mode inference", SETTING, "mode"),
        ("decode scaled", SETTING, "decode"),
        ("epsilon set by the user", SETTING, "epsilon"),
        ("learning rate 0.003, no multiple of 0.0025", SETTING, "learning_rate"),
        # sentences of later versions
        ("data set ml-demo, not ml-20m", SETTING, "dataset"),
        ("profile demo, not reference", SETTING, "profile"),
        ("seed from user, not system", SETTING, "seed_source"),
        ("global batch 7, not 1024 · k", SETTING, "global_batch_size"),
        ("repeated share of an epoch 0.02, not 0.01 or less", SETTING, "repeated_share"),
        ("samples left out of an epoch 3, not 0", SETTING, "left_out_samples"),
        ("samples of warm-up 5, not below those before the first decay", SETTING, "warmup_samples"),
        ("momentum 0.9, which no rule allows", SETTING, "momentum"),
        ("model with other mf_dim, mlp_layer_sizes than the reference's", SETTING, "model"),
        ("max_samples 3, not 1 or 50", SETTING, "max_samples"),
        ("round v4, a file of the user's", DeviationCode.USER_FILE, "rules"),
        ("rules v0.5, whose round has no zoo", DeviationCode.NO_RULES, "rules"),
        ("subset of 5,000 training images", DATA, ""),
        ("3 images that cannot be used were left out", DATA, ""),
        (
            (
                "content not known to be the published imagenet's: its manifest does not say so;"
                " prepare it again"
            ),
            DATA,
            "",
        ),
        ("prepared before imagenet's content was compared", DATA, ""),
        ("backbone 1234abcd instead of R-50.pkl", DATA, ""),
        ("data set fingerprint not verified", DeviationCode.DATA_NOT_VERIFIED, ""),
        ("the run was resumed from a checkpoint", DeviationCode.RESUMED, ""),
        # unknown sentences, and a line without sentences
        ("a suite_open line without reasons", UNKNOWN, ""),
        ("evaluations not at the epochs of the rules", UNKNOWN, ""),
        ("", UNKNOWN, ""),
    ],
)
def test_sentences_of_older_logs_are_translated(sentence, code, setting):
    found = deviation_of_text(sentence)
    assert (found.code, found.setting, found.text) == (code, setting, sentence)


def test_targets_of_older_logs_are_numbers():
    found = deviation_of_text(
        "targets box_ap 0.3, mask_ap 0.2, not box_ap 0.377 and mask_ap 0.339 or above"
    )
    assert found.value == {"box_ap": 0.3, "mask_ap": 0.2}
    assert found.allowed_values == {"box_ap": 0.377, "mask_ap": 0.339}
    assert deviation_of_text("targets map x, not map 0.2 or above").value is None


@pytest.mark.parametrize("workload", ["gnmt", "maskrcnn", "ncf", "resnet50", "ssd", "transformer"])
def test_every_deviation_of_a_demo_has_the_code_and_the_setting_of_its_sentence(workload, tmp_path):
    arguments = (f"workload={workload}", "profile=demo", "device=cpu", "seed=1", "stop=steps:3")
    draft = plan(composed(*arguments, f"output={tmp_path}"), "job", tmp_path).draft
    found = [
        deviation
        for deviation in draft.deviations()
        if deviation.code is not DeviationCode.CHANGED_CODE
    ]
    assert {"dataset", "profile", "seed_source", "stop"} <= {
        deviation.setting for deviation in found
    }
    for deviation in found:
        translated = deviation_of_text(deviation.text)
        assert (translated.code, translated.setting) == (deviation.code, deviation.setting)
        assert translated.text == deviation.text
        assert deviation_from_json(json.loads(json.dumps(deviation.to_json()))) == deviation


@examples(200)
@given(
    st.text()
    | st.sampled_from([deviation.text for deviation in CURRENT]).flatmap(
        lambda text: st.just(text + "x")
    )
)
def test_any_sentence_keeps_its_text(sentence):
    assert deviation_of_text(sentence).text == sentence


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3)
    ),
)
NAMES = st.sampled_from(
    ["code", "setting", "value", "allowed", "allowed_values", "parts", "detail", "sentence"]
)


@examples(200)
@given(
    JSON | st.dictionaries(NAMES, JSON | st.sampled_from([code.value for code in DeviationCode]))
)
def test_damaged_json_gives_a_deviation_with_a_text_or_none(value):
    found = deviation_from_json(value)
    assert found is None or isinstance(found.text, str)


def test_a_code_of_a_later_version_is_unknown_and_keeps_its_text():
    found = deviation_from_json({"code": "license", "detail": "the data set has no license"})
    assert (found.code, found.text) == (UNKNOWN, "the data set has no license")
