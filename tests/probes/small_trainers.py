"""Run inside a framework's environment: what its ModelTrainer makes of synthetic_updates.py and
synthetic_tokens.py.

`small_FRAMEWORK.py` gives the models, and what the frameworks name differently.
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
    """The framework's models."""
    return importlib.import_module(f"tests.probes.small_{framework}")


def states(module, place, case):
    """One case of synthetic_updates.py."""
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
    """Under `CASE/…` (OPTIMIZER-VARIANT or OPTIMIZER-VARIANT-compiled), states: `fresh/…` after
    setup with warm-up, `before/…` and `middle/…` around the step that overflows, `last/…`; in the
    middle everything is set up again, and the state loaded. `traffic`: bytes and arrays that a step
    sums over devices.
    """
    module, place = adapter(framework), place_here(devices)
    return {
        f"{case}/{name}": value
        for case in cases
        for name, value in states(module, place, case).items()
    }


def compute(module, place, changes):
    """One variant of synthetic_tokens.py."""
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


def same(one, other):
    """Same names and bits."""
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], value) for name, value in other.items()
    )


def tokens(framework, devices, *variants):
    """By variant `NAME/…`: `losses`, `state/…` after the steps, `traces`; `forward` and
    `forward_backward`, the losses of those passes over the first two batches before training,
    `gradient/…` of the first step, and whether the passes left the state `untouched`; `logits/0`
    and `logits/1` of the first replica's first two batches; whether a setup without a warm-up gives
    the `same` steps.
    """
    module, place = adapter(framework), place_here(devices)
    return {
        f"{name}/{key}": value
        for name in variants
        for key, value in compute(module, place, synthetic_tokens.VARIANTS[name]).items()
    }


def warmed_up(module, mode):
    """How often setup computes a step, gradients, a loss and outputs."""
    workload = Tokens(mode=mode)
    trainer = module.TokensTrainer(workload, place_here(1))
    with contextlib.ExitStack() as stack:
        watched = [
            mock.patch.object(trainer, name, wraps=getattr(trainer, name)) for name in module.PASSES
        ]
        calls = [stack.enter_context(one) for one in watched]
        trainer.setup(workload.initial_weights(1))
    return [call.call_count for call in calls]


def message(error, begin):
    """What is said when `begin()` fails."""
    try:
        begin()
    except error as raised:
        return str(raised)
    return ""


def said(framework):
    """`modes/MODE`: steps, passes with and without gradients and evaluations in setup; `refused`:
    what is said of a batch that cannot be cut; `missing`: of a parameter that the loss does not
    depend on, where every step is to use every one; `skipping`: of RMSprop under a dynamic scale.
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
    """By case of synthetic_updates.py, what of one step waits for a device."""
    module, place, found = adapter(framework), place_here(devices), {}
    for case in cases:
        workload = Updates(*case.split("-"), devices)
        trainer = module.LinearTrainer(workload, place)
        trainer.setup(workload.initial_weights(1))
        found[case] = module.waits(trainer, workload.steps(place.replica_ids)[0])
    return found
