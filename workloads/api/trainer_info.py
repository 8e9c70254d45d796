"""Description of a trainer: its class and the settings that it supports.

The controller reads it without the framework.

A workload's package has a module `trainers` with a mapping `TRAINERS`, from the name of a framework
to a `TrainerInfo`. A package with a framework declares the trainers of existing workloads in the
entry-point group `suite.trainers`: the name of the entry point is the framework, and its object is
a mapping from the name of a workload to a `TrainerInfo`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

from workloads import entry_points
from workloads.api.messages import invalid_choice
from workloads.api.updates import LossScaling

MODULE = "trainers"
"""Name of the module that defines `TRAINERS`. Every workload's package has one."""


@dataclass(frozen=True)
class TrainerInfo:
    """Class of a trainer, and the settings that it supports."""

    trainer: str
    """Class of the trainer, such as `workloads.ssd.pytorch:SSDTrainer`.

    `load` imports it, and with it the framework.
    """
    precisions: tuple[str, ...] = ("fp32",)
    """Allowed values of `precision`."""
    linear_backend: bool = False
    """Whether `framework.linear_backend` selects the library of linear layers in fp32 on CPU cores.
    """
    max_cuda_graph_devices: float = 0
    """Largest number of GPUs with which a training step can be launched as a CUDA graph
    (`framework.graphs`). 0: never.
    """
    async_updates: bool = False
    """Whether `update=async` is supported. It is not possible for a model with batch norm."""
    fp16_loss_scaling: LossScaling = LossScaling("static", start=128.0)
    """Loss scaling with `precision=fp16`.

    The default matches the ResNet reference (resnet_run_loop.py) and NVIDIA's v0.5 entry of SSD.
    """

    @property
    def module(self) -> str:
        """Module of the class."""
        return self.trainer.partition(":")[0]

    def load(self) -> type[Any]:
        """Import and return the class."""
        loaded: type[Any] = pkgutil.resolve_name(self.trainer)
        return loaded


def get_trainer(workload: type, framework: str) -> TrainerInfo:
    """Return the trainer of a workload in a framework.

    Raises ValueError, with the allowed names, if it does not exist.

    Args:
        workload: Class of the workload.
        framework: Name of the framework.
    """
    info = find_trainer(workload, framework)
    if info is None:
        raise invalid_choice(
            f"framework (for workload={_name(workload)})", framework, frameworks_of(workload)
        )
    return info


def find_trainer(workload: type, framework: str) -> TrainerInfo | None:
    """Return the trainer of a workload in a framework, or None.

    Args:
        workload: Class of the workload.
        framework: Name of the framework.

    Raises:
        ValueError: The workload's package and an installed package both define this trainer, or a
            mapping is invalid.
    """
    packaged = package_trainers(workload).get(framework)
    installed = framework_trainers(framework).get(_name(workload))
    if packaged and installed:
        raise ValueError(
            f"{packaged.module} and {installed.module} both define a trainer for {framework}. Use"
            " only one of them"
        )
    return packaged or installed


def frameworks_of(workload: type) -> list[str]:
    """Return the sorted names of the frameworks that have a trainer for a workload class."""
    installed = entry_points.points(entry_points.TRAINERS)
    names = {*package_trainers(workload), *installed}
    return sorted(name for name in names if find_trainer(workload, name))


@cache
def package_trainers(workload: type) -> Mapping[str, TrainerInfo]:
    """Return `TRAINERS` of the workload's package, by framework.

    The class of the workload may be derived from a workload of a different package. Without a
    module `trainers` in its package, it has the trainers of that workload.
    """
    for kind in workload.__mro__:
        spec = getattr(sys.modules.get(kind.__module__), "__spec__", None)
        name = f"{spec.parent}.{MODULE}" if spec is not None and spec.parent else ""
        if name and find_spec(name) is not None:
            return _checked(
                getattr(importlib.import_module(name), "TRAINERS", None), f"{name}:TRAINERS"
            )
    return {}


def framework_trainers(framework: str) -> Mapping[str, TrainerInfo]:
    """Return the trainers that the entry point of a framework declares, by workload.

    Empty without an entry point.
    """
    point = entry_points.points(entry_points.TRAINERS).get(framework)
    return _checked(point.load(), point.value) if point is not None else {}


def _name(workload: type) -> str:
    return str(getattr(workload, "name", workload.__name__))


def _checked(trainers: Any, source: str) -> Mapping[str, TrainerInfo]:
    """Return the mapping. Raises ValueError if it is not a mapping of names to `TrainerInfo`."""
    if not isinstance(trainers, Mapping) or not all(
        isinstance(info, TrainerInfo) for info in trainers.values()
    ):
        raise ValueError(
            f"{source}: expected a mapping of names to workloads.api.TrainerInfo, got"
            f" {trainers!r:.80}"
        )
    return trainers
