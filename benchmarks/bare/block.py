"""Timing functions for the bare loops. This module does not import the suite."""

import json
import resource
import time
from collections.abc import Callable


def print_rate(step, read, images, steps, gigaflops):
    """Print the rate over a block of steps as JSON, after two warm-up steps.

    The time of the block ends when `read` returns the loss of the last step.

    Args:
        step: Function that runs a training step and returns its loss.
        read: Function that waits for a loss and converts it to a number.
        images: Number of images per step.
        steps: Number of steps in the block.
        gigaflops: Billions of operations per image in a forward pass. A multiply-add in a
            convolution or dense layer counts as two operations.
    """
    read(step()), read(step())
    begin, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        loss = step()
    last = read(loss)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    rates = {
        "images_per_second": steps * images / seconds,
        "images_per_cpu_second": steps * images / cpu,
    }
    print(json.dumps({**rates, "gigaflops_per_image": round(gigaflops, 3), "loss": last}))


def shortest(run: Callable[[], object], times: int) -> tuple[float, float, object]:
    """Return the minimum seconds and CPU seconds of `times` calls, and the last result.

    A warm-up call of `run` precedes the measured calls.
    """
    run()
    found = []
    for _ in range(times):
        begin, used = time.perf_counter(), time.process_time()
        last = run()
        found.append((time.perf_counter() - begin, time.process_time() - used))
    wall, cpu = zip(*found)
    return min(wall), min(cpu), last


def print_shortest(step, steps):
    """Run a warm-up step, then print the time of the shortest of `steps` steps as JSON.

    The function `step` waits until the training step is complete, and returns the loss.
    """
    seconds, cpu, loss = shortest(step, steps)
    print(json.dumps({"step_seconds": seconds, "step_cpu_seconds": cpu, "loss": loss}))


def print_mean(step, steps):
    """Run a warm-up step, then print the mean time of `steps` steps as JSON.

    The function `step` returns a dictionary with the losses and additional values to print.
    """
    step()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        last = step()
    found = {
        "seconds": (time.perf_counter() - wall) / steps,
        "cpu_seconds": (time.process_time() - cpu) / steps,
    }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**found, "peak_bytes": peak, **last}))


def pytorch_gigaflops(model, image):
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        model(image)
    return counter.get_total_flops() / 1e9


def tensorflow_gigaflops(function, image):
    import tensorflow as tf

    operations = (
        tf.function(function, autograph=False).get_concrete_function(image).graph.get_operations()
    )
    total = 0
    for operation in operations:
        if operation.type in ("Conv2D", "MatMul"):
            weight, output = (
                operation.inputs[1].shape.as_list(),
                operation.outputs[0].shape.as_list(),
            )
            inputs = weight[:3] if operation.type == "Conv2D" else weight[:1]
            total += 2 * product(inputs) * product(output)
    return total / 1e9


def mxnet_gigaflops(model, shape):
    import mxnet as mx

    symbol = model(mx.sym.var("data"))
    symbol = mx.sym.Group(list(symbol)) if isinstance(symbol, (list, tuple)) else symbol
    inside = symbol.get_internals()
    names, arguments = symbol.list_arguments(), symbol.infer_shape(data=shape)[0]
    shapes = dict(zip(names, arguments)) | dict(
        zip(inside.list_outputs(), inside.infer_shape(data=shape)[1])
    )
    layers = [name[: -len("_weight")] for name in names if name.endswith("_weight")]
    return (
        sum(
            2 * product(shapes[f"{name}_weight"][1:]) * product(shapes[f"{name}_fwd_output"])
            for name in layers
        )
        / 1e9
    )


def product(sizes):
    found = 1
    for size in sizes:
        found *= size
    return found
