"""Run inside PyTorch's environment: what GNMT translates before it is trained, and masks as a GPU computes them."""

import numpy as np

from suite.common.registry import load_trainer
from testing import synthetic
from tests.probes.image_trainers import place_here
from workloads.common import dropout
from workloads.gnmt.settings import DEMO_MODEL
from workloads.gnmt.workload import GNMT


def untrained(folder):
    """`bleu` of the demo's network as it is drawn, in PyTorch, on the corpus in `folder`; cut at 30 words: it never ends."""
    settings = synthetic.settings(
        "gnmt", batch_size_global=32, dataset="translation-demo", data_dir=folder,
        model={**DEMO_MODEL, "longest_translation": 30},
        targets={"bleu": 0.5}, hyperparameters=synthetic.hyperparameters(GNMT.named_sets()["demo"]),
        options={"validation_loss": False},
    )  # fmt: skip
    workload, place = GNMT(settings, GNMT.read_facts(settings)), place_here(1)
    trainer = load_trainer("gnmt", "pytorch")(workload, place)
    trainer.setup(workload.initial_weights(1), False)
    seen = trainer.predict(workload.open_data(place, 1).evaluation())
    results = [workload.measure(*one) for one in seen]
    return workload.score({name: np.concatenate([one[name] for one in results]) for name in results[0]})


def masks_on_device():
    """`found`, `wanted`: masks by PyTorch's integers, as a GPU computes them, and by NumPy's."""
    import torch

    from workloads.frameworks.pytorch.dropout import hashed

    keys = dropout.keys(5, 2, np.arange(7))
    found = hashed(torch.from_numpy(keys)[None, :], torch.arange(11)[:, None], "source", 24, 0.2)
    return {"found": found.numpy(), "wanted": dropout.multipliers(keys, "source", 11, 24, 0.2)}


def narrowed():
    """Whether weights that are cast to where cuDNN wants them, and their gradients, are those of a cast by themselves."""
    import torch

    from workloads.gnmt.pytorch import _Narrowed

    weights = [torch.randn(shape, generator=torch.Generator().manual_seed(4)) for shape in ((8, 3), (8, 2), (8,))]
    slopes = [torch.randn_like(weight).bfloat16() for weight in weights]
    results = []
    for side_by_side in (True, False):
        leaves = [weight.clone().requires_grad_() for weight in weights]
        buffers = [torch.empty_like(weight, dtype=torch.bfloat16) for weight in weights]
        cast = _Narrowed.apply(buffers, *leaves) if side_by_side else [leaf.bfloat16() for leaf in leaves]
        results.append([*cast, *torch.autograd.grad(cast, leaves, slopes)])
    return {"same": np.array([torch.equal(ours, plain) for ours, plain in zip(*results, strict=True)])}
