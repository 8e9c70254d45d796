"""The trainers of GNMT and the Transformer, compared with plain float64 models.

Loss, gradients, steps, translations and devices are compared. Tests of a single workload follow,
and the Transformer is compared with torch.nn.Transformer.
"""

import numpy as np
import pytest

from testing.synthetic_sentences import EDGES
from tests.frameworks_probe import begins, below, probe, probe_together, relative
from tests.helpers import full_but, full_of

FRAMEWORKS = ("pytorch", "tensorflow", "jax", "mxnet")
PROBES = "probes.translation_trainers"
CASES = [
    *(("gnmt", framework, "dropout") for framework in FRAMEWORKS),
    # TensorFlow is left out without dropout, because its traces take as long as all other cases.
    *(("gnmt", framework, "steps") for framework in ("pytorch", "jax", "mxnet")),
    *(
        ("transformer", framework, case)
        for framework in FRAMEWORKS
        for case in ("fairseq", "dropout")
    ),
]
EACH = pytest.mark.parametrize(
    ("name", "framework", "case"), full_of(CASES, ("transformer", "tensorflow", "fairseq"))
)
CLOSE = 1e-5


def trained(name, framework, case):
    """Return the results of a trainer."""
    return probe(framework, f"{PROBES}.trained", name, framework, case)


def expected(name, case):
    """Return the results of the plain model."""
    return probe("pytorch", f"{PROBES}.expected", name, case)


def assert_same_weights(found, wanted):
    """Check weights by their norms, because Adam amplifies rounding of gradients near 0."""
    for name, weight in wanted.items():
        assert np.linalg.norm(found[name] - weight) <= 5 * CLOSE * np.linalg.norm(weight), name


def assert_same_gradients(found, wanted, close=CLOSE):
    """Check gradients relative to the largest value of each."""
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert found[name].shape == gradient.shape
        assert relative(found[name], gradient) <= close, name


all_at_once = begins(
    lambda name, case: ("pytorch", f"{PROBES}.expected", name, case),
    lambda name, framework, case: (framework, f"{PROBES}.trained", name, framework, case),
)


@EACH
def test_loss_of_sentences_and_batch(name, framework, case):
    """Check that padding has no effect: sentences range from the shortest to the bucket's edge."""
    found, wanted = trained(name, framework, case), expected(name, case)
    np.testing.assert_allclose(found["loss"], wanted["loss"], rtol=CLOSE)
    assert found["training_loss"] == pytest.approx(wanted["losses"][0], rel=CLOSE)


@EACH
def test_every_gradient(name, framework, case):
    assert_same_gradients(
        *(
            below(results, "gradient/")
            for results in (trained(name, framework, case), expected(name, case))
        )
    )


@EACH
def test_losses_and_weights_of_steps(name, framework, case):
    """Check steps, also with dropout: the masks are the same in all frameworks."""
    found, wanted = trained(name, framework, case), expected(name, case)
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=CLOSE)
    assert_same_weights(below(found, "state/"), below(wanted, "state/"))


@pytest.mark.parametrize(
    ("name", "without_dropout"), [("gnmt", "steps"), ("transformer", "fairseq")]
)
def test_dropout_and_the_form_of_smoothing_change_the_steps(name, without_dropout):
    plain, masked = expected(name, without_dropout), expected(name, "dropout")
    assert abs(plain["losses"] / masked["losses"] - 1).min() > 1e-3


@EACH
def test_translations_are_those_of_whole_decoding(name, framework, case):
    """Check the translations against whole decoding.

    The plain model decodes all tokens of a row in each step. The trainers keep states, or keys and
    values.
    """
    found, wanted = trained(name, framework, case), expected(name, case)
    np.testing.assert_array_equal(found["tokens"], wanted["tokens"])
    np.testing.assert_array_equal(found["token_count"], wanted["token_count"])
    assert len(set(wanted["token_count"].tolist())) > 2
    assert wanted["token_count"][-1] == 0, "the invalid sentence"


@EACH
def test_warm_up_leaves_no_trace_and_state_comes_back(name, framework, case):
    digests = trained(name, framework, case)["digests"]
    assert digests[0] == digests[1] != digests[2] == digests[3]


@pytest.mark.parametrize(("name", "close"), [("gnmt", 1e-11), ("transformer", 1e-7)])
def test_pytorchs_gradients_in_float64(name, close):
    """Check gradients in float64, in which rounding cannot hide a wrong gradient."""
    found = probe("pytorch", f"{PROBES}.in_double", name, "dropout")
    assert_same_gradients(
        below(found, "gradient/"), below(expected(name, "dropout"), "gradient/"), close
    )


