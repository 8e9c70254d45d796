"""Run inside a framework's environment: what the Transformer's trainers compute from synthetic weights and batches."""

import functools
import unittest.mock

import numpy as np

from suite.common.registry import load_trainer
from tests.probes.gnmt_trainers import GRADIENTS, pytorch_gradients
from tests.probes.image_trainers import digest, place_here, under
from tests.workloads.transformer import synthetic_transformer
from workloads.common import dropout

STEPS = 10


def trained(framework, case, devices=1):
    """The case `case` of synthetic_transformer.

    `tokens`, `token_count` of a batch with the initial weights, `loss` of each sentence; `training_loss` of a step's batch;
    `losses` of ten steps and `state/…` after them; `gradient/…` of the first batch, where one device trains; `digests` of the
    state after setup without and with warm-up, after the steps, and after load_state(state()); `traces`, if counted; `graphs`
    that MXNet has compiled: by ten steps, and by evaluation for the loss of sentences, to encode, to say a word.
    """
    place = place_here(devices)
    workload = synthetic_transformer.workload(case, framework, devices)
    trainer = load_trainer("transformer", framework)(workload, place)
    weights, digests = synthetic_transformer.weights(workload), []
    for warm_up in (False, True):
        trainer.setup(weights.items(), warm_up)
        digests.append(digest(trainer.state()))
    translated, scored = (dict(outputs) for outputs in evaluated(trainer, workload))
    steps = [[synthetic_transformer.batch(workload, step, one) for one in place.replicas] for step in range(STEPS)]
    found = {**translated, **scored, "training_loss": np.array(trainer.forward(steps[:1]).loss)}
    evaluating = graphs(trainer, False) if framework == "mxnet" else []
    if devices == 1:
        found |= under("gradient", GRADIENTS[framework](trainer, steps[0][0]))
        trainer.setup(weights.items(), False)
    losses = [trainer.train([step], number).loss for number, step in enumerate(steps)]
    found["graphs"] = np.array([*graphs(trainer, True)[:1], *evaluating] if framework == "mxnet" else [])
    state = trainer.state()
    trainer.setup(weights.items(), False)
    trainer.load_state(state)
    digests += [digest(state), digest(trainer.state())]
    found |= {"losses": np.array(losses), "digests": np.array(digests), "traces": getattr(trainer, "traces", -1)}
    trainer.close()
    return {**found, **under("state", state)}


def graphs(trainer, training):
    """How many MXNet's trainer has compiled: to train or for the loss of sentences, then to encode and to say a word."""
    programs = [key for key in trainer.graphs.programs if key[0] == training]
    return [len(programs), len(trainer.encoder.programs), len(trainer.stepper.programs)]


def evaluated(trainer, workload):
    """Outputs for both kinds of evaluation batches; every replica gets the same."""
    for batch in synthetic_transformer.evaluation(workload):
        seen = list(trainer.predict([[batch] * len(trainer.place.replicas)]))
        yield seen[0][1]


def expected(case):
    """The same as `trained` gives, by transformer_plain: `tokens`, `token_count`, `loss`, `gradient/…`, `losses`, `state/…`."""
    import torch

    from tests.workloads.transformer import transformer_plain

    workload = synthetic_transformer.workload(case, "pytorch")
    weights, values = synthetic_transformer.weights(workload), workload.options
    heads = workload.network.heads
    form = (heads, values.label_smoothing, values.smoothed_over)
    batches = [synthetic_transformer.batch(workload, step) for step in range(STEPS)]

    def loss_of(batch, leaves):
        return transformer_plain.loss(leaves, batch.arrays, *form, batch.weight_global, masks_of(workload, batch))

    leaves = transformer_plain.parameters(weights)
    loss_of(batches[0], leaves).backward()
    gradients = {name: value.grad.numpy() for name, value in leaves.items()}
    with torch.no_grad():
        translated, labelled = synthetic_transformer.evaluation(workload)
        said = workload.translated(PlainDecoder(leaves, workload.beam.width, heads), translated)
        of_each = []
        for source, target, label in transformer_plain.pairs(labelled.arrays):
            memory = transformer_plain.encode(leaves, source, heads)
            logits = transformer_plain.decode(leaves, memory, target, heads)
            of_each.append(transformer_plain.smoothed(logits, label, 0.0, "all").item())
    rates = [workload.learning_rate(step) for step in range(STEPS)]
    steps = [functools.partial(loss_of, batch) for batch in batches]
    betas = (values.beta1, values.beta2)
    losses, state = transformer_plain.followed(weights, steps, rates, betas, values.epsilon)
    return {**said, "loss": of_each, "losses": losses, **under("gradient", gradients), **under("state", state)}


