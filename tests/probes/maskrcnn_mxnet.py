"""Run inside MXNet's environment: what Mask R-CNN's trainer computes of the synthetic cases."""

import functools

import mxnet as mx
import numpy as np

from suite.common.registry import load_trainer
from tests.probes.image_trainers import digest, place_here, under
from tests.workloads.maskrcnn import synthetic_maskrcnn as synthetic
from workloads.frameworks.mxnet import regions
from workloads.frameworks.mxnet.flat import views
from workloads.frameworks.mxnet.trainer import in_turn
from workloads.maskrcnn.mxnet import LOSSES
from workloads.maskrcnn.regions import rules


def trainer_of(case, devices=1, compile=""):
    """A trainer with the case's weights."""
    workload = synthetic.workload(case, "mxnet", devices, compile)
    trainer = load_trainer("maskrcnn", "mxnet")(workload, place_here(devices))
    weights = synthetic.weights(workload)
    trainer.setup(weights.items(), False)
    cold = digest(trainer.state())
    trainer.setup(weights.items(), True)
    return workload, trainer, cold


def gradients_of(trainer):
    """Of the last backward pass, summed over the contexts, by name."""
    shapes = trainer.layout.shapes
    return {
        name: np.sum([views(one.gradient, shapes)[name].asnumpy() for one in trainer.replicas], 0) for name in shapes
    }


def computed(case, compile=""):
    """As maskrcnn_pytorch.py names it; gradients in float32; `programs` that were compiled."""
    workload, trainer, cold = trainer_of(case, compile=compile)
    batch, initial = synthetic.batch(workload, 0), trainer.state()
    digests = [cold, digest(initial)]
    trainer.load_state({**initial, **synthetic.statistics(workload)})
    ((_, outputs),) = trainer.predict([[batch]])
    there = outputs["label"] > 0
    found = {name: outputs[name][there] for name in ("box", "score", "label", "mask")}
    found["count"] = there.sum(1)
    proposed, keep = [], trainer.proposals
    trainer.proposals = lambda *given, **words: proposed.append(keep(*given, **words)) or proposed[-1]
    (parts,) = in_turn([trainer.parts(0, batch)])
    found |= {f"loss/{name}": value for name, value in zip(LOSSES, parts.asnumpy(), strict=True)}
    found["proposals"] = synthetic.by_anchor([(one.box, one.anchor) for one in proposed[0]])
    trainer.load_state({**initial, **synthetic.statistics(workload)})
    trainer.backward([batch])
    found |= under("gradient", gradients_of(trainer))
    trainer.load_state(initial)
    losses = [trainer.train([[synthetic.batch(workload, step)]], step).loss for step in range(10)]
    state = trainer.state()
    trainer.setup(synthetic.weights(workload).items(), False)
    trainer.load_state(state)
    digests += [digest(state), digest(trainer.state())]
    found |= {"losses": np.array(losses), "digests": np.array(digests)}
    moved = [name for name, value in synthetic.weights(workload).items() if not np.array_equal(value, state[name])]
    found["moved"] = np.array(moved)
    trainer.close()
    return found
