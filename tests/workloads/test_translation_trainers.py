"""GNMT's and the Transformer's trainers against plain float64 models: loss, gradients, steps,
translations, devices.

Then what belongs to one of them, and the Transformer against torch.nn.Transformer.
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
    # Without dropout: not in TensorFlow, whose traces take as long as all others' cases.
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
    """What a trainer computes."""
    return probe(framework, f"{PROBES}.trained", name, framework, case)


def expected(name, case):
    """What the plain model gives."""
    return probe("pytorch", f"{PROBES}.expected", name, case)


def assert_same_weights(found, wanted):
    """Adam lifts the rounding of single gradients near 0, hence norms."""
    for name, weight in wanted.items():
        assert np.linalg.norm(found[name] - weight) <= 5 * CLOSE * np.linalg.norm(weight), name


def assert_same_gradients(found, wanted, close=CLOSE):
    """By the largest value of each."""
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
    """Sentences from the shortest to the bucket's edge: padding reaches nothing."""
    found, wanted = trained(name, framework, case), expected(name, case)
    np.testing.assert_allclose(found["loss"], wanted["loss"], rtol=CLOSE)
    assert found["training_loss"] == pytest.approx(wanted["losses"][0], rel=CLOSE)


@EACH
def test_every_gradient(name, framework, case):
    assert_same_gradients(
        *(below(one, "gradient/") for one in (trained(name, framework, case), expected(name, case)))
    )


@EACH
def test_steps(name, framework, case):
    """With dropout too: the masks are the same everywhere."""
    found, wanted = trained(name, framework, case), expected(name, case)
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=CLOSE)
    assert_same_weights(below(found, "state/"), below(wanted, "state/"))


@pytest.mark.parametrize(("name", "other"), [("gnmt", "steps"), ("transformer", "fairseq")])
def test_dropout_and_the_form_of_smoothing_change_the_steps(name, other):
    plain, masked = expected(name, other), expected(name, "dropout")
    assert abs(plain["losses"] / masked["losses"] - 1).min() > 1e-3


@EACH
def test_translations_are_those_of_whole_decoding(name, framework, case):
    """The plain model decodes every row's words anew at each step; the trainers carry states, or
    keys and values, along.
    """
    found, wanted = trained(name, framework, case), expected(name, case)
    np.testing.assert_array_equal(found["tokens"], wanted["tokens"])
    np.testing.assert_array_equal(found["token_count"], wanted["token_count"])
    assert len(set(wanted["token_count"].tolist())) > 2
    assert wanted["token_count"][-1] == 0, "the sentence that is not valid"


@EACH
def test_warm_up_leaves_no_trace_and_state_comes_back(name, framework, case):
    digests = trained(name, framework, case)["digests"]
    assert digests[0] == digests[1] != digests[2] == digests[3]


@pytest.mark.parametrize(("name", "close"), [("gnmt", 1e-11), ("transformer", 1e-7)])
def test_pytorch_in_float64(name, close):
    """No rounding hides a wrong gradient."""
    found = probe("pytorch", f"{PROBES}.in_double", name, "dropout")
    assert_same_gradients(
        below(found, "gradient/"), below(expected(name, "dropout"), "gradient/"), close
    )


@pytest.mark.parametrize("framework", full_but(FRAMEWORKS, "pytorch", "jax", "mxnet"))
@pytest.mark.parametrize("name", ["gnmt", "transformer"])
def test_two_devices_take_the_steps_of_one(name, framework):
    """Their batches have unequal numbers of tokens.

    Dropout included: masks belong to sentences, not to devices.
    """
    processes = 1 if framework == "mxnet" else 2
    one = trained(name, framework, "dropout")
    for two in probe_together(
        framework, processes, f"{PROBES}.stepped", name, framework, "dropout", 2
    ):
        np.testing.assert_allclose(two["losses"], one["losses"], rtol=CLOSE)
        weights = {key: one[f"state/{key}"] for key in below(expected(name, "dropout"), "state/")}
        assert_same_weights(below(two, "state/"), weights)


TRACES = {"gnmt": len(EDGES), "transformer": len(EDGES) + 1}
"""Of shapes: the Transformer's warm-up has as many short sentences as fit a batch, the steps have
six.
"""


@pytest.mark.parametrize(
    ("name", "framework", "traces"),
    [
        ("gnmt", "tensorflow", TRACES["gnmt"]), ("transformer", "tensorflow", 1),
        *((name, "jax", traces) for name, traces in TRACES.items()),
    ],
)  # fmt: skip
def test_each_shape_is_traced_once_and_tensorflows_transformer_once_for_all(
    name, framework, traces
):
    assert trained(name, framework, "dropout")["traces"] == traces


@pytest.mark.full
@pytest.mark.parametrize(("name", "rooms"), [("gnmt", 1), ("transformer", 2)])
def test_jax_compiles_each_shape_once(name, rooms):
    """All by the warm-up, but for the steps' own shape; of the words said, for 16 and for 32 of
    them.
    """
    compiled = trained(name, "jax", "dropout")["compiled"].tolist()
    wanted = {"_train": TRACES[name], "_evaluated": 1, "encoded": 1, "_advance": rooms}
    assert {function: compiled.count(f"jit({function})") for function in wanted} == wanted


def test_mxnet_compiles_each_shape_of_the_transformer_once():
    """Two edges of training, one of evaluation; of the words said, one graph for every 16, 32, … of
    them.
    """
    found = trained("transformer", "mxnet", "dropout")
    *others, said = found["graphs"].tolist()
    assert others == [len(EDGES), 1, 1]
    assert said == (1 if found["tokens"].shape[1] <= 16 else 2)


def test_masks_of_a_gpu_are_those_of_the_host():
    found = probe("pytorch", "probes.gnmt_trainers.masks_on_device")
    np.testing.assert_array_equal(found["found"], found["wanted"])


def test_weights_cast_side_by_side_are_those_cast_alone():
    assert probe("pytorch", "probes.gnmt_trainers.narrowed")["same"].tolist() == [True] * 6


@pytest.mark.full
def test_tensorflow_under_xla():
    """`compile=on`: padding has rows, and masks are hashed in the graph, as on a GPU."""
    found = probe("tensorflow", "probes.transformer_trainers.compiled", "dropout")
    wanted = expected("transformer", "dropout")
    np.testing.assert_array_equal(found["masks"], found["masks_of_host"])
    assert found["training_loss"] == pytest.approx(wanted["losses"][0], rel=CLOSE)
    assert_same_gradients(below(found, "gradient/"), below(wanted, "gradient/"))


def test_somebody_elses_transformer():
    """torch.nn.Transformer, pre-norm, attention biases 0, in float64: logits, loss and every
    gradient.
    """
    found = probe("pytorch", "probes.transformer_trainers.library")
    assert relative(found["found/logits"], found["logits"]) <= CLOSE
    assert found["found/loss"] == pytest.approx(float(found["loss"]), rel=CLOSE)
    assert_same_gradients(below(found, "found/gradient/"), below(found, "gradient/"))


def test_rows_that_only_fill_up_change_nothing():
    """Shapes are fewer with them.

    No row is taken from an empty sequence, where attention gives no number.
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


def test_masks_that_the_fused_kernel_draws():
    """As on a GPU: other masks of attention weights each time, the same loss in the mean."""
    found = probe("pytorch", "probes.transformer_trainers.drawn_by_the_kernel")
    losses = found["losses"]
    assert losses.std() > 0
    assert abs(losses.mean() - found["by_hash"]) < 5 * losses.std()
