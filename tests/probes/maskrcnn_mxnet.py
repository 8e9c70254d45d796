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


def pooled(side):
    """`values` and `gradients` of regions of three maps, laid out as PyTorch's; `operator/…`: as on a GPU; `parts/…`: by
    matrices of a few regions each."""
    maps, box, level, wanted = synthetic.maps_and_regions(side)
    shapes = [one.shape[2:] for one in maps]
    cells = mx.nd.array(np.concatenate([one.reshape(2, 5, -1).transpose(0, 2, 1) for one in maps], 1))
    gradient = mx.nd.array(wanted.reshape(80, 5, -1).transpose(0, 2, 1))
    limit, found = regions.VALUES_MOST, {}
    for name, kind, most in (
        ("", regions.BySamples, limit),
        ("parts/", regions.BySamples, 20 * side * side * cells.shape[0] * cells.shape[1]),
        ("operator/", regions.ByOperator, limit),
    ):
        regions.VALUES_MOST = most
        pool = kind(shapes, synthetic.STRIDES, box, level, side, mx.cpu())
        values = pool(cells).asnumpy().transpose(0, 2, 1).reshape(wanted.shape)
        back = np.split(pool.back(gradient).asnumpy().transpose(0, 2, 1), np.cumsum([h * w for h, w in shapes])[:-1], 2)
        found |= {f"{name}values": values, f"{name}gradients": np.concatenate([one.ravel() for one in back])}
        found[f"{name}matrices"] = np.array(len(getattr(pool, "matrices", ())))
    regions.VALUES_MOST = limit
    return found


def suppressed(count):
    """What `suppress` keeps of clustered boxes."""
    own = functools.partial(regions.suppress, context=mx.cpu())
    return {"kept": rules.suppressed(own, *synthetic.clustered(count), 0.7)}


def shared(case, devices=2):
    """Digest of the state, loss and gradients, summed over the devices, of a step with objects and of one without any."""
    workload, trainer, _ = trainer_of(case, devices)
    found = {}
    for name, empty in (("full", False), ("empty", True)):
        trainer.backward([synthetic.batch(workload, 0, replica, empty) for replica in range(devices)])
        found |= under(name, gradients_of(trainer))
    steps = [[synthetic.batch(workload, step, replica, step == 1) for replica in range(devices)] for step in range(3)]
    found |= {"loss": np.array(trainer.train(steps, 0).loss), "digest": np.array(digest(trainer.state()))}
    copies = [{name: array.asnumpy() for name, array in one.parameters.items()} for one in trainer.replicas]
    found["digests"] = np.array([digest(copy) for copy in copies])
    trainer.close()
    return found


def halves(case):
    """Of one device: gradients of each of the two devices' batches, and of one without objects; `dummies`: losses."""
    workload, trainer, _ = trainer_of(case)
    two, found = synthetic.workload(case, "mxnet", 2), {}
    for name, batch in (
        ("first", synthetic.batch(two, 0, 0)),
        ("second", synthetic.batch(two, 0, 1)),
        ("empty", synthetic.batch(workload, 0, 0, True)),
    ):
        trainer.backward([batch])
        found |= under(name, gradients_of(trainer))
    dummies = [trainer.forward([[workload.dummy_batch(specs)]]).loss for specs in workload.shapes()]
    trainer.close()
    return {**found, "dummies": np.array(dummies)}
