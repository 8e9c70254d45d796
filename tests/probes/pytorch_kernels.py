"""Runs in PyTorch's environment: the Triton kernels, interpreted and compiled.

Triton's interpreter is selected with TRITON_INTERPRET=1. Compilation is for GPUs.
"""

import dataclasses
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch


def agree():
    """Map each case to whether the kernel's results equal the host's bit for bit."""
    from torchvision.ops import nms

    from workloads.common import dropout as host
    from workloads.frameworks.pytorch import kernels

    random = np.random.default_rng(0)
    keys, positions = random.integers(0, 1 << 62, (5, 1)), random.integers(0, 1 << 40, (1, 3))
    arguments = torch.from_numpy(keys), torch.from_numpy(positions)
    found = {}
    for label, width, rate in (("a", 4, 0.5), ("encoder1/relu", 36, 0.1), ("b", 1_024, 0.2)):
        drawn = kernels.draw(*arguments, label, width, rate).numpy()
        found[f"masks {label}"] = np.array_equal(
            drawn, host.multipliers_at(keys, positions, label, width, rate)
        )
    for count in (1, 7, 64, 200):
        corners = torch.from_numpy(random.random((3, count, 2), np.float32)) * 50
        sides = torch.from_numpy(random.random((3, count, 2), np.float32)) * 30
        boxes = torch.cat([corners, corners + sides], -1)
        kept = kernels.suppress(boxes, 0.5)
        for number, of_image in enumerate(boxes):
            wanted = torch.zeros(count)
            wanted[nms(of_image, torch.arange(count, 0, -1, dtype=torch.float32), 0.5)] = 1
            found[f"boxes {count} {number}"] = torch.equal(kept[number], wanted)
    return found | samples() | entropies() | norms() | drops() | pools() | masks()


def drops():
    """Check that dropout in the kernel equals dropout with a mask in memory, bit for bit.

    The rows are compared with and without a sum. Their gradients are compared too.
    """
    from workloads.common import dropout as host
    from workloads.frameworks.pytorch.dropout import Places

    found, random = {}, np.random.default_rng(1)
    keys, positions = (torch.from_numpy(random.integers(0, most, 6)) for most in (1 << 62, 99))
    for width, first, kind, added in (
        (36, 0, torch.float32, False),
        (1_040, 1_024, torch.float16, False),
        (1_040, 0, torch.float16, True),
    ):
        mask = host.multipliers_at(keys.numpy(), positions.numpy(), "x", first + width, 0.1)[
            :, first:
        ]
        mask = torch.from_numpy(mask)
        y, x, slope = (
            torch.from_numpy(random.normal(size=(6, width)).astype(np.float32)) for _ in range(3)
        )
        y, results = y.to(kind), []
        for by_kernel in (True, False):
            leaves = [y.clone().requires_grad_(), *([x.clone().requires_grad_()] * added)]
            if by_kernel:
                out = Places(keys, positions, 0.1).by_kernel(
                    leaves[0], "x", *leaves[1:], first=first
                )
            else:
                out = leaves[1] + leaves[0] * mask if added else leaves[0] * mask.to(kind)
            results.append([out, *torch.autograd.grad(out, leaves, slope.to(out.dtype))])
        pairs = list(zip(*results, strict=True))
        found[f"drop {width} {first}"] = all(
            torch.equal(*pair) and pair[0].dtype == pair[1].dtype for pair in pairs
        )
    return found


def pools():
    """Check that regions pooled on their levels equal pooling on a CPU up to rounding.

    The gradients of the maps are compared too.
    """
    from testing import synthetic_maskrcnn as synthetic
    from workloads.frameworks.pytorch import regions

    found = {}
    for side, kind, close in ((3, torch.float32, 1e-5), (2, torch.float16, 1e-2)):
        maps, box, level, slope = synthetic.maps_and_regions(side)
        inputs = (
            box[:, :5],
            level[:, :5],
            slope[:10],
        )  # the interpreter needs a millisecond or two per sample
        (box, level, slope), results = map(torch.from_numpy, inputs), []
        for by_kernel in (False, True):
            leaves = [torch.from_numpy(tensor).to(kind).requires_grad_() for tensor in maps]
            if by_kernel:
                out = regions.PooledLevel.apply(box, level, synthetic.STRIDES, side, *leaves)
            else:
                out = regions.pool(leaves, synthetic.STRIDES, box, level, side)
            results.append([out, *torch.autograd.grad(out, leaves, slope.to(kind))])
        for number, pair in enumerate(zip(*results, strict=True)):
            wanted, ours = (tensor.detach().double() for tensor in pair)
            found[f"pool {side} {number}"] = bool(
                (ours - wanted).abs().max() <= close * wanted.abs().max()
            )
    return found


