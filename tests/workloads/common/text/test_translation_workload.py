"""Translation workloads: dataset info, steps, shapes, scores, and rejected settings."""

import json
from dataclasses import replace

import numpy as np
import pytest

from testing import synthetic_gnmt, synthetic_transformer
from testing.synthetic_sentences import Copies
from tests.workloads.common.text.synthetic_translation import (
    Shifted,
    Translation,
    data_of,
    make,
    settings,
)
from workloads.api import Batch
from workloads.common import manifest as manifests
from workloads.common.text import bleu, prepared
from workloads.common.text.vocabulary import EOS


@pytest.fixture(scope="module")
def folder(demo_data):
    return demo_data("translation-demo")


def results_of(workload, folder, change=lambda number, ids: ids):
    """Return evaluation results of perfect translations in which each token has a loss of 2.

    `change(number, ids)` may return different subwords for a sentence.
    """
    test = prepared.read(folder, "test", 200)
    parts = []
    for data in data_of(workload):
        for (batch,) in data.evaluation():
            if "label" in batch.arrays:
                outputs = {"loss": 2.0 * batch.arrays["target_length"].astype(np.float32)}
            else:
                sentences = [
                    [*change(int(n), test.target.sentence(int(n)).tolist()), EOS]
                    for n in batch.arrays["number"]
                ]
                tokens = np.zeros((len(sentences), max(map(len, sentences))), np.int32)
                for row, ids in enumerate(sentences):
                    tokens[row, : len(ids)] = ids
                outputs = {
                    "tokens": tokens,
                    "token_count": np.array([len(ids) for ids in sentences], np.int32),
                }
            parts.append(workload.eval_batch_metrics(batch, outputs))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_scores_do_not_depend_on_the_number_of_devices(folder, devices):
    workload = make(folder, devices=devices, batch=36, evaluation_batch_size=17)
    results = results_of(workload, folder)
    assert workload.compute_metrics(results) == {"bleu": 1.0, "validation_loss": 2.0}
    assert workload.translations(results) == prepared.read_references(folder, 200)
    half = results_of(workload, folder, lambda number, ids: ids if number % 2 else ids[::-1])
    scores = workload.compute_metrics(half)
    assert 0.3 < scores["bleu"] < 0.75
    single = make(folder)
    half = results_of(single, folder, lambda number, ids: ids if number % 2 else ids[::-1])
    assert single.compute_metrics(half) == scores


def test_bleu_is_scaled_and_rounded_as_the_rules_require(folder, monkeypatch):
    points, fraction = make(folder, rules="v0.5"), make(folder, rules="v0.7")
    results = results_of(points, folder, lambda number, ids: ids if number % 3 else [])
    exact = points.compute_metrics(results)["bleu"]
    assert exact == pytest.approx(100 * fraction.compute_metrics(results)["bleu"])
    assert exact > 1
    monkeypatch.setattr(type(points), "bleu_digits", 2)
    assert points.compute_metrics(results)["bleu"] == round(exact, 2) != exact


@pytest.mark.parametrize(
    ("dataset", "language"), [("wmt16-en-de", "en"), ("translation-demo", "de")]
)
def test_wmt16_is_detokenized_with_the_language_of_the_reference(
    folder, monkeypatch, dataset, language
):
    """Check the language of the detokenizer.

    The reference (inference.py) runs `perl detokenizer.perl` without a language, which means
    English.
    """
    workload, asked = make(folder), []
    monkeypatch.setattr(workload, "settings", replace(workload.settings, dataset=dataset))
    results = results_of(workload, folder)
    monkeypatch.setattr(bleu, "detokeniser", lambda name: asked.append(name) or str)
    workload.translations(results)
    assert asked == [language]


def test_a_missing_or_repeated_sentence_is_an_error(folder):
    workload = make(folder)
    results = results_of(workload, folder)
    with pytest.raises(ValueError, match=r"saw 199 translations, 199 different ones, of 200"):
        workload.compute_metrics({**results, "number": results["number"][1:]})
    twice = results["loss_number"].copy()
    twice[0] = twice[1]
    with pytest.raises(ValueError, match=r"saw 200 validation losses, 199 different ones, of 200"):
        workload.compute_metrics({**results, "loss_number": twice})


def test_info_and_steps_depend_on_the_longest_allowed_pair(folder):
    short, long = make(folder, longest=15), make(folder, longest=60)
    lengths = prepared.read(folder, "train", 10_000).lengths()
    assert (
        short.dataset_info.train_samples
        == int((lengths.max(0) + 2 <= 15).sum())
        < long.dataset_info.train_samples
    )
    for workload in (short, long):
        assert workload.dataset_info.sizes["pairs"] == 10_000
        assert workload.counts.too_long + workload.dataset_info.train_samples == 10_000
        assert workload.steps_per_epoch == workload.epochs.start(2) - workload.epochs.start(1)
    keys = short.log_keys()
    assert keys["max_sequence_length"] == 15
    assert keys["input_pairs_too_long"] == short.counts.too_long > 0
    assert keys["input_pairs_left_out"] == short.counts.left_out
    assert keys["eval_hp_beam_size"] == 4
    assert short.metric_signatures()["bleu"].startswith("nrefs:1|case:lc|eff:no|tok:intl")


