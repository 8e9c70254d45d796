"""How the bare translation loops are timed. Imports nothing of the suite."""

import contextlib
import sys

import torch
from block import print_shortest
from linear import Linear
from torch.nn import functional


def main(make, sizes, rate):
    """argv: MODEL fp32|bf16 SIZE BATCH LENGTH CORES STEPS. `make(model, *sizes[SIZE])`: a module (source, target) to logits.

    A step to warm up, then the shortest of STEPS; prints JSON. Sentences are full: there is no padding.
    """
    model_name, precision, size = sys.argv[1:4]
    batch, length, cores, steps = map(int, sys.argv[4:])
    torch.set_num_threads(cores)
    torch.manual_seed(1)
    Linear.onednn = model_name == "bare_onednn"
    words = sizes[size][0]
    model = make(model_name, *sizes[size])
    adam = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    source, target, label = (torch.randint(4, words, (batch, length)) for _ in range(3))
    narrow = torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()

    def step():
        adam.zero_grad(set_to_none=True)
        with narrow:
            logits = model(source, target)
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), label.flatten(), label_smoothing=0.1)
        loss.backward()
        adam.step()
        return float(loss.detach())

    print_shortest(step, steps)