def masks(seeds=(0, 4), sides=(28,), most=6):
    """Check that every pixel of masks equals COCO's.

    `most` masks of tests/workloads/maskrcnn are drawn, including vertices where rounding matters.
    The interpreter needs a tenth of a second per mask.
    """
    from testing import synthetic_maskrcnn as synthetic
    from workloads.frameworks.pytorch import kernels
    from workloads.maskrcnn import masks as host

    found = {}
    for seed in seeds:
        random = np.random.default_rng(seed)
        plain, flat = synthetic.some_objects(random, [1, 3, 2, 1])
        for side in sides:
            owners, rois = (array[:most] for array in synthetic.regions_of(plain, random))
            if seed == 4:
                rois = np.round(rois)[:, [0, 1, 0, 1]] + np.array([0, 0, side, side], np.float32)
                flat = dataclasses.replace(flat, points=np.round(flat.points * 10) / np.float32(10))
            wanted = host.targets(rois, owners, flat, side)
            inputs = rois[None], np.ones((1, len(rois)), np.int32), owners[None]
            boxes, labels, owners, *polygons = (
                torch.from_numpy(array) for array in (*inputs, *vars(flat).values())
            )
            drawn = kernels.draw_masks(boxes, labels, owners, len(plain), polygons, side)
            found[f"masks {seed} {side}"] = np.array_equal(drawn[0].numpy(), wanted)
    return found


def entropies():
    """Check sums and gradients of smoothed cross-entropies against PyTorch.

    The logits are random and have several widths.
    """
    from workloads.frameworks.pytorch import kernels

    found, generator = {}, torch.Generator().manual_seed(1)
    for width, dtype, close in (
        (5, torch.float32, 1e-6),
        (9_000, torch.float32, 1e-6),
        (4_096, torch.bfloat16, 4e-3),
    ):
        logits = (8 * torch.randn(6, width, generator=generator)).to(dtype)
        labels = torch.tensor([1, 0, 4, width - 1, 2, 0])
        terms, normal = kernels.entropy(logits, labels, 0.9, 0.1, 0)
        steep = kernels.entropy_gradient(logits, labels, normal, torch.tensor(3.0), 0.9, 0.1, 0)
        exact = logits.double().requires_grad_()
        wanted = torch.nn.functional.cross_entropy(
            exact, labels, ignore_index=0, reduction="none", label_smoothing=0.1
        )  # fmt: skip
        (slope,) = torch.autograd.grad(3 * wanted.sum(), exact)
        found[f"entropy {width}"] = torch.allclose(terms.double(), wanted, rtol=1e-6, atol=1e-6)
        found[f"its gradient {width}"] = steep.dtype == dtype and torch.allclose(
            steep.double(), slope, rtol=close, atol=close
        )
    return found


def samples():
    """Check NCF's samples of two steps against the host, for the kernel and for operators.

    The steps are the first and the last of the second epoch, for both replicas.
    """
    from testing import synthetic_ncf
    from testing.synthetic import place
    from workloads.ncf.data import NCFData, drawn_by_device
    from workloads.ncf.samples.pytorch import Sampler
    from workloads.ncf.sampling import training_key

    found, cpu = {}, torch.device("cpu")
    with tempfile.TemporaryDirectory() as name:
        dataset_info = synthetic_ncf.write(Path(name))
        data = NCFData(
            synthetic_ncf.settings(name, changes={"round": {}}),
            dataset_info,
            place(0, range(2), 2),
            5,
        )
        sampler, order, last = Sampler.of(data, cpu), data.order(1), 2 * data.steps_per_epoch - 1
        for step in (data.steps_per_epoch, last):
            for replica, batch in enumerate(next(data.train(step, step + 1))):
                positions = data.sharding.positions(step, replica)
                sample = drawn_by_device(order, positions, training_key(5, 1))
                arguments = (
                    *(torch.from_numpy(array) for array in sample.values()),
                    data.sharding.padded(step),
                )
                for form in (sampler.by_kernel, sampler.by_operators):
                    drawn = form(*arguments)
                    same = [
                        np.array_equal(drawn[name].numpy(), value)
                        for name, value in batch.arrays.items()
                    ]
                    found[f"samples {step} {replica} {form.__name__}"] = len(same) == 4 and all(
                        same
                    )
        data.close()
    return found


