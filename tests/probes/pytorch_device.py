"""Run inside PyTorch's environment: what trainers and optimizers copy to a fake CUDA device."""

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
    """Names of the operators that bring a value of the host to the device and wait for that."""
    changes, rules = VARIANTS[skipping(optimizer, "pytorch")]
    settings = dataclasses.replace(OPTIMIZERS[optimizer], **changes)
    # PyTorch 2.11 has no fake implementation of this one operator.
    with FakeTensorMode(), mock.patch.object(torch, "_fused_sgd_") as fused:
        parameters = {
            name: torch.zeros(shape, device="cuda", requires_grad=True)
            for name, shape in SHAPES.items()
        }
        for parameter in parameters.values():
            parameter.grad = torch.zeros_like(parameter)
        made = build_optimizer(parameters, lambda name: rules.get(name, ParameterRule()), settings)
        scaler = LossScaler(settings.loss_scaling, torch.device("cuda"))
        gradients = [parameter.grad for parameter in made.parameters.values()]
        with RunMonitor() as watch:
            overflow = scaler.unscale(gradients)
            clip(gradients, settings.clip_norm)
            made.step(0.1, overflow)
            scaler.update(overflow)
    assert fused.called == (optimizer == "sgd")
    assert all(call.kwargs["found_inf"] is overflow for call in fused.call_args_list)
    assert (overflow is None) == (optimizer not in SKIPPING["pytorch"])
    assert overflow is None or overflow.device.type == "cuda"
    return waiting(watch)


def regions_copies():
    """As `copies`, of what Mask R-CNN decides on the device between its halves and pools there,
    suppression left out.

    Fake tensors have no values: what asks for one fails.
    """
    levels, images, objects, cells = 3, 2, 5, 48
    chosen = RegionRules(
        before_nms=(16, 16), after_nms=(8, 8), of_batch=24, of_image=8, regions=16, positives=4, detections=4,
        levels=levels, level_size=224.0, level_base=4, mask_side=8,
    )  # fmt: skip
    every = mock.patch.object(
        on_gpu, "kept", lambda boxes, scores, most_iou: torch.ones_like(scores)
    )
    with every, FakeTensorMode():
        made = functools.partial(torch.ones, device="cuda")
        batch = {
            "size": made((images, 2), dtype=torch.int32),
            "box": made(images, objects, 4),
            "label": made((images, objects), dtype=torch.int32),
            "keys": made((images, 2), dtype=torch.int64),
        }
        anchors = [made(cells, 4) for _ in range(levels)]
        with RunMonitor() as watch:
            found = on_gpu.learned(
                made(images, levels * cells),
                made(images, levels * cells, 4),
                anchors,
                batch,
                chosen,
            )
            box = found["box"].flatten(0, 1)
            maps = [made(images, 24, side, side) for side in (16, 8, 4)]
            rows, level = torch.cat([box[:, :1] * 0, box], 1), found["level"].flatten()
            found["pooled"] = regions._pool_on_device(maps, (4, 8, 16), rows, level, 7)
    assert {one.device.type for one in found.values()} == {"cuda"}
    assert found["pooled"].shape == (images * chosen.regions, 24, 7, 7)
    return waiting(watch)


def transformer_copies():
    """As `copies`, of the Transformer's loss with dropout.

    Beside them, how many copies there are.
    """
    workload = synthetic_transformer.workload("dropout", "pytorch")
    batch = synthetic_transformer.batch(workload, 0)
    trainer = load_trainer("transformer", "pytorch")(workload, ALONE)
    trainer.device = torch.device("cuda")
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        with torch.device("cuda"):
            trainer.model = trainer.training_model = trainer.build()
        trainer.model.positions = torch.empty(trainer.model.positions.shape, device="cuda")

        def pinned(tensor):
            """There is no pinned memory without a GPU."""
            found = mode.from_tensor(tensor)
            found.pinned = True
            return found

        with RunMonitor() as watch, mock.patch.object(torch.Tensor, "pin_memory", pinned):
            found = trainer._loss(batch)
    assert found.device.type == "cuda"
    return waiting(watch), sum(
        is_copy(name, (*given, made)) for name, given, _, made in watch.calls
    )


def waiting(watch):
    """Names of the operators that were seen to copy between host and device and to wait for it: to
    the device also where memory is not pinned.
    """
    found = []
    for name, arguments, keywords, made in watch.calls:
        tensors = (*arguments, made)
        free = keywords.get("non_blocking") and any(
            getattr(tensor, "pinned", False) for tensor in tensors
        )
        found += [name] if is_copy(name, tensors) and not free else []
    return found


def is_copy(name, tensors):
    """Whether the operator copies between host and device."""
    devices = {tensor.device.type for tensor in tensors if isinstance(tensor, torch.Tensor)}
    return name in ("aten::_to_copy", "aten::copy_") and devices == {"cpu", "cuda"}


def copied():
    """By name: operators that bring a value of the host to a fake CUDA device and wait for that;
    `…/all`: how many copies.
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
    """`gib` of 3 and of 1 GiB measured one after the other, on a device that knows its peak since
    it was told to forget it.
    """
    memory, made = {"peak": 0}, mock.MagicMock()
    made.open_data().train.side_effect = lambda *_: iter(range(100))
    made.time_steps = lambda items, seconds: seconds.append(1.0)
    found = []
    with (
        mock.patch.multiple(
            torch.cuda,
            max_memory_allocated=lambda: memory["peak"],
            reset_peak_memory_stats=lambda: memory.update(peak=0),
        ),
        mock.patch.object(runs, "worker_context_from_env"),
        mock.patch.multiple(
            runs, load_workload=lambda _: lambda *_: made, load_trainer=lambda *_: lambda *_: made
        ),
    ):
        for size in (3 << 30, 1 << 30):
            made.setup = lambda *_, size=size: memory.update(peak=max(memory["peak"], size))
            found.append(why.step_ms(mock.MagicMock())["peak_gib"])
    return {"gib": found}
