"""Runs in a framework's environment: results of the Transformer's trainers.

Some functions compare them with torch.nn.Transformer.
"""

import dataclasses
import unittest.mock

import numpy as np

from suite.common.registry import load_trainer
from testing import synthetic_transformer
from testing.synthetic_sentences import batch
from tests.probes.gradients import of_pytorch, of_tensorflow
from tests.probes.image_trainers import place_here, under
from tests.probes.translation_trainers import build_trainer, set_up
from workloads.common import dropout


def compiled(case):
    """Return results of TensorFlow's trainer with `compile=on`.

    They are: `training_loss` and `gradient/…` of the first batch, `masks` that the graph hashes,
    and `masks_of_host`. A step is not run, because its compilation takes seconds.
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
    """Return results of a batch by torch.nn.Transformer in float64, and by the suite's trainer.

    They are `logits`, `loss`, `gradient/…`. The suite's have the prefix `found/`.
    """
    import torch

    trainer, weights = build_trainer("transformer", "pytorch", "fairseq")
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
    ours, our_labels = trainer.logits(trainer.model, arrays), arrays["label"]
    return {
        "logits": logits[labels != 0].detach().numpy(),
        "found/logits": ours[our_labels != 0].detach().numpy(),
        "loss": loss.item(), "found/loss": trainer._loss(first).item(),
        **under("gradient", library_gradients(model)),
        **under("found/gradient", of_pytorch(trainer, first)),
    }  # fmt: skip


def library_model(sizes, weights):
    """Return a pre-norm torch.nn.Transformer with the given weights.

    Its attention biases are 0, and its embedding table is `embedding`.
    """
    import torch

    model = torch.nn.Transformer(
        sizes.hidden, sizes.heads, sizes.layers, sizes.layers, sizes.feed_forward, dropout=0.0,
        layer_norm_eps=1e-6, batch_first=True, norm_first=True, dtype=torch.float64,
    )  # fmt: skip
    model.embedding = torch.nn.Embedding(sizes.vocabulary, sizes.hidden, dtype=torch.float64)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name in NAMES_OF_LIBRARY or not name.endswith(("in_proj_bias", "out_proj.bias")):
                parameter.copy_(
                    torch.from_numpy(np.concatenate([weights[part] for part in suite_names(name)]))
                )
            else:
                parameter.zero_()
    return model


NAMES_OF_LIBRARY = {
    "encoder.norm": "encoder_norm", "decoder.norm": "decoder_norm", "embedding": "embedding",
    "linear1": "feed_forward.inner", "linear2": "feed_forward.outer",
    "self_attn.out_proj": "self_attention.output",
    "multihead_attn.out_proj": "cross_attention.output",
}  # fmt: skip
"""Map parts of the library's names to the suite's names.

Norms are numbered in the order of the sub-layers. Projections are combined in a single matrix.
"""


def suite_names(name):
    """Return the suite's names for a name of the library.

    The values of several names are stacked vertically.
    """
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
    return [f"{layer}.cross_attention.{projection}.weight" for projection in ("query", "key_value")]


def library_gradients(model):
    """Return the gradients by the suite's names."""
    found = {}
    for name, parameter in model.named_parameters():
        if name.endswith(("in_proj_bias", "out_proj.bias")):
            continue
        names, gradient = suite_names(name), parameter.grad.numpy()
        cuts = [gradient.shape[1]] if len(names) > 1 else []
        found |= dict(zip(names, np.split(gradient, cuts), strict=True))
    return found


def library_logits(model, arrays):
    """Return logits (B, T, V), including padding."""
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
    """Return losses of a batch with attention masks from the fused kernel and from the host.

    `losses` uses masks that the kernel draws, as on a GPU. `by_hash` uses the host's masks.
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
    """Return results of a batch whose rows are padded to a multiple of `multiple`.

    They are: `loss` and `gradient/…`, `rows` of both sides, `counting` (the rows that are not
    padding), and `of_empty` (the sequence of each row for two sequences, the first of which is
    empty).
    """
    from workloads.frameworks.pytorch import rows

    trainer = set_up("transformer", "pytorch", "dropout")
    first = batch(trainer.workload, 0)
    lengths = [first.arrays[f"{side}_length"] for side in ("source", "target")]
    edge = first.arrays["source"].shape[1]
    with unittest.mock.patch.object(
        rows, "MULTIPLE", multiple
    ):  # the process is shared by several tests
        return {
            "rows": np.array(
                [len(rows.Rows.of(length, edge, trainer.device).sequence) for length in lengths]
            ),
            "counting": np.array([int(length.sum()) for length in lengths]),
            "of_empty": np.array(rows.Rows.of(np.array([0, 2]), 4, trainer.device).sequence),
            "loss": trainer._loss(first).item(),
            **under("gradient", of_pytorch(trainer, first)),
        }