def norms():
    """Check that `norms.Fused` gives PyTorch's map, gradients and running statistics.

    The norm is computed with and without a shortcut.
    """
    from workloads.frameworks.pytorch import norms
    from workloads.frameworks.pytorch.norms import Fused

    norms.PARTS = 8  # few enough that a part has several tiles
    found, generator = {}, torch.Generator().manual_seed(2)
    for channels, size, added in ((5, 3, False), (70, 7, True), (16, 30, False)):
        shape = (2, channels, size, size)
        x, shortcut, slope = (torch.randn(shape, generator=generator) for _ in range(3))
        x, running = x * 3 + 50, [torch.zeros(channels), torch.ones(channels)]
        weight, bias = (
            torch.rand(channels, generator=generator) + 0.5,
            torch.randn(channels, generator=generator),
        )
        bias += 30 * (size == 30)  # otherwise rounding would change a sign
        results = []
        for kind in (torch.float32, torch.float64):
            leaves = [tensor.to(kind).requires_grad_() for tensor in (x, weight, bias, shortcut)]
            moved = [tensor.clone().to(kind) for tensor in running]
            if kind == torch.float32:
                out = Fused.apply(*leaves[:3], leaves[3] if added else None, *moved, 0.1, 1e-5)
            else:
                out = torch.nn.functional.batch_norm(
                    leaves[0], *moved, *leaves[1:3], True, 0.1, 1e-5
                )
                out = torch.relu(out + leaves[3] if added else out)
            wanted = leaves if added else leaves[:3]
            results.append([out, *moved, *torch.autograd.grad(out, wanted, slope.to(kind))])
        for number, (ours, exact) in enumerate(zip(*results, strict=True)):
            apart = (ours.detach().double() - exact.detach()).abs().max() / exact.abs().max()
            found[f"norm {channels} {number}"] = bool(apart < 2e-5)
    return found


def norm_sources():
    """Yield the batch-norm kernels on a bf16 map: kernel, signature, fixed arguments, options."""
    from workloads.frameworks.pytorch import norms
    from workloads.frameworks.pytorch.kernels import norm_kernels

    fixed = {"SUM": True, "ROWS": norms.ROWS, "CHANNELS": norms.CHANNELS, "PARTS": norms.PARTS}
    maps, whole = (
        ("x", "shortcut", "out", "gradient", "passed", "back"),
        ("rows", "channels", "each", "parts"),
    )
    kinds = {
        **dict.fromkeys(maps, "*bf16"),
        **dict.fromkeys(whole, "i32"),
        "momentum": "fp32",
        "epsilon": "fp32",
    }
    for kernel in (
        norm_kernels.statistics,
        norm_kernels.joined,
        norm_kernels.applied,
        norm_kernels.slopes,
        norm_kernels.returned,
    ):
        names = kernel.arg_names
        signature = {
            name: "constexpr" if name in fixed else kinds.get(name, "*fp32") for name in names
        }
        constants = {**fixed, "CHANNELS": 16} if "PARTS" in names else fixed
        yield (
            kernel,
            signature,
            {(place,): constants[name] for place, name in enumerate(names) if name in constants},
            {},
        )


