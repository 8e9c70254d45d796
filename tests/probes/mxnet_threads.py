"""Prints the number of threads that each of three calls in MXNet starts, as JSON.

Runs in a separate process in MXNet's environment. With the argument `trainer`, a trainer is
constructed first.
"""

import json
import os
import sys
import types

import mxnet as mx
import numpy as np

from workloads.api import WorkerContext
from workloads.frameworks.mxnet.trainer import MXNetTrainer


class Bare(MXNetTrainer):
    """A trainer that only does what the constructor of all trainers does."""

    setup = state_dict = load_state_dict = None


def threads():
    return len(os.listdir("/proc/self/task"))


def added(call):
    before = threads()
    call().wait_to_read()
    return threads() - before


def main():
    mx.nd.zeros((1,)).wait_to_read()  # starts the engine
    if "trainer" in sys.argv:
        Bare(types.SimpleNamespace(settings=None), WorkerContext(0, 1, range(1), 1, ("cpu",)))
    array = np.ones((1024, 1024), np.float32)
    copy = added(lambda: mx.nd.array(array))
    shared = mx.nd.from_numpy(array)
    operators = [added(lambda: mx.nd.softmax(shared)) for _ in range(2)]
    print(json.dumps([copy, *operators]))


if __name__ == "__main__":
    main()
