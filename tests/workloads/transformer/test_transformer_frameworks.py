"""The Transformer's trainers against a plain float64 model (transformer_plain.py) and torch.nn.Transformer: logits, loss,
gradients, ten steps, translations, dropout."""

import itertools

import numpy as np
import pytest

from tests.frameworks_probe import begin_chosen, below, probe, probe_together, relative
from tests.workloads.transformer import synthetic_transformer

FRAMEWORKS = ("pytorch", "tensorflow", "mxnet")
TRAINED = "probes.transformer_trainers.trained"
CASES = tuple(synthetic_transformer.CASES)
CLOSE = 1e-5


def trained(framework, case):
    """What a trainer computes."""
    return probe(framework, TRAINED, framework, case)


def expected(case):
    """What the plain model gives."""
    return probe("pytorch", "probes.transformer_trainers.expected", case)


@pytest.fixture(scope="module", autouse=True)
def all_at_once(request):
    """Every framework begins with what the chosen tests will ask of it, while another one is waited for."""
    begin_chosen(request, lambda framework, case: (framework, TRAINED, framework, case))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_loss_of_sentences_and_batch(framework, case):
    """Sentences from one word to the bucket's edge: padding reaches nothing."""
    found, wanted = trained(framework, case), expected(case)
    np.testing.assert_allclose(found["loss"], wanted["loss"], rtol=CLOSE)
    assert found["training_loss"] == pytest.approx(wanted["losses"][0], rel=CLOSE)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_gradient(framework, case):
    found, wanted = (below(one, "gradient/") for one in (trained(framework, case), expected(case)))
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert found[name].shape == gradient.shape
        assert relative(found[name], gradient) <= CLOSE, name


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_ten_steps(framework, case):
    """With dropout too: the masks are the same everywhere. Adam lifts the rounding of single gradients near 0, hence norms."""
    found, wanted = trained(framework, case), expected(case)
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=CLOSE)
    weights = below(wanted, "state/")
    assert len(weights) == 1 + 2 * (2 + 2 + 6) + 2 * (2 + 2 + 2 + 3 + 6) + 4
    for name, weight in weights.items():
        difference = found[f"state/{name}"] - weight
        assert np.linalg.norm(difference) <= 5 * CLOSE * np.linalg.norm(weight), name


def test_cases_differ():
    """Dropout and the form of smoothing change the losses: neither is ignored."""
    losses = [expected(case)["losses"] for case in CASES]
    for one, other in itertools.pairwise(losses):
        assert abs(np.array(one) / np.array(other) - 1).min() > 1e-3


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_translations_are_those_of_whole_decoding(framework, case):
    """The plain model decodes every row's words anew at each step; the trainers carry keys and values along."""
    found, wanted = trained(framework, case), expected(case)
    np.testing.assert_array_equal(found["tokens"], wanted["tokens"])
    np.testing.assert_array_equal(found["token_count"], wanted["token_count"])
    assert len(set(wanted["token_count"].tolist())) > 2
    assert wanted["token_count"][-1] == 0, "the sentence that is not valid"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_warm_up_leaves_no_trace_and_state_comes_back(framework, case):
    digests = trained(framework, case)["digests"]
    assert digests[0] == digests[1]
    assert digests[2] == digests[3]
    assert digests[0] != digests[2]


def test_tensorflow_traces_once_for_all_shapes():
    assert trained("tensorflow", "dropout")["traces"] == 1


def test_tensorflow_under_xla():
    """As on a GPU: padding has rows, and masks are hashed in the graph."""
    found, wanted = probe("tensorflow", "probes.transformer_trainers.compiled", "dropout"), expected("dropout")
    np.testing.assert_array_equal(found["masks"], found["masks_of_host"])
    assert found["training_loss"] == pytest.approx(wanted["losses"][0], rel=CLOSE)
    for name, gradient in below(wanted, "gradient/").items():
        assert relative(found[f"gradient/{name}"], gradient) <= CLOSE, name


def test_mxnet_compiles_each_shape_once():
    """Two edges of training, one of evaluation; of the words said, one graph for every 16, 32, … of them."""
    found = trained("mxnet", "dropout")
    *others, said = found["graphs"].tolist()
    assert others == [len(synthetic_transformer.EDGES), 1, 1]
    assert said == (1 if found["tokens"].shape[1] <= 16 else 2)


def test_pytorch_in_float64():
    """No rounding hides a wrong gradient."""
    found = below(probe("pytorch", "probes.transformer_trainers.in_double", "dropout"), "gradient/")
    for name, gradient in below(expected("dropout"), "gradient/").items():
        assert relative(found[name], gradient) <= 1e-7, name


def test_somebody_elses_transformer():
    """torch.nn.Transformer, pre-norm, attention biases 0, in float64: logits, loss and every gradient."""
    found = probe("pytorch", "probes.transformer_trainers.library")
    assert relative(found["found/logits"], found["logits"]) <= CLOSE
    assert found["found/loss"] == pytest.approx(float(found["loss"]), rel=CLOSE)
    gradients = below(found, "gradient/")
    assert gradients.keys() == below(found, "found/gradient/").keys()
    for name, gradient in gradients.items():
        assert relative(found[f"found/gradient/{name}"], gradient) <= CLOSE, name


def test_rows_that_only_fill_up_change_nothing():
    """Shapes are fewer with them. No row is taken from an empty sequence, where attention gives no number."""
    bare, filled = (probe("pytorch", "probes.transformer_trainers.filled", multiple) for multiple in (1, 8))
    np.testing.assert_array_equal(bare["rows"], bare["counting"])
    assert not (filled["rows"] % 8).any()
    assert (filled["rows"] > filled["counting"]).any()
    assert set(filled["of_empty"].tolist()) == {1}
    assert filled["loss"] == pytest.approx(float(bare["loss"]), rel=1e-6)
    for name, gradient in below(bare, "gradient/").items():
        assert relative(filled[f"gradient/{name}"], gradient) <= CLOSE, name


def test_masks_that_the_fused_kernel_draws():
    """As on a GPU: other masks of attention weights each time, the same loss in the mean."""
    found = probe("pytorch", "probes.transformer_trainers.drawn_by_the_kernel")
    losses = found["losses"]
    assert losses.std() > 0
    assert abs(losses.mean() - found["by_hash"]) < 5 * losses.std()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_two_devices_take_the_steps_of_one(framework):
    """Their batches have unequal numbers of tokens. Dropout included: masks belong to sentences, not to devices."""
    processes = 1 if framework == "mxnet" else 2
    one = trained(framework, "dropout")
    for two in probe_together(framework, processes, TRAINED, framework, "dropout", 2):
        np.testing.assert_allclose(two["losses"], one["losses"], rtol=CLOSE)
        for name, weight in below(one, "state/").items():
            if not name.startswith(("adam", "exp_avg")):
                difference = two[f"state/{name}"] - weight
                assert np.linalg.norm(difference) <= 5 * CLOSE * np.linalg.norm(weight), name
