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
