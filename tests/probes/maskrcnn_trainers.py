"""Runs in a framework's environment: results of its Mask R-CNN trainer for synthetic cases.

Framework-specific functions are in `maskrcnn_FRAMEWORK.py` in this folder:
- `parts(trainer, batch)`: the losses by name.
- `proposals(trainer, batch)`: boxes and anchors of each image, if the device computes them.
- `replicas(trainer)`: the parameters of each replica by name, if a process has several.
- `suppress(boxes, scores, most_iou)`: the indices of the boxes that are kept.
"""

import importlib

import numpy as np

from suite.common.registry import load_trainer
from testing import synthetic_maskrcnn as synthetic
from tests.probes import gradients
from tests.probes.image_trainers import digest, place_here, under
from workloads.maskrcnn.regions import rules


def ways_of(framework):
    """Return the module of framework-specific functions."""
    return importlib.import_module(f"tests.probes.maskrcnn_{framework}")


def trainer_of(framework, case, devices=None, compile="", warmup=False):
    """Return the workload, and a trainer with the case's weights."""
    workload = synthetic.workload(case, framework, devices or 1, compile)
    trainer = load_trainer("maskrcnn", framework)(workload, place_here(devices))
    trainer.setup(synthetic.weights(workload).items(), warmup)
    return workload, trainer


def computed(framework, case, compile="", steps=10):
    """Return the results that maskrcnn_torchvision.py describes, and further results.

    PyTorch computes gradients in float64. Further results are:
    - `losses` of steps.
    - `empty/…`: gradients of a batch without objects.
    - `dummies`: losses of dummy batches.
    - `digests` of the state after setup with and without warm-up, after the steps, and after
      load_state_dict(state_dict()).
    - `moved`: names of the parameters that training changed.
    - `traces` if the framework counts them, else -1.
    """
    ways, (workload, trainer) = (
        ways_of(framework),
        trainer_of(framework, case, None, compile, warmup=True),
    )
    batch, initial, weights = (
        synthetic.batch(workload, 0),
        trainer.state_dict(),
        synthetic.weights(workload),
    )
    trained = {**initial, **synthetic.statistics(workload)}
    trainer.load_state_dict(trained)
    ((_, outputs),) = trainer.predict([[batch]])
    used = outputs["label"] > 0
    found = {
        **{name: outputs[name][used] for name in ("box", "score", "label", "mask")},
        "count": used.sum(1),
    }
    if hasattr(ways, "proposals"):
        proposed = ways.proposals(trainer, batch)
        found |= under("loss", ways.parts(trainer, batch))
    else:
        seen, keep = [], trainer.proposals
        trainer.proposals = lambda *arguments, **options: (
            seen.append(keep(*arguments, **options)) or seen[-1]
        )
        found |= under("loss", ways.parts(trainer, batch))
        trainer.proposals = keep
        proposed = [(proposal.box, proposal.anchor) for proposal in seen[0]]
    found["proposals"] = synthetic.by_anchor(proposed)
    trainer.load_state_dict(initial)
    losses = [
        trainer.train([[synthetic.batch(workload, step)]], step).loss for step in range(steps)
    ]
    state = trainer.state_dict()
    trainer.setup(weights.items(), False)
    states = [initial, trainer.state_dict(), state]
    trainer.load_state_dict(state)
    found |= {
        "losses": np.array(losses),
        "digests": np.array([digest(each) for each in (*states, trainer.state_dict())]),
    }
    found["moved"] = np.array(
        [name for name, value in weights.items() if not np.array_equal(value, state[name])]
    )
    trainer.load_state_dict(trained)
    if framework == "pytorch":
        trainer.model.double()
    found |= under("gradient", gradients.OF[framework](trainer, batch))
    found |= under("empty", gradients.OF[framework](trainer, synthetic.batch(workload, 0, 0, True)))
    found["dummies"] = np.array(
        [trainer.forward([[workload.dummy_batch(specs)]]).loss for specs in workload.shapes()]
    )
    trainer.close()
    return {**found, "traces": np.array(getattr(trainer, "traces", -1))}


def shared(framework, case, devices=2):
    """Return gradients and parameters of a step on several devices.

    `full/…` and `empty/…` are gradients, summed over the devices, of a step with objects and of a
    step without objects. `loss` and `digests` (of each local replica's parameters) are those after
    three steps.
    """
    ways, (workload, trainer) = ways_of(framework), trainer_of(framework, case, devices)
    replicas = trainer.worker.replica_ids
    found = {}
    for name, empty in (("full", False), ("empty", True)):
        batches = [synthetic.batch(workload, 0, replica, empty) for replica in replicas]
        found |= under(name, gradients.OF[framework](trainer, *batches))
    steps = [
        [synthetic.batch(workload, step, replica, step == 1) for replica in replicas]
        for step in range(3)
    ]
    found["loss"] = np.array(trainer.train(steps, 0).loss)
    of_replicas = getattr(ways, "replicas", lambda trainer: [trainer.state_dict()])
    found["digests"] = np.array([digest(parameters) for parameters in of_replicas(trainer)])
    trainer.close()
    return found


def halves(framework, case):
    """Return the gradients of each of two devices' batches, computed on a single device."""
    _, trainer = trainer_of(framework, case)
    two, found = synthetic.workload(case, framework, 2), {}
    for replica, name in enumerate(("first", "second")):
        found |= under(name, gradients.OF[framework](trainer, synthetic.batch(two, 0, replica)))
    trainer.close()
    return found


def suppressed(framework, count):
    """Return the indices that `suppress` keeps of clustered boxes, many with equal scores."""
    return {"kept": rules.suppressed(ways_of(framework).suppress, *synthetic.clustered(count), 0.7)}
