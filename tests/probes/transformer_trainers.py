"""Run inside a framework's environment: what belongs to the Transformer's trainers alone, and
another library's model.
"""

import dataclasses
import unittest.mock

import numpy as np

from suite.common.registry import load_trainer
from testing import synthetic_transformer
from testing.synthetic_sentences import batch
from tests.probes.gradients import of_pytorch, of_tensorflow
from tests.probes.image_trainers import place_here, under
from tests.probes.translation_trainers import made, set_up
from workloads.common import dropout


def compiled(case):
    """TensorFlow's trainer with `compile=on`: `training_loss` and `gradient/…` of the first batch,
    `masks` as its graph hashes them and `masks_of_host`. A step would be compiled for seconds more.
    """
    import tensorflow as tf

    from workloads.frameworks.tensorflow.dropout import hashed

    plain = synthetic_transformer.workload(case, "tensorflow")
    settings = dataclasses.replace(
        plain.settings, options={**plain.settings.options, "compile": "on"}
    )
    workload = type(plain)(settings, plain.dataset_info)
    trainer = load_trainer("transformer", "tensorflow")(workload, place_here(1))
    trainer.setup(synthetic_transformer.weights(workload).items(), False)
    found = under("gradient", of_tensorflow(trainer, batch(trainer.workload, 0)))
    found["training_loss"] = trainer.total.numpy()
    trainer.close()
    keys, places = dropout.keys(5, 2, np.arange(7))[:, None], np.arange(11)
    found["masks"] = hashed(tf.constant(keys), tf.constant(places), "source", 24, 0.2).numpy()
    return {**found, "masks_of_host": dropout.multipliers_at(keys, places, "source", 24, 0.2)}


def library():
    """`logits`, `loss`, `gradient/…` of a batch by torch.nn.Transformer in float64, and `found/…`:
    the same by our trainer.
    """
    import torch

    trainer, weights = made("transformer", "pytorch", "fairseq")
    trainer.setup(weights.items(), False)
    workload, first = trainer.workload, batch(trainer.workload, 0)
    model = library_model(workload.network, weights)
    logits = library_logits(model, first.arrays)
    labels = torch.from_numpy(first.arrays["label"]).long()
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=0, reduction="sum",
        label_smoothing=workload.options.label_smoothing,
    ) / first.global_weight_sum  # fmt: skip
    loss.backward()
    arrays = trainer.device_arrays(first, training=False)
    ours, own_labels = trainer.logits(trainer.model, arrays), arrays["label"]
    return {
        "logits": logits[labels != 0].detach().numpy(), "found/logits": ours[own_labels != 0].detach().numpy(),
        "loss": loss.item(), "found/loss": trainer._loss(first).item(),
        **under("gradient", library_gradients(model)),
        **under("found/gradient", of_pytorch(trainer, first)),
    }  # fmt: skip


def library_model(sizes, weights):
    """torch.nn.Transformer, pre-norm, its attention biases 0, with the table of words as
    `embedding`.
    """
    import torch

    model = torch.nn.Transformer(
        sizes.hidden, sizes.heads, sizes.layers, sizes.layers, sizes.feed_forward, dropout=0.0, layer_norm_eps=1e-6,
        batch_first=True, norm_first=True, dtype=torch.float64,
    )  # fmt: skip
    model.embedding = torch.nn.Embedding(sizes.vocabulary, sizes.hidden, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in NAMES_OF_LIBRARY or not name.endswith(("in_proj_bias", "out_proj.bias")):
                parameter.copy_(
                    torch.from_numpy(np.concatenate([weights[one] for one in own_name(name)]))
                )
            else:
                parameter.zero_()
    return model


NAMES_OF_LIBRARY = {
    "encoder.norm": "encoder_norm", "decoder.norm": "decoder_norm", "embedding": "embedding",
    "linear1": "feed_forward.inner", "linear2": "feed_forward.outer",
    "self_attn.out_proj": "self_attention.output", "multihead_attn.out_proj": "cross_attention.output",
}  # fmt: skip
"""Parts of its names to ours; norms are numbered in the order of the sub-layers, projections in one
matrix.
"""


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
        subs = [
            "self_attention",
            *(["cross_attention"] if side == "decoder" else []),
            "feed_forward",
        ]
        return [f"{layer}.{subs[int(rest[-1]) - 1]}.norm.{kind}"]
    if rest == "self_attn":
        return [f"{layer}.self_attention.query_key_value.weight"]
    assert rest == "multihead_attn", name
    return [f"{layer}.cross_attention.{one}.weight" for one in ("query", "key_value")]


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
    embedded = [
        model.embedding(words) * hidden**0.5 * (words != 0)[..., None] + places
        for words in (source, target)
    ]
    later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
    padding = source == 0
    found = model(
        *embedded, tgt_mask=later, src_key_padding_mask=padding, memory_key_padding_mask=padding
    )
    return found @ model.embedding.weight.T


def drawn_by_the_kernel():
    """`losses` of a batch with attention masks that the fused kernel draws, as on a GPU, and
    `by_hash`, with the host's.
    """
    import torch

    trainer = set_up("transformer", "pytorch", "dropout")
    first = batch(trainer.workload, 0)
    by_hash = trainer._loss(first).item()
    trainer.model.device_draws = True
    torch.manual_seed(1)
    return {
        "by_hash": by_hash,
        "losses": np.array([trainer._loss(first).item() for _ in range(40)]),
    }


def filled(multiple):
    """`loss` and `gradient/…` of a batch with rows filled up to a multiple of so many; `rows` of
    both sides, `counting` those that are no padding; `of_empty`: which of two sequences, the first
    empty, filled rows belong to.
    """
    from workloads.frameworks.pytorch import rows

    trainer = set_up("transformer", "pytorch", "dropout")
    first = batch(trainer.workload, 0)
    lengths = [first.arrays[f"{side}_length"] for side in ("source", "target")]
    edge = first.arrays["source"].shape[1]
    with unittest.mock.patch.object(
        rows, "MULTIPLE", multiple
    ):  # the process serves other tests too
        return {
            "rows": np.array(
                [len(rows.Rows.of(one, edge, trainer.device).sequence) for one in lengths]
            ),
            "counting": np.array([int(one.sum()) for one in lengths]),
            "of_empty": np.array(rows.Rows.of(np.array([0, 2]), 4, trainer.device).sequence),
            "loss": trainer._loss(first).item(),
            **under("gradient", of_pytorch(trainer, first)),
        }
