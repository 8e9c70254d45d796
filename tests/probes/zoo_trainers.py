"""Run inside a framework's environment: what the zoo's trainers compute from synthetic weights and batches."""

import gc

import numpy as np

from suite.common.registry import load_trainer
from tests.probes.image_trainers import place_here, under
from tests.workloads.zoo import synthetic_zoo
from workloads.common.networks import layer_lists

STEPS = 5


def trained(model, framework, image_size, chosen="sgd"):
    """Losses of five steps of small images, `outputs` before them with running statistics, names and sizes of the state."""
    workload = synthetic_zoo.workload(model, framework, image_size, chosen)
    trainer = load_trainer("zoo", framework)(workload, place_here())
    trainer.setup(synthetic_zoo.weights(workload).items(), False)
    initial = trainer.state()
    steps = [[synthetic_zoo.batch(workload, number)] for number in range(STEPS)]
    trainer.load_state({**initial, **synthetic_zoo.statistics(workload)})
    (seen,) = trainer.predict(steps[:1])
    trainer.load_state(initial)
    losses = [trainer.train([step], number).loss for number, step in enumerate(steps)]
    sizes = {name: value.size for name, value in trainer.state().items()}
    trainer.close()
    return {"losses": np.array(losses), "outputs": seen[1]["logits"], **under("sizes", sizes)}


def compared(model, framework, image_size=0, implementations=("suite", "stock")):
    """Logits of the suite's list and of the framework's own network for an image, with the same weights and statistics.

    `parameters/…`: trained values of each.
    """
    found = {}
    for implementation in implementations:
        workload = synthetic_zoo.workload(model, framework, image_size, implementation=implementation)
        trainer = load_trainer("zoo", framework)(workload, place_here())
        trainer.setup(synthetic_zoo.weights(workload).items(), False)
        state = trainer.state()
        trainer.load_state({**state, **synthetic_zoo.statistics(workload)})
        (seen,) = trainer.predict([[synthetic_zoo.batch(workload, 0)]])
        found[f"logits/{implementation}"] = seen[1]["logits"]
        names = layer_lists.shapes(workload.network)
        found[f"parameters/{implementation}"] = sum(state[name].size for name in names if name in state)
        trainer.close()
        del trainer, state, seen
        gc.collect()
    return found
