"""Run inside TensorFlow's environment: what Mask R-CNN's trainer computes of the synthetic cases."""

import numpy as np
import tensorflow as tf

from suite.common.registry import load_trainer
from tests.probes.image_trainers import digest, place_here, under
from tests.workloads.maskrcnn import synthetic_maskrcnn as synthetic
from workloads.frameworks.tensorflow import regions
from workloads.maskrcnn.regions import rules


def trainer_of(case, devices=None, warm_up=False, **changes):
    """A trainer with the case's weights."""
    workload = synthetic.workload(case, "tensorflow", devices or 1, **changes)
    trainer = load_trainer("maskrcnn", "tensorflow")(workload, place_here(devices))
    trainer.setup(synthetic.weights(workload).items(), warm_up=warm_up)
    return workload, trainer


def gradients_of(trainer, batch):
    """Of every trained parameter, in canonical layout, summed over the devices."""
    return {name: trainer.model.outside(value.numpy()) for name, value in trainer.backward(batch).items()}


def computed(case):
    """As maskrcnn_pytorch.py names it, gradients in fp32; and `traces`."""
    workload, trainer = trainer_of(case, warm_up=True)
    batch, initial = synthetic.batch(workload, 0), trainer.state()
    trainer.load_state({**initial, **synthetic.statistics(workload)})
    ((_, outputs),) = trainer.predict([[batch]])
    there = outputs["label"] > 0
    found = {name: outputs[name][there] for name in ("box", "score", "label", "mask")}
    found["count"] = there.sum(1)
    proposed, keep = [], trainer.proposals
    trainer.proposals = lambda *given, **words: proposed.append(keep(*given, **words)) or proposed[-1]
    parts = trainer.parts_of(*trainer.tensors(batch, trainer.inputs))
    trainer.proposals = keep
    found |= {f"loss/{name}": value.numpy() for name, value in parts.items()}
    found["proposals"] = synthetic.by_anchor([(one.box, one.anchor) for one in proposed[0]])
    trainer.load_state({**initial, **synthetic.statistics(workload)})
    found |= under("gradient", gradients_of(trainer, batch))
    trainer.load_state(initial)
    batches = [synthetic.batch(workload, step) for step in range(10)]
    losses = [trainer.train([[one]], step).loss for step, one in enumerate(batches)]
    state = trainer.state()
    weights = synthetic.weights(workload)
    trainer.setup(weights.items(), False)
    trainer.load_state(state)
    found |= {"losses": np.array(losses), "digests": np.array([digest(state), digest(trainer.state())])}
    moved = [name for name, value in weights.items() if not np.array_equal(value, state[name])]
    trainer.close()
    return {**found, "moved": np.array(moved), "traces": np.array(trainer.traces)}


def pooled(side):
    """`values` and `gradients` of regions of three maps, laid out as PyTorch's."""
    maps, box, level, wanted = synthetic.maps_and_regions(side)
    given = [tf.constant(one.transpose(0, 2, 3, 1)) for one in maps]

    @tf.function(autograph=False)
    def both():
        with tf.GradientTape() as tape:
            tape.watch(given)
            pooled = regions.pool(regions.bordered(given), synthetic.STRIDES, box, tf.constant(level, tf.int32), side)
            total = tf.reduce_sum(pooled * wanted.transpose(0, 2, 3, 1))
        return pooled, tape.gradient(total, given)

    values, gradients = both()
    flat = np.concatenate([one.numpy().transpose(0, 3, 1, 2).ravel() for one in gradients])
    return {"values": values.numpy().transpose(0, 3, 1, 2), "gradients": flat}


def suppressed(count):
    """What `suppress` keeps of clustered boxes."""
    return {"kept": rules.suppressed(regions.suppress, *synthetic.clustered(count), 0.7)}


def shared(case, devices=2):
    """Digest of the state, loss and gradients, summed over the devices, of a step with objects and of one without any."""
    workload, trainer = trainer_of(case, devices)
    found, place = {}, trainer.place.replicas[0]
    for name, empty in (("full", False), ("empty", True)):
        found |= under(name, gradients_of(trainer, synthetic.batch(workload, 0, place, empty)))
    stats = trainer.train([[synthetic.batch(workload, step, place, step == 1)] for step in range(3)], 0)
    found |= {"loss": np.array(stats.loss), "digest": np.array(digest(trainer.state()))}
    trainer.close()
    return found


def halves(case):
    """Of one device: gradients of each of the two devices' batches, and of one without objects; `dummies`: losses."""
    workload, trainer = trainer_of(case)
    two, found = synthetic.workload(case, "tensorflow", 2), {}
    for name, batch in (
        ("first", synthetic.batch(two, 0, 0)),
        ("second", synthetic.batch(two, 0, 1)),
        ("empty", synthetic.batch(workload, 0, 0, True)),
    ):
        # A batch of two devices is divided by their number.
        factor = batch.weight_global / batch.weight
        found |= under(name, {key: factor * value for key, value in gradients_of(trainer, batch).items()})
    dummies = [trainer.forward([[workload.dummy_batch(specs)]]).loss for specs in workload.shapes()]
    trainer.close()
    return {**found, "dummies": np.array(dummies)}


def compiled():
    """`on/…` and `off/…`: loss, gradients and outputs of a batch with XLA and without."""
    found = {}
    for compile in ("on", "off"):
        workload, trainer = trainer_of("frozen", compile=compile)
        batch = synthetic.batch(workload, 0)
        found |= under(compile, gradients_of(trainer, batch))
        ((_, outputs),) = trainer.predict([[batch]])
        found |= under(compile, {**outputs, "loss": np.array(trainer.forward([[batch]]).loss)})
        trainer.close()
    return found
