"""Run inside a framework's environment: what GNMT's trainers compute from synthetic weights and batches."""

import numpy as np

from suite.common.registry import load_trainer
from tests.probes.image_trainers import digest, place_here, under
from tests.workloads.gnmt import synthetic_gnmt
from workloads.common import dropout

STEPS = 10


def trained(framework, case):
    """The case `case` of synthetic_gnmt.

    `tokens`, `token_count` of a batch with the initial weights, `loss` of each sentence; `training_loss` of a step's batch;
    `losses` of ten steps and `state/…` after them; `gradient/…` of the first batch; `digests` of the
    state after setup without and with warm-up, after the steps, and after load_state(state()); `traces`, if counted.
    """
    place = place_here(1)
    workload = synthetic_gnmt.workload(case, framework)
    trainer = load_trainer("gnmt", framework)(workload, place)
    weights, digests = synthetic_gnmt.weights(workload), []
    for warm_up in (False, True):
        trainer.setup(weights.items(), warm_up)
        digests.append(digest(trainer.state()))
    translated, scored = (dict(outputs) for outputs in evaluated(trainer, workload))
    steps = [[synthetic_gnmt.batch(workload, step)] for step in range(STEPS)]
    found = {**translated, **scored, "training_loss": np.array(trainer.forward(steps[:1]).loss)}
    found |= under("gradient", GRADIENTS[framework](trainer, steps[0][0]))
    trainer.setup(weights.items(), False)
    losses = [trainer.train([step], number).loss for number, step in enumerate(steps)]
    state = trainer.state()
    trainer.setup(weights.items(), False)
    trainer.load_state(state)
    digests += [digest(state), digest(trainer.state())]
    found |= {"losses": np.array(losses), "digests": np.array(digests), "traces": getattr(trainer, "traces", -1)}
    trainer.close()
    return {**found, **under("state", state)}


def stepped(framework, case, devices):
    """`losses` of ten steps and `state/…` after them, on several devices."""
    place = place_here(devices)
    workload = synthetic_gnmt.workload(case, framework, devices)
    trainer = load_trainer("gnmt", framework)(workload, place)
    trainer.setup(synthetic_gnmt.weights(workload).items(), False)
    steps = [[synthetic_gnmt.batch(workload, step, one) for one in place.replicas] for step in range(STEPS)]
    losses = [trainer.train([step], number).loss for number, step in enumerate(steps)]
    state = trainer.state()
    trainer.close()
    return {"losses": np.array(losses), **under("state", state)}


def evaluated(trainer, workload):
    """Outputs for both kinds of evaluation batches."""
    for batch in synthetic_gnmt.evaluation(workload):
        ((_, outputs),) = trainer.predict([[batch]])
        yield outputs


def pytorch_gradients(trainer, batch):
    trainer.loss(batch).backward()
    found = {name: value.grad.numpy().copy() for name, value in trainer.parameters.items()}
    trainer.clear_gradients()
    return found


def mxnet_gradients(trainer, batch):
    from workloads.frameworks.mxnet.flat import views

    trainer.backward([batch])
    return {name: value.asnumpy() for name, value in views(trainer.replicas[0].gradient, trainer.layout.shapes).items()}


def tensorflow_gradients(trainer, batch):
    found = trainer.backward(batch)
    return {name: trainer.model.outside(value.numpy()) for name, value in found.items()}


GRADIENTS = {"pytorch": pytorch_gradients, "mxnet": mxnet_gradients, "tensorflow": tensorflow_gradients}


def in_double(case):
    """`gradient/…` of the first batch by PyTorch's trainer, its model in float64."""
    workload = synthetic_gnmt.workload(case, "pytorch")
    trainer = load_trainer("gnmt", "pytorch")(workload, place_here(1))
    trainer.setup(synthetic_gnmt.weights(workload).items(), False)
    trainer.model.double()
    return under("gradient", pytorch_gradients(trainer, synthetic_gnmt.batch(workload, 0)))


def expected(case):
    """The same as `trained` gives, by gnmt_plain: `tokens`, `token_count`, `loss`, `gradient/…`, `losses`, `state/…`."""
    import torch

    from tests.workloads.gnmt import gnmt_plain

    workload = synthetic_gnmt.workload(case, "pytorch")
    weights, smoothing = synthetic_gnmt.weights(workload), workload.options.label_smoothing
    batches = [synthetic_gnmt.batch(workload, step) for step in range(STEPS)]
    masks = [masks_of(workload, batch) for batch in batches]
    values = gnmt_plain.parameters(weights)
    gnmt_plain.loss(values, batches[0].arrays, smoothing, batches[0].weight_global, masks[0]).backward()
    gradients = {name: value.grad.numpy() for name, value in values.items()}
    with torch.no_grad():
        translated, labelled = synthetic_gnmt.evaluation(workload)
        said = workload.translated(PlainDecoder(values, workload.beam.width), translated)
        of_each = []
        for source, target, label in gnmt_plain.pairs(labelled.arrays):
            logits, _ = gnmt_plain.decode(values, gnmt_plain.encode(values, source), target)
            of_each.append(gnmt_plain.sentence_loss(logits, label, 0.0).item())
    rates = [workload.learning_rate(step) for step in range(STEPS)]
    losses, state = gnmt_plain.followed(weights, batches, rates, smoothing, workload.options.clip_norm, masks)
    return {**said, "loss": of_each, "losses": losses, **under("gradient", gradients), **under("state", state)}


class PlainDecoder:
    """`beam.Decoder` on gnmt_plain: every step decodes each row's whole translation anew."""

    def __init__(self, weights, width):
        self.weights, self.width = weights, width

    def start(self, batch):
        from tests.workloads.gnmt import gnmt_plain

        sources = zip(batch.arrays["source"], batch.arrays["source_length"], strict=True)
        values = [gnmt_plain.encode(self.weights, source[:length].tolist()) for source, length in sources]
        self.places = batch.arrays["source"].shape[1]
        return [(one, []) for one in values for _ in range(self.width)]

    def step(self, state, tokens, parents):
        from tests.workloads.gnmt import gnmt_plain
        from workloads.common.text.beam import Candidates

        state = [
            (state[parent][0], [*state[parent][1], token])
            for parent, token in zip(parents, tokens.tolist(), strict=True)
        ]
        found = [gnmt_plain.decode(self.weights, *row) for row in state]
        scores = np.stack([logits[-1].log_softmax(0).numpy() for logits, _ in found])
        attention = np.zeros((len(state), self.places))
        for row, (_, shares) in zip(attention, found, strict=True):
            row[: shares.shape[1]] = shares[-1]
        return Candidates(scores, np.tile(np.arange(scores.shape[1]), (len(state), 1)), attention), state


def masks_of(workload, batch):
    """Of source and target, float64; None without dropout."""
    import torch

    rate = workload.network.dropout
    if not rate:
        return None
    return [
        torch.from_numpy(
            dropout.multipliers(batch.arrays["dropout_key"], side, batch.arrays[side].shape[1], width, rate)
        ).double()
        for side, width in zip(("source", "target"), workload.network.mask_widths, strict=True)
    ]


def untrained(folder):
    """`bleu` of the demo's network as it is drawn, in PyTorch, on the corpus in `folder`; cut at 30 words: it never ends."""
    from tests.workloads import synthetic
    from workloads.gnmt.settings import DEMO_MODEL
    from workloads.gnmt.workload import GNMT

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
