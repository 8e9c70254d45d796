"""Stage `right` for a workload: compare steps and outputs on the GPU with the CPU.

    python -m benchmarks.gpu.right WORKLOAD [--device cuda:0]

In every precision, the stage compares the losses of ten training steps and the outputs for two
evaluation batches with those of fp32 on the CPU. The output is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.trainers import CASES, Case, case, far
from testing import synthetic_ncf
from workloads.api import get_trainer
from workloads.ncf.data import NCFData, drawn_by_device
from workloads.ncf.sampling import training_key

PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
MOST = {"fp32": 1e-3, "tf32": 2e-2, "bf16": 6e-2, "fp16": 2e-2}
"""Maximum relative difference between the losses on the GPU in each precision and the losses on the
CPU in fp32.

Rounding errors grow over ten steps. The limits are initial estimates that no run on a GPU has
confirmed.
"""


def trained(case: Case, device: str, precision: str) -> dict[str, Any]:
    """Return the losses of all steps, and the `outputs` for two evaluation batches.

    The outputs are computed before the training steps. The returned dictionary also contains
    `waits`: the first operation in a step that waits for the device.
    """
    trainer: Any = case.trainer(device, precision)
    outputs = {
        f"{number}/{name}": np.array(value)
        for number, batch in enumerate(case.evaluation[:2])
        for _, found in trainer.predict([[batch]])
        for name, value in found.items()
    }
    losses = np.array(
        [trainer.train([[batch]], number).loss for number, batch in enumerate(case.batches)]
    )
    found = {
        "losses": losses,
        "outputs": outputs,
        "waits": _waits(trainer, case) if device != "cpu" else "",
    }
    trainer.close()
    return found


def _waits(trainer: Any, case: Case) -> str:
    """Return the first operation in a step that waits for the device, or an empty string."""
    import torch

    torch.cuda.set_sync_debug_mode("error")
    try:
        trainer.step(case.batches[0], 1e-4)
    except RuntimeError as error:
        return str(error).splitlines()[0]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return ""


def compared(name: str, device: str) -> dict[str, Any]:
    """Compare each precision on the device with fp32 on the CPU.

    The result of a precision is `as_expected` if its differences are within the tolerance.
    """
    case_ = case(name)
    plain, found = trained(case_, "cpu", "fp32"), dict[str, Any]()
    for precision in (
        candidate
        for candidate in PRECISIONS
        if candidate in get_trainer(type(case_.workload), "pytorch").precisions
    ):
        here = dict[str, Any]()
        try:
            result = trained(case_, device, precision)
        except Exception as error:  # continue with the other precisions
            found[precision] = {
                "error": f"{type(error).__name__}: {str(error).strip()[:300]}",
                "as_expected": False,
            }
            continue
        here["loss"] = far(result["losses"], plain["losses"])
        here["outputs"] = {
            key: far(result["outputs"][key], value) for key, value in plain["outputs"].items()
        }
        here["finite"] = bool(np.isfinite(result["losses"]).all())
        here["waits"] = result["waits"]
        here["as_expected"] = (
            here["finite"] and here["loss"] < MOST[precision] and not here["waits"]
        )
        found[precision] = here
    return found


def kernels() -> dict[str, Any]:
    """Check that the Triton kernels run and agree with PyTorch.

    The dropout hash on the device must equal the dropout hash on the host bit for bit.
    """
    import torch

    from workloads.common import dropout as host
    from workloads.frameworks.pytorch import kernels as of_triton
    from workloads.frameworks.pytorch.kernels.plain import hashed

    keys = np.random.default_rng(0).integers(0, (1 << 63) - 1, 64)
    wanted = host.multipliers_at(keys[:, None], np.arange(50), "x", 128, 0.1)
    arguments = (
        torch.from_numpy(keys).cuda()[:, None],
        torch.arange(50, device="cuda"),
        "x",
        128,
        0.1,
    )
    agree = {
        "plain": bool(np.array_equal(hashed(*arguments).cpu().numpy(), wanted)),
        "usable": of_triton.usable(),
    }
    with contextlib.suppress(Exception):  # the result of `usable` contains the error
        agree["kernel"] = bool(np.array_equal(of_triton.draw(*arguments).cpu().numpy(), wanted))
        agree["samples"], agree["norm"] = samples(), norm()
    return {**agree, "as_expected": all(agree.values())}


def samples() -> bool:
    """Check whether NCF samples drawn on the device equal the host's samples bit for bit."""
    import torch

    from workloads.ncf.samples.pytorch import Sampler

    with tempfile.TemporaryDirectory() as folder:
        dataset_info = synthetic_ncf.write(Path(folder))
        data = NCFData(
            synthetic_ncf.settings(folder), dataset_info, synthetic_ncf.place(0, range(1), 1), 5
        )
        (batch,) = next(data.train(0, 1))
        sampled = drawn_by_device(data.order(0), data.sharding.positions(0, 0), training_key(5, 0))
        order, draw = (torch.from_numpy(array).cuda() for array in sampled.values())
        found = Sampler.of(data, order.device)(order, draw, data.sharding.padded(0))
        data.close()
    return all(
        np.array_equal(found[name].cpu().numpy(), value) for name, value in batch.arrays.items()
    )


def norm() -> bool:
    """Check that fused batch norm, sum, and ReLU equal PyTorch's operators up to rounding.

    The outputs and the gradients are compared.
    """
    import torch
    import torch.nn.functional as F

    from workloads.frameworks.pytorch.norms import Fused

    x, shortcut, slope = torch.randn(3, 8, 70, 33, 33, device="cuda").unbind()
    weight, bias, mean, variance = torch.randn(4, 70, device="cuda").abs().unbind()
    results = []
    for fused in (True, False):
        leaves = [tensor.clone().requires_grad_() for tensor in (x, weight, bias, shortcut)]
        moved = mean.clone(), variance.clone()
        if fused:
            out = Fused.apply(*leaves, *moved, 0.1, 1e-5)
        else:
            out = torch.relu(
                F.batch_norm(leaves[0], *moved, *leaves[1:3], True, 0.1, 1e-5) + leaves[3]
            )
        results.append([out, *moved, *torch.autograd.grad(out, leaves, slope)])
    return all(
        bool((ours - plain).abs().max() < 1e-4 * plain.abs().max())
        for ours, plain in zip(*results, strict=True)
    )


def main() -> None:
    """Run the comparison and print its results as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload", choices=(*CASES, "kernels"))
    parser.add_argument("--device", default="cuda:0")
    args = parser.parse_args()
    print(
        json.dumps(
            kernels() if args.workload == "kernels" else compared(args.workload, args.device)
        )
    )


if __name__ == "__main__":
    main()
