"""Run inside PyTorch's environment: what Mask R-CNN's trainer computes of the synthetic cases."""

import numpy as np

from suite.common.registry import load_trainer
from tests.probes.image_trainers import digest, place_here, under
from tests.probes.maskrcnn_torchvision import by_anchor
from tests.workloads.maskrcnn import synthetic_maskrcnn as synthetic


def trainer_of(case, devices=None, **changes):
    """A trainer with the case's weights."""
    workload = synthetic.workload(case, "pytorch", devices or 1, **changes)
    trainer = load_trainer("maskrcnn", "pytorch")(workload, place_here(devices))
    trainer.setup(synthetic.weights(workload).items(), warm_up=True)
    return workload, trainer


def computed(case):
    """As maskrcnn_torchvision.py names it; gradients in float64; `losses` of ten steps, `digests` of the state."""
    workload, trainer = trainer_of(case)
    batch, initial = synthetic.batch(workload, 0), trainer.state()
    trainer.load_state({**initial, **synthetic.statistics(workload)})
    ((_, outputs),) = trainer.predict([[batch]])
    there = outputs["label"] > 0
    found = {name: outputs[name][there] for name in ("box", "score", "label", "mask")}
    found["count"] = there.sum(1)
    proposed = []
    keep = trainer.proposals
    trainer.proposals = lambda *given, **words: proposed.append(keep(*given, **words)) or proposed[-1]
    found |= {f"loss/{name}": value.detach().numpy() for name, value in trainer.parts(batch).items()}
    found["proposals"] = by_anchor([(one.box, one.anchor) for one in proposed[0]])
    trainer.load_state(initial)
    batches = [synthetic.batch(workload, step) for step in range(10)]
    losses = [trainer.train([[one]], step).loss for step, one in enumerate(batches)]
    state = trainer.state()
    weights = synthetic.weights(workload)
    trainer.setup(weights.items(), False)
    trainer.load_state(state)
    found |= {"losses": np.array(losses), "digests": np.array([digest(state), digest(trainer.state())])}
    moved = [name for name, value in weights.items() if not np.array_equal(value, state[name])]
    found["moved"] = np.array(moved)
    trainer.load_state({**initial, **synthetic.statistics(workload)})
    trainer.model.double()
    trainer.loss(batch).backward()
    gradients = {name: value.grad.numpy() for name, value in trainer.parameters.items() if value.requires_grad}
    trainer.close()
    return {**found, **under("gradient", gradients)}