@pytest.mark.parametrize("framework", full_but(FRAMEWORKS, "pytorch", "jax", "mxnet"))
@pytest.mark.parametrize("name", ["gnmt", "transformer"])
def test_two_devices_take_the_steps_of_one(name, framework):
    """Check two devices whose batches have unequal numbers of tokens.

    Dropout is included, because masks belong to sentences, not to devices.
    """
    processes = 1 if framework == "mxnet" else 2
    single = trained(name, framework, "dropout")
    for process_results in probe_together(
        framework, processes, f"{PROBES}.stepped", name, framework, "dropout", 2
    ):
        np.testing.assert_allclose(process_results["losses"], single["losses"], rtol=CLOSE)
        weights = {
            key: single[f"state/{key}"] for key in below(expected(name, "dropout"), "state/")
        }
        assert_same_weights(below(process_results, "state/"), weights)


TRACES = {"gnmt": len(EDGES), "transformer": len(EDGES) + 1}
"""Number of shapes.

The Transformer's warm-up has a full batch of short sentences, the steps have six sentences.
"""


@pytest.mark.parametrize(
    ("name", "framework", "traces"),
    [
        ("gnmt", "tensorflow", TRACES["gnmt"]),
        ("transformer", "tensorflow", 1),
        *((name, "jax", traces) for name, traces in TRACES.items()),
    ],
)
def test_each_shape_is_traced_once_and_tensorflows_transformer_only_once(name, framework, traces):
    assert trained(name, framework, "dropout")["traces"] == traces


@pytest.mark.full
@pytest.mark.parametrize(("name", "capacities"), [("gnmt", 1), ("transformer", 2)])
def test_jax_compiles_each_shape_once(name, capacities):
    """Check the compiled functions.

    The warm-up compiles all functions, except for the steps' additional shape. Decoding is compiled
    for 16 and for 32 tokens.
    """
    compiled = trained(name, "jax", "dropout")["compiled"].tolist()
    wanted = {"_train": TRACES[name], "_evaluated": 1, "encoded": 1, "_advance": capacities}
    assert {function: compiled.count(f"jit({function})") for function in wanted} == wanted


def test_mxnet_compiles_each_shape_of_the_transformer_once():
    """Check the numbers of graphs.

    Training has two graphs, evaluation has one, and decoding has a graph for 16, 32, … tokens.
    """
    found = trained("transformer", "mxnet", "dropout")
    *fixed, decoding = found["graphs"].tolist()
    assert fixed == [len(EDGES), 1, 1]
    assert decoding == (1 if found["tokens"].shape[1] <= 16 else 2)


def test_masks_of_a_gpu_are_those_of_the_host():
    found = probe("pytorch", "probes.gnmt_trainers.masks_on_device")
    np.testing.assert_array_equal(found["found"], found["wanted"])


def test_weights_cast_together_equal_weights_cast_separately():
    assert probe("pytorch", "probes.gnmt_trainers.narrowed")["same"].tolist() == [True] * 6


@pytest.mark.full
def test_tensorflow_with_xla():
    """Check `compile=on`.

    Padding has rows, and masks are hashed in the graph, as on a GPU.
    """
    found = probe("tensorflow", "probes.transformer_trainers.compiled", "dropout")
    wanted = expected("transformer", "dropout")
    np.testing.assert_array_equal(found["masks"], found["masks_of_host"])
    assert found["training_loss"] == pytest.approx(wanted["losses"][0], rel=CLOSE)
    assert_same_gradients(below(found, "gradient/"), below(wanted, "gradient/"))


def test_the_transformer_equals_torchs_transformer():
    """Compare logits, loss and every gradient with torch.nn.Transformer in float64.

    It is pre-norm, and its attention biases are 0.
    """
    found = probe("pytorch", "probes.transformer_trainers.library")
    assert relative(found["found/logits"], found["logits"]) <= CLOSE
    assert found["found/loss"] == pytest.approx(float(found["loss"]), rel=CLOSE)
    assert_same_gradients(below(found, "found/gradient/"), below(found, "gradient/"))


def test_padding_rows_change_nothing():
    """Check that additional padding rows, which reduce the number of shapes, have no effect.

    Rows must not belong to an empty sequence, in which attention would be NaN.
    """
    bare, filled = (
        probe("pytorch", "probes.transformer_trainers.filled", multiple) for multiple in (1, 8)
    )
    np.testing.assert_array_equal(bare["rows"], bare["counting"])
    assert not (filled["rows"] % 8).any()
    assert (filled["rows"] > filled["counting"]).any()
    assert set(filled["of_empty"].tolist()) == {1}
    assert filled["loss"] == pytest.approx(float(bare["loss"]), rel=1e-6)
    assert_same_gradients(below(filled, "gradient/"), below(bare, "gradient/"))


def test_masks_of_the_fused_kernel_keep_the_mean_loss():
    """Check the fused kernel's masks, as on a GPU.

    The attention masks differ in every call, and the mean loss is the same.
    """
    found = probe("pytorch", "probes.transformer_trainers.drawn_by_the_kernel")
    losses = found["losses"]
    assert losses.std() > 0
    assert abs(losses.mean() - found["by_hash"]) < 5 * losses.std()
