"""GNMT's trainers against a plain float64 model (gnmt_plain.py): loss, gradients, ten steps, translations, dropout."""

import numpy as np
import pytest

from tests.frameworks_probe import begin_chosen, below, probe, probe_together, relative
from tests.workloads.gnmt import synthetic_gnmt

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
TRAINED = "probes.gnmt_trainers.trained"
CASES = [
    *((framework, "dropout") for framework in FRAMEWORKS),
    ("pytorch", "steps"),
    (
        "mxnet",
        "steps",
    ),  # not TensorFlow's: its traces take as long as all others' cases, and the other case has more in it
]
CLOSE = 1e-5


def trained(framework, case):
    """What a trainer computes."""
    return probe(framework, TRAINED, framework, case)


def expected(case):
    """What the plain model gives."""
    return probe("pytorch", "probes.gnmt_trainers.expected", case)


@pytest.fixture(scope="module", autouse=True)
def all_at_once(request):
    """Every framework begins with what the chosen tests will ask of it, while another one is waited for."""
    begin_chosen(request, lambda framework, case: (framework, TRAINED, framework, case))


@pytest.mark.parametrize(("framework", "case"), CASES)
def test_loss_of_sentences_and_batch(framework, case):
    """Sentences from 2 words to the bucket's edge: padding reaches nothing."""
    found, wanted = trained(framework, case), expected(case)
    np.testing.assert_allclose(found["loss"], wanted["loss"], rtol=CLOSE)
    assert found["training_loss"] == pytest.approx(wanted["losses"][0], rel=CLOSE)


@pytest.mark.parametrize(("framework", "case"), CASES)
def test_every_gradient(framework, case):
    found, wanted = (below(one, "gradient/") for one in (trained(framework, case), expected(case)))
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert found[name].shape == gradient.shape
        assert relative(found[name], gradient) <= CLOSE, name


@pytest.mark.parametrize(("framework", "case"), CASES)
def test_ten_steps(framework, case):
    """With dropout too: the masks are the same everywhere. Adam lifts the rounding of single gradients near 0, hence norms."""
    found, wanted = trained(framework, case), expected(case)
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=CLOSE)
    weights = below(wanted, "state/")
    assert len(weights) == 44
    for name, weight in weights.items():
        difference = found[f"state/{name}"] - weight
        assert np.linalg.norm(difference) <= 5 * CLOSE * np.linalg.norm(weight), name


def test_dropout_changes_the_steps():
    plain, masked = expected("steps"), expected("dropout")
    assert abs(plain["losses"] / masked["losses"] - 1).max() > 1e-3


@pytest.mark.parametrize(("framework", "case"), CASES)
def test_translations_are_those_of_whole_decoding(framework, case):
    """The plain model decodes every row's words anew at each step; the trainers carry states along."""
    found, wanted = trained(framework, case), expected(case)
    np.testing.assert_array_equal(found["tokens"], wanted["tokens"])
    np.testing.assert_array_equal(found["token_count"], wanted["token_count"])
    assert len(set(wanted["token_count"].tolist())) > 2
    assert wanted["token_count"][-1] == 0, "the sentence that is not valid"


@pytest.mark.parametrize(("framework", "case"), CASES)
def test_warm_up_leaves_no_trace_and_state_comes_back(framework, case):
    digests = trained(framework, case)["digests"]
    assert digests[0] == digests[1]
    assert digests[2] == digests[3]
    assert digests[0] != digests[2]


def test_tensorflow_traces_each_shape_once():
    assert trained("tensorflow", "dropout")["traces"] == len(synthetic_gnmt.EDGES)


def test_pytorch_in_float64():
    """No rounding hides a wrong gradient."""
    found = below(probe("pytorch", "probes.gnmt_trainers.in_double", "dropout"), "gradient/")
    for name, gradient in below(expected("dropout"), "gradient/").items():
        assert relative(found[name], gradient) <= 1e-11, name


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_two_devices_take_the_steps_of_one(framework):
    """Dropout included: masks belong to sentences, not to devices."""
    processes = 1 if framework == "mxnet" else 2
    one = trained(framework, "dropout")
    for two in probe_together(framework, processes, "probes.gnmt_trainers.stepped", framework, "dropout", 2):
        np.testing.assert_allclose(two["losses"], one["losses"], rtol=CLOSE)
        for name, weight in below(one, "state/").items():
            if not name.startswith(("adam", "exp_avg")):
                difference = two[f"state/{name}"] - weight
                assert np.linalg.norm(difference) <= 5 * CLOSE * np.linalg.norm(weight), name


def test_an_untrained_model_translates_nothing(demo_data):
    found = probe("pytorch", "probes.gnmt_trainers.untrained", str(demo_data("translation-demo")))
    assert found["bleu"] < 0.02


def test_masks_of_a_gpu_are_those_of_the_host():
    found = probe("pytorch", "probes.gnmt_trainers.masks_on_device")
    np.testing.assert_array_equal(found["found"], found["wanted"])


def test_tensorflows_block_lstm_v2_has_wrong_gradients():
    """Why it is not used. If this fails, TensorFlow has repaired it: look at workloads/frameworks/tensorflow/recurrent.py."""
    found = probe("tensorflow", "probes.gnmt_traps.block_lstm_gradients")
    assert relative(found["v1"], found["ours"]) <= CLOSE
    assert relative(found["v2_forward"], found["ours_forward"]) <= CLOSE
    assert relative(found["v2"], found["ours"]) > 1e-2


def test_mxnets_lstm_ignores_lengths_on_a_cpu():
    """Why padding is reversed away. If this fails, MXNet honours them: look at workloads/gnmt/mxnet.py."""
    found = probe("mxnet", "probes.gnmt_traps.lstm_with_lengths")
    np.testing.assert_array_equal(found["with"], found["without"])