def compiled(capability):
    """Map each kernel to the size of its machine code for a compute capability.

    The capability 90 means 9.0. The kernels are not run.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from workloads.frameworks.pytorch import kernels
    from workloads.frameworks.pytorch.kernels import region_kernels, triton_kernels

    of_masks = {
        "keys": "*i64",
        "positions": "*i64",
        "out": "*fp32",
        "begin": "i64",
        "least": "i32",
        "factor": "fp32",
    }
    of_boxes = {
        "boxes": "*fp32",
        "keeps": "*fp32",
        "count": "i32",
        "most_iou": "fp32",
        "SIZE": "constexpr",
    }
    of_samples = {
        "order": "*i32", "draw": "*i64", "of_user": "*i32", "of_item": "*i32", "bitmap": "*u8",
        "users": "*i64", "items": "*i64", "labels": "*fp32", "weights": "*fp32", "count": "i32",
        "size": "i32", "left_size": "i32", "right_size": "i32", "width": "i32",
        "items_total": "i32", "row_bytes": "i32",
        "ROUNDS": "constexpr", "NEGATIVES": "constexpr", "BLOCK": "constexpr",
    }  # fmt: skip
    of_logits = {
        "logits": "*bf16", "labels": "*i64", "normal": "*fp32", "on_label": "fp32",
        "on_mean": "fp32", "padding": "i32", "width": "i32", "BLOCK": "constexpr",
    }  # fmt: skip
    of_drops = {
        "y": "*bf16", "x": "*fp32", "keys": "*i64", "positions": "*i64", "out": "*fp32",
        "begin": "i64", "first": "i32", "least": "i32", "factor": "fp32", "each": "i32",
        "ADDED": "constexpr", "BLOCK": "constexpr",
    }  # fmt: skip
    whole = ("number", "stride", "height", "width", "channels", "of_image")
    of_pools = {
        "cells": "*fp32", "boxes": "*fp32", "levels": "*i32", "pooled": "*bf16",
        **dict.fromkeys(whole, "i32"),
        **dict.fromkeys(("BACK", "SIDE", "SAMPLES", "CHANNELS"), "constexpr"),
    }  # fmt: skip
    ends = dict.fromkeys(("owners", "polygon_ends", "object_ends"), "*i64")
    of_polygons = {
        "boxes": "*fp32", "labels": "*i32", "owners": "*i64", "points": "*fp32", **ends,
        "out": "*fp32", **dict.fromkeys(("regions", "slots", "objects", "side"), "i32"),
        "SIZE": "constexpr",
    }  # fmt: skip
    order = (
        "logits",
        "labels",
        "terms",
        "normal",
        "gradient",
        "out",
        "on_label",
        "on_mean",
        "padding",
        "width",
        "BLOCK",
    )
    of_terms, of_slopes = (
        of_logits | {"terms": "*fp32"},
        of_logits | {"gradient": "*fp32", "out": "*bf16"},
    )
    of_terms, of_slopes = (
        {name: kinds[name] for name in order if name in kinds} for kinds in (of_terms, of_slopes)
    )
    sources = {
        "entropy": (of_terms, {(8,): kernels.LOGITS}, {"num_warps": 8}),
        "entropy_gradient": (of_slopes, {(9,): kernels.LOGITS}, {"num_warps": 8}),
        "rated": (of_samples, {(16,): 6, (17,): 4, (18,): kernels.HASHES}, {}),
        "draw": (
            of_masks | {"count": "i32", "each": "i32", "BLOCK": "constexpr"},
            {(8,): kernels.HASHES},
            {},
        ),
        "suppress": (of_boxes, {(4,): 2_048}, {"num_warps": 8}),
        "drop": (of_drops, {(10,): True, (11,): kernels.HASHES // 4}, {"enable_fp_fusion": False}),
        "pool": (of_pools, {(10,): True, (11,): 7, (12,): 2, (13,): 256}, {}),
        "draw_masks": (of_polygons, {(11,): 32}, {"enable_fp_fusion": False}),
    }
    modules = (triton_kernels, region_kernels)
    pairs = [
        (getattr(next(module for module in modules if hasattr(module, name)), name), *arguments)
        for name, arguments in sources.items()
    ]
    pairs += norm_sources()
    return {
        kernel.__name__: len(
            triton.compile(
                ASTSource(kernel, signature, fixed), GPUTarget("cuda", capability, 32), options
            ).asm["cubin"]
        )
        for kernel, signature, fixed, options in pairs
    }


if __name__ == "__main__":
    asked = {
        "agree": agree,
        "compiled": compiled,
        "every_mask": lambda: masks(range(5), (28, 14), 30),
    }
    print(json.dumps(asked[sys.argv[1]](*map(int, sys.argv[2:]))))
