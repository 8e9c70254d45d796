"""Run in PyTorch's environment: our kernels of Triton, in its interpreter (TRITON_INTERPRET=1) and compiled for devices."""

import json
import sys

import numpy as np
import torch


def agree():
    """Name to whether a kernel gives what the host's form gives, bit for bit."""
    from torchvision.ops import nms

    from workloads.common import dropout as host
    from workloads.frameworks.pytorch import kernels

    random = np.random.default_rng(0)
    keys, positions = random.integers(0, 1 << 62, (5, 1)), random.integers(0, 1 << 40, (1, 3))
    given = torch.from_numpy(keys), torch.from_numpy(positions)
    found = {}
    for label, width, rate in (("a", 4, 0.5), ("encoder1/relu", 36, 0.1), ("b", 1_024, 0.2)):
        drawn = kernels.draw(*given, label, width, rate).numpy()
        found[f"masks {label}"] = np.array_equal(drawn, host.multipliers_at(keys, positions, label, width, rate))
    for count in (1, 7, 64, 200):
        corners = torch.from_numpy(random.random((3, count, 2), np.float32)) * 50
        sides = torch.from_numpy(random.random((3, count, 2), np.float32)) * 30
        boxes = torch.cat([corners, corners + sides], -1)
        kept = kernels.suppress(boxes, 0.5)
        for number, of_image in enumerate(boxes):
            wanted = torch.zeros(count)
            wanted[nms(of_image, torch.arange(count, 0, -1, dtype=torch.float32), 0.5)] = 1
            found[f"boxes {count} {number}"] = torch.equal(kept[number], wanted)
    return found


def compiled():
    """Compute capability to the bytes of each kernel's machine code; nothing runs."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from workloads.frameworks.pytorch import kernels
    from workloads.frameworks.pytorch.kernels import triton_kernels

    of_masks = {"keys": "*i64", "positions": "*i64", "out": "*fp32", "begin": "i64", "least": "i32", "factor": "fp32"}
    of_boxes = {"boxes": "*fp32", "keeps": "*fp32", "count": "i32", "most_iou": "fp32", "SIZE": "constexpr"}
    sources = {
        "draw": (of_masks | {"count": "i32", "each": "i32", "BLOCK": "constexpr"}, {(8,): kernels.HASHES}, {}),
        "suppress": (of_boxes, {(4,): 2_048}, {"num_warps": 8}),
    }
    return {
        f"{capability} {name}": len(
            triton.compile(
                ASTSource(getattr(triton_kernels, name), signature, fixed), GPUTarget("cuda", capability, 32), options
            ).asm["cubin"]
        )
        for capability in (70, 75, 80, 90, 100)
        for name, (signature, fixed, options) in sources.items()
        if capability >= 75 or triton.__version__ < "3.4"  # PyTorch 2.11's Triton has no Volta, nor has PyTorch
    }


if __name__ == "__main__":
    print(json.dumps({"agree": agree, "compiled": compiled}[sys.argv[1]]()))
