"""Runs in a framework's environment: results of its ModelTrainer on small models.

`small_FRAMEWORK.py` defines the models of synthetic_updates.py and synthetic_tokens.py, and
framework-specific functions.
"""

import contextlib
import importlib
from unittest import mock

import numpy as np

from tests.probes.image_trainers import place_here, under
from tests.workloads.frameworks import synthetic_tokens, synthetic_updates
from tests.workloads.frameworks.synthetic_tokens import Tokens
from tests.workloads.frameworks.synthetic_updates import Updates


def adapter(framework):
    """Return the module with the framework's models."""
    return importlib.import_module(f"tests.probes.small_{framework}")


def states(module, place, case):
    """Return the states of a case of synthetic_updates.py."""
    optimizer, variant, *compiled = case.split("-")
    workload = Updates(optimizer, variant, place.num_replicas, "on" if compiled else "off")
    trainer, steps = module.LinearTrainer(workload, place), workload.steps(place.replica_ids)
    overflow, half = synthetic_updates.OVERFLOW, synthetic_updates.STEPS // 2
    weights = list(workload.initial_weights(1))
    trainer.setup(weights)
    found = under("fresh", trainer.state_dict())
    trainer.train(steps[:overflow], 0)
    found |= under("before", trainer.state_dict())
    trainer.train(steps[overflow:half], overflow)
    middle = trainer.state_dict()
    trainer.setup(weights, warmup=False)
    trainer.load_state_dict(middle)
    trainer.train(steps[half:], half)
    traffic = trainer.gradient_all_reduce_info()
    found["traffic"] = [traffic.size_bytes, traffic.tensors]
    return {**found, **under("middle", middle), **under("last", trainer.state_dict())}


def updates(framework, devices, *cases):
    """Return the states of the cases under `CASE/…`.

    A case is OPTIMIZER-VARIANT or OPTIMIZER-VARIANT-compiled. The states are: `fresh/…` after setup
    with warm-up, `before/…` and `middle/…` around the step that overflows, and `last/…`. In the
    middle, the trainer is set up again and the state loaded. `traffic` has the bytes and arrays
    that a step sums over devices.
    """
    module, place = adapter(framework), place_here(devices)
    return {
        f"{case}/{name}": value
        for case in cases
        for name, value in states(module, place, case).items()
    }


def compute(module, place, changes):
    """Return the results of a variant of synthetic_tokens.py."""
    workload = Tokens(place.num_replicas, **changes)
    trainer, steps = module.TokensTrainer(workload, place), workload.steps(place.replica_ids)
    weights = list(workload.initial_weights(1))
    trainer.setup(weights)
    before = trainer.state_dict()
    found = {
        "forward": trainer.forward(steps[:2]).loss,
        "forward_backward": trainer.forward_backward(steps[:2]).loss,
    }
    found |= under("gradient", module.gradients(trainer, *steps[0]))
    predicted = [
        outputs["logits"] for _, outputs in trainer.predict([[step[0]] for step in steps[:2]])
    ]
    found |= {f"logits/{number}": logits for number, logits in enumerate(predicted)}
    found["untouched"] = same(before, trainer.state_dict())
    found["losses"] = [
        trainer.train([batches], number).loss for number, batches in enumerate(steps)
    ]
    state = trainer.state_dict()
    trainer.setup(weights, warmup=False)
    trainer.train(steps, 0)
    found |= {"same": same(state, trainer.state_dict()), "traces": module.traces(trainer)}
    return {**found, **under("state", state)}


def same(first, second):
    """Check that two states have the same names and bits."""
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], value) for name, value in second.items()
    )


def tokens(framework, devices, *variants):
    """Return the results of each variant under `NAME/…`.

    The results are:
    - `losses`, `state/…` after the steps, and `traces`.
    - `forward` and `forward_backward`: losses of these passes over the first two batches before
      training.
    - `gradient/…` of the first step.
    - `untouched`: whether the passes left the state unchanged.
    - `logits/0` and `logits/1` of the first replica's first two batches.
    - `same`: whether a setup without a warm-up results in the same steps.
    """
    module, place = adapter(framework), place_here(devices)
    return {
        f"{name}/{key}": value
        for name in variants
        for key, value in compute(module, place, synthetic_tokens.VARIANTS[name]).items()
    }


def warmed_up(module, mode):
    """Return the number of steps, gradients, losses and outputs that setup computes."""
    workload = Tokens(mode=mode)
    trainer = module.TokensTrainer(workload, place_here(1))
    with contextlib.ExitStack() as stack:
        watched = [
            mock.patch.object(trainer, name, wraps=getattr(trainer, name)) for name in module.PASSES
        ]
        calls = [stack.enter_context(patch) for patch in watched]
        trainer.setup(workload.initial_weights(1))
    return [call.call_count for call in calls]


def message(error, begin):
    """Return the message of `error` if `begin()` raises it, or an empty string."""
    try:
        begin()
    except error as raised:
        return str(raised)
    return ""


def setup_checks(framework):
    """Return the passes in setup for each mode, and error messages.

    `modes/MODE` has the number of steps, passes with and without gradients, and evaluations. The
    messages are: `refused` for a batch that cannot be divided into pieces, `missing` for a
    parameter that the loss does not depend on although every step must use every parameter, and
    `skipping` for RMSprop under a dynamic scale.
    """
    module, place = adapter(framework), place_here(1)
    modes = {
        f"modes/{mode}": warmed_up(module, mode)
        for mode in ("train", "forward_backward", "forward", "inference")
    }
    unused = Tokens(unused=True)
    unused.every_step_uses_every_parameter = True
    trainer = module.TokensTrainer(unused, place)
    missing = message(AssertionError, lambda: trainer.setup(unused.initial_weights(1)))
    refused = message(ValueError, lambda: module.TokensTrainer(Tokens(pieces=3), place))
    skipped = module.LinearTrainer(Updates("rmsprop", "skipped"), place)
    skipping = message(ValueError, lambda: skipped.setup(skipped.workload.initial_weights(1)))
    return {**modes, "refused": refused, "missing": missing, "skipping": skipping}


def waits(framework, devices, *cases):
    """Return the operators of a step that wait for a device, by case of synthetic_updates.py."""
    module, place, found = adapter(framework), place_here(devices), {}
    for case in cases:
        workload = Updates(*case.split("-"), devices)
        trainer = module.LinearTrainer(workload, place)
        trainer.setup(workload.initial_weights(1))
        found[case] = module.waits(trainer, workload.steps(place.replica_ids)[0])
    return found