class PlainDecoder:
    """`beam.Decoder` on transformer_plain: every step decodes each row's whole translation anew."""

    def __init__(self, weights, width, heads):
        self.weights, self.width, self.heads = weights, width, heads

    def start(self, batch):
        from tests.workloads.transformer import transformer_plain

        sources = zip(batch.arrays["source"], batch.arrays["source_length"], strict=True)
        memories = [
            transformer_plain.encode(self.weights, source[:length].tolist(), self.heads) for source, length in sources
        ]
        return [(one, []) for one in memories for _ in range(self.width)]

    def step(self, state, tokens, parents):
        from tests.workloads.transformer import transformer_plain
        from workloads.common.text.beam import Candidates

        state = [
            (state[parent][0], [*state[parent][1], token])
            for parent, token in zip(parents, tokens.tolist(), strict=True)
        ]
        logits = [transformer_plain.decode(self.weights, *row, self.heads)[-1] for row in state]
        scores = np.stack([one.log_softmax(0).numpy() for one in logits])
        return Candidates(scores, np.tile(np.arange(scores.shape[1]), (len(state), 1))), state


def masks_of(workload, batch):
    """For each sentence a function from label and shape to its mask, float64; None without dropout."""
    import torch

    rate = workload.network.dropout
    if not rate:
        return None

    def of(key, label, shape):
        found = dropout.multipliers(key[None], label, shape[0], int(np.prod(shape[1:])), rate)
        return torch.from_numpy(found[:, 0].reshape(shape)).double()

    return [functools.partial(of, key) for key in batch.arrays["dropout_key"]]


def in_double(case):
    """`gradient/…` of the first batch by PyTorch's trainer, its model in float64."""
    workload = synthetic_transformer.workload(case, "pytorch")
    trainer = load_trainer("transformer", "pytorch")(workload, place_here(1))
    trainer.setup(synthetic_transformer.weights(workload).items(), False)
    trainer.model.double()
    return under("gradient", pytorch_gradients(trainer, synthetic_transformer.batch(workload, 0)))


def compiled(case):
    """TensorFlow's trainer under XLA: `training_loss` and `gradient/…` of the first batch, `masks` as its graph hashes them and
    `masks_of_host`. A step would be compiled for seconds more."""
    import tensorflow as tf

    from workloads.frameworks.tensorflow.dropout import hashed

    workload = synthetic_transformer.workload(case, "tensorflow")
    trainer = load_trainer("transformer", "tensorflow")(workload, place_here(1))
    trainer.compiled, trainer.any_shape = True, False
    trainer.setup(synthetic_transformer.weights(workload).items(), False)
    found = under("gradient", GRADIENTS["tensorflow"](trainer, synthetic_transformer.batch(workload, 0)))
    found["training_loss"] = trainer.total.numpy()
    trainer.close()
    keys, places = dropout.keys(5, 2, np.arange(7))[:, None], np.arange(11)
    found["masks"] = hashed(tf.constant(keys), tf.constant(places), "source", 24, 0.2).numpy()
    return {**found, "masks_of_host": dropout.multipliers_at(keys, places, "source", 24, 0.2)}


def library():
    """`logits`, `loss`, `gradient/…` of a batch by torch.nn.Transformer in float64, and `found/…`: the same by our trainer."""
    import torch

    workload = synthetic_transformer.workload("fairseq", "pytorch")
    weights, batch = synthetic_transformer.weights(workload), synthetic_transformer.batch(workload, 0)
    trainer = load_trainer("transformer", "pytorch")(workload, place_here(1))
    trainer.setup(weights.items(), False)
    model = library_model(workload.network, weights)
    logits = library_logits(model, batch.arrays)
    labels = torch.from_numpy(batch.arrays["label"]).long()
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=0, reduction="sum",
        label_smoothing=workload.options.label_smoothing,
    ) / batch.weight_global  # fmt: skip
    loss.backward()
    ours, own_labels, _ = trainer.logits(trainer.model, batch, None)
    return {
        "logits": logits[labels != 0].detach().numpy(), "found/logits": ours[own_labels != 0].detach().numpy(),
        "loss": loss.item(), "found/loss": trainer.loss(batch).item(),
        **under("gradient", library_gradients(model)),
        **under("found/gradient", pytorch_gradients(trainer, batch)),
    }  # fmt: skip