@pytest.mark.parametrize("kind", [Translation, Shifted])
def test_batches_have_the_declared_shapes(folder, kind):
    workload = make(folder, kind, devices=2)
    shapes = [
        {name: (spec.shape, spec.dtype) for name, spec in specs.items()}
        for specs in workload.shapes()
    ]
    assert 3 <= len(shapes) <= 5
    (data, _) = data_of(workload)
    batches = [batch.arrays.items() for (batch,) in data.train(0, workload.steps_per_epoch)]
    seen = [{name: (array.shape, str(array.dtype)) for name, array in arrays} for arrays in batches]
    assert all(shape in shapes for shape in seen)
    assert all(shape in seen for shape in shapes)
    lengths = [shape["source"][0][1] for shape in shapes]
    assert lengths == sorted(lengths, reverse=True)
    for specs in (*workload.shapes(), *workload.evaluation_shapes()):
        batch = workload.dummy_batch(specs)
        assert {name: array.shape for name, array in batch.arrays.items()} == {
            name: spec.shape for name, spec in specs.items()
        }
        assert (batch.arrays["source_length"] == batch.arrays["source"].shape[1]).all()
        assert batch.weight_sum == batch.global_weight_sum > 0


def test_synthetic_batches_need_no_data():
    workload = make(None, longest=75, batch=64)
    assert workload.dataset_info.sizes["vocabulary"] == 32_317
    (data,) = data_of(workload)
    for (batch,) in data.train(0, 5):
        assert 4 <= batch.arrays["label"][0, 0] < 32_317
        assert batch.arrays["source_length"].max() <= batch.arrays["source"].shape[1]
    inference = make(None, mode="inference")
    (batch,) = next(iter(data_of(inference)[0].evaluation()))
    assert "label" not in batch.arrays
    assert not inference.has_validation_loss
    assert all("label" not in specs for specs in inference.evaluation_shapes())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"batch": 33, "devices": 2},
            "batch size 33 cannot be divided equally among 2 devices. Set batch=global:32",
        ),
        ({"batch": 20_000}, "Set a smaller batch=global:N"),
    ],
)
def test_invalid_batch_sizes_are_rejected(folder, values, message):
    with pytest.raises(ValueError, match="batch") as caught:
        make(folder, **values)
    assert message in str(caught.value)


def test_missing_data_and_data_of_a_different_kind_are_rejected(tmp_path, folder):
    with pytest.raises(ValueError, match=r"Run: suite data make-demo translation-demo"):
        Translation.load_dataset_info(settings(tmp_path / "translation-demo"))
    with pytest.raises(
        ValueError, match=r"and run: suite data prepare wmt16-en-de --from FOLDER --to"
    ):
        Translation.load_dataset_info(settings(tmp_path / "wmt16-en-de"))
    manifest = json.loads((folder / manifests.NAME).read_text())
    (tmp_path / manifests.NAME).write_text(
        json.dumps({**manifest, "dataset": "ml-demo", "counts": {"users": 7}})
    )
    with pytest.raises(ValueError, match=r"expected a data set of sentence pairs, got ml-demo"):
        Translation.load_dataset_info(settings(tmp_path))


@pytest.mark.parametrize(
    ("synthetic", "begin", "first"), [(synthetic_gnmt, 1, 2), (synthetic_transformer, 0, 0)]
)
def test_valid_sentences_are_translated_and_dummies_end_early(synthetic, begin, first):
    """Check that a dummy ends early, and that the Transformer's sentences begin with padding."""
    workload = synthetic.workload("steps", "pytorch")
    batch, decoder = synthetic.evaluation(workload)[0], Copies(begin)
    found, limits = workload.translated(decoder, batch), workload.longest_translation(batch)
    for row, length in enumerate(batch.arrays["source_length"][:-1]):
        wanted = batch.arrays["source"][row, begin:length].tolist()[: limits[row]]
        assert found["tokens"][row, : len(wanted)].tolist() == wanted
        assert found["token_count"][row] == len(wanted)
    assert decoder.first == {first}
    dummy = Batch({name: batch.arrays[name] for name in ("source", "source_length")}, 6, 6, 6)
    decoder = Copies(begin)
    workload.translated(decoder, dummy)
    assert decoder.steps <= 2


def test_translations_of_the_transformer_may_be_longer_than_the_source():
    workload = synthetic_transformer.workload("steps", "pytorch")
    (batch, _) = synthetic_transformer.evaluation(workload)
    assert (
        workload.longest_translation(batch).tolist() == (batch.arrays["source_length"] + 6).tolist()
    )
