"""Runs in PyTorch's environment: copies of trainers and optimizers to a fake CUDA device."""

import dataclasses
import functools
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks.gpu import runs, why
from suite.common.registry import load_trainer
from testing import synthetic_transformer
from tests.probes.pytorch_step import RunMonitor
from tests.workloads.frameworks.synthetic_updates import (
    OPTIMIZERS,
    SHAPES,
    SKIPPING,
    VARIANTS,
    skipping,
)
from workloads.api import ParameterRule, WorkerContext
from workloads.frameworks.pytorch import regions
from workloads.frameworks.pytorch.optimizers import LossScaler, build_optimizer, clip
from workloads.maskrcnn.regions import pytorch as on_gpu
from workloads.maskrcnn.regions.rules import RegionRules

ALONE = WorkerContext(0, 1, range(1), 1, ("cpu",))


def copies(optimizer):
    """Return the operators that copy a host value to the device and wait for the copy."""
    changes, rules = VARIANTS[skipping(optimizer, "pytorch")]
    settings = dataclasses.replace(OPTIMIZERS[optimizer], **changes)
    # PyTorch 2.11 has no fake implementation of this operator.
    with FakeTensorMode(), mock.patch.object(torch, "_fused_sgd_") as fused:
        parameters = {
            name: torch.zeros(shape, device="cuda", requires_grad=True)
            for name, shape in SHAPES.items()
        }
        for parameter in parameters.values():
            parameter.grad = torch.zeros_like(parameter)
        built = build_optimizer(parameters, lambda name: rules.get(name, ParameterRule()), settings)
        scaler = LossScaler(settings.loss_scaling, torch.device("cuda"))
        gradients = [parameter.grad for parameter in built.parameters.values()]
        with RunMonitor() as watch:
            overflow = scaler.unscale(gradients)
            clip(gradients, settings.clip_norm)
            built.step(0.1, overflow)
            scaler.update(overflow)
    assert fused.called == (optimizer == "sgd")
    assert all(call.kwargs["found_inf"] is overflow for call in fused.call_args_list)
    assert (overflow is None) == (optimizer not in SKIPPING["pytorch"])
    assert overflow is None or overflow.device.type == "cuda"
    return waiting(watch)


def regions_copies():
    """Return the waiting copies of Mask R-CNN's decisions and pooling on the device.

    The decisions are made between the two halves of the network. Suppression is left out. Fake
    tensors have no values, so code that reads a value fails.
    """
    levels, images, objects, cells = 3, 2, 5, 48
    chosen = RegionRules(
        before_nms=(16, 16), after_nms=(8, 8), of_batch=24, of_image=8, regions=16, positives=4,
        detections=4, levels=levels, level_size=224.0, level_base=4, mask_side=8,
    )  # fmt: skip
    every = mock.patch.object(
        on_gpu, "kept", lambda boxes, scores, most_iou: torch.ones_like(scores)
    )
    with every, FakeTensorMode():
        ones = functools.partial(torch.ones, device="cuda")
        batch = {
            "size": ones((images, 2), dtype=torch.int32),
            "box": ones(images, objects, 4),
            "label": ones((images, objects), dtype=torch.int32),
            "keys": ones((images, 2), dtype=torch.int64),
        }
        anchors = [ones(cells, 4) for _ in range(levels)]
        with RunMonitor() as watch:
            found = on_gpu.learned(
                ones(images, levels * cells),
                ones(images, levels * cells, 4),
                anchors,
                batch,
                chosen,
            )
            box = found["box"].flatten(0, 1)
            maps = [ones(images, 24, side, side) for side in (16, 8, 4)]
            rows, level = torch.cat([box[:, :1] * 0, box], 1), found["level"].flatten()
            found["pooled"] = regions._pool_on_device(maps, (4, 8, 16), rows, level, 7)
    assert {tensor.device.type for tensor in found.values()} == {"cuda"}
    assert found["pooled"].shape == (images * chosen.regions, 24, 7, 7)
    return waiting(watch)


def transformer_copies():
    """Return the waiting copies of the Transformer's loss with dropout, and the number of all."""
    workload = synthetic_transformer.workload("dropout", "pytorch")
    batch = synthetic_transformer.batch(workload, 0)
    trainer = load_trainer("transformer", "pytorch")(workload, ALONE)
    trainer.device = torch.device("cuda")
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        with torch.device("cuda"):
            trainer.model = trainer.training_model = trainer.build()
        trainer.model.positions = torch.empty(trainer.model.positions.shape, device="cuda")

        def pinned(tensor):
            """Return a fake pinned tensor, because pinned memory needs a GPU."""
            found = mode.from_tensor(tensor)
            found.pinned = True
            return found

        with RunMonitor() as watch, mock.patch.object(torch.Tensor, "pin_memory", pinned):
            found = trainer._loss(batch)
    assert found.device.type == "cuda"
    return waiting(watch), sum(
        is_copy(name, (*arguments, result)) for name, arguments, _, result in watch.calls
    )


def waiting(watch):
    """Return the operators in `watch` that copied between host and device and waited.

    Copies to the device wait if their memory is not pinned.
    """
    found = []
    for name, arguments, keywords, result in watch.calls:
        tensors = (*arguments, result)
        free = keywords.get("non_blocking") and any(
            getattr(tensor, "pinned", False) for tensor in tensors
        )
        found += [name] if is_copy(name, tensors) and not free else []
    return found


def is_copy(name, tensors):
    """Check whether the operator copies between host and device."""
    devices = {tensor.device.type for tensor in tensors if isinstance(tensor, torch.Tensor)}
    return name in ("aten::_to_copy", "aten::copy_") and devices == {"cpu", "cuda"}


def copied():
    """Return the operators that copy a host value to a fake CUDA device and wait, by case.

    `…/all` is the number of all copies.
    """
    transformer, count = transformer_copies()
    updates = {optimizer: copies(optimizer) for optimizer in OPTIMIZERS}
    return {
        **updates,
        "regions": regions_copies(),
        "transformer": transformer,
        "transformer/all": count,
    }


def peaks():
    """Return the measured `gib` of a variant with 3 GiB, then of a variant with 1 GiB.

    The fake device keeps its peak until the statistics are reset.
    """
    memory, trainer = {"peak": 0}, mock.MagicMock()
    trainer.open_data().train.side_effect = lambda *_: iter(range(100))
    trainer.time_steps = lambda items, seconds: seconds.append(1.0)
    found = []
    with (
        mock.patch.multiple(
            torch.cuda,
            max_memory_allocated=lambda: memory["peak"],
            reset_peak_memory_stats=lambda: memory.update(peak=0),
        ),
        mock.patch.object(runs, "worker_context_from_env"),
        mock.patch.multiple(
            runs,
            load_workload=lambda _: lambda *_: trainer,
            load_trainer=lambda *_: lambda *_: trainer,
        ),
    ):
        for size in (3 << 30, 1 << 30):
            trainer.setup = lambda *_, size=size: memory.update(peak=max(memory["peak"], size))
            found.append(why.step_ms(mock.MagicMock())["peak_gib"])
    return {"gib": found}