def library_model(sizes, weights):
    """torch.nn.Transformer, pre-norm, its attention biases 0, with the table of words as `embedding`."""
    import torch

    model = torch.nn.Transformer(
        sizes.hidden, sizes.heads, sizes.layers, sizes.layers, sizes.feed_forward, dropout=0.0, layer_norm_eps=1e-6,
        batch_first=True, norm_first=True, dtype=torch.float64,
    )  # fmt: skip
    model.embedding = torch.nn.Embedding(sizes.vocabulary, sizes.hidden, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in NAMES_OF_LIBRARY or not name.endswith(("in_proj_bias", "out_proj.bias")):
                parameter.copy_(torch.from_numpy(own_value(name, weights)))
            else:
                parameter.zero_()
    return model


NAMES_OF_LIBRARY = {
    "encoder.norm": "encoder_norm", "decoder.norm": "decoder_norm", "embedding": "embedding",
    "linear1": "feed_forward.inner", "linear2": "feed_forward.outer",
    "self_attn.out_proj": "self_attention.output", "multihead_attn.out_proj": "cross_attention.output",
}  # fmt: skip
"""Parts of its names to ours; norms are numbered in the order of the sub-layers, projections in one matrix."""


def own_name(name):
    """Our name (or names, whose values stand one above the other) for one of the library's."""
    part, _, kind = name.rpartition(".")
    if part in NAMES_OF_LIBRARY:
        return [f"{NAMES_OF_LIBRARY[part]}.{kind}"]
    side, _, number, rest = part.split(".", 3)
    layer = f"{side}{int(number) + 1}"
    if rest in NAMES_OF_LIBRARY:
        return [f"{layer}.{NAMES_OF_LIBRARY[rest]}.{kind}"]
    if rest.startswith("norm"):
        subs = ["self_attention", *(["cross_attention"] if side == "decoder" else []), "feed_forward"]
        return [f"{layer}.{subs[int(rest[-1]) - 1]}.norm.{kind}"]
    if rest == "self_attn":
        return [f"{layer}.self_attention.query_key_value.weight"]
    assert rest == "multihead_attn", name
    return [f"{layer}.cross_attention.{one}.weight" for one in ("query", "key_value")]


def own_value(name, weights):
    return np.concatenate([weights[one] for one in own_name(name)])


def library_gradients(model):
    """By our names."""
    found = {}
    for name, parameter in model.named_parameters():
        if name.endswith(("in_proj_bias", "out_proj.bias")):
            continue
        names, gradient = own_name(name), parameter.grad.numpy()
        cuts = [gradient.shape[1]] if len(names) > 1 else []
        found |= dict(zip(names, np.split(gradient, cuts), strict=True))
    return found


def library_logits(model, arrays):
    """(B, T, V) with padding."""
    import torch

    from workloads.transformer.network import positions

    hidden = model.d_model
    source, target = (torch.from_numpy(arrays[side]).long() for side in ("source", "target"))
    places = torch.from_numpy(positions(source.shape[1], hidden)).double()
    embedded = [model.embedding(words) * hidden**0.5 * (words != 0)[..., None] + places for words in (source, target)]
    later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
    padding = source == 0
    found = model(*embedded, tgt_mask=later, src_key_padding_mask=padding, memory_key_padding_mask=padding)
    return found @ model.embedding.weight.T


def drawn_by_the_kernel():
    """`losses` of a batch with attention masks that the fused kernel draws, as on a GPU, and `plain` without any dropout."""
    import torch

    workload = synthetic_transformer.workload("dropout", "pytorch")
    trainer = load_trainer("transformer", "pytorch")(workload, place_here(1))
    trainer.setup(synthetic_transformer.weights(workload).items(), False)
    batch = synthetic_transformer.batch(workload, 0)
    by_hash = trainer.loss(batch).item()
    trainer.model.device_draws = True
    torch.manual_seed(1)
    return {"by_hash": by_hash, "losses": np.array([trainer.loss(batch).item() for _ in range(40)])}


def filled(multiple):
    """`loss` and `gradient/…` of a batch with rows filled up to a multiple of so many; `rows` of both sides, `counting`
    those that are no padding; `of_empty`: which of two sequences, the first empty, filled rows belong to."""
    from workloads.frameworks.pytorch import rows

    with unittest.mock.patch.object(rows, "MULTIPLE", multiple):  # the process serves other tests too
        return _filled(rows)


def _filled(rows):
    workload = synthetic_transformer.workload("dropout", "pytorch")
    trainer = load_trainer("transformer", "pytorch")(workload, place_here(1))
    trainer.setup(synthetic_transformer.weights(workload).items(), False)
    batch = synthetic_transformer.batch(workload, 0)
    sides = [
        rows.Rows.of(batch.arrays[f"{side}_length"], batch.arrays[side].shape[1], trainer.device)
        for side in ("source", "target")
    ]
    empty = rows.Rows.of(np.array([0, 2]), 4, trainer.device)
    lengths = [int(batch.arrays[f"{side}_length"].sum()) for side in ("source", "target")]
    return {
        "rows": np.array([len(one.sequence) for one in sides]), "counting": np.array(lengths),
        "of_empty": np.array(empty.sequence), "loss": trainer.loss(batch).item(),
        **under("gradient", pytorch_gradients(trainer, batch)),
    }  # fmt: skip
