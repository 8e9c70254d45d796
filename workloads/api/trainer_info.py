"""Description of a trainer: its class and the settings that it supports.

The controller reads the description without importing the framework.

The package of a workload has a module `trainers` with a mapping `TRAINERS`. The keys of the mapping
are framework names, and the values are `TrainerInfo` instances. A framework package declares
trainers of existing workloads in the entry-point group `suite.trainers`. The name of the entry
point is the framework's name. The object of the entry point is a mapping from workload names to
`TrainerInfo` instances.
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
"""Name of the module that defines `TRAINERS`. Every workload package has such a module."""


@dataclass(frozen=True)
class TrainerInfo:
    """Class of a trainer, and the settings that it supports."""

    trainer: str
    """Class of the trainer, such as `workloads.ssd.pytorch:SSDTrainer`.

    `load` imports the class, and thereby also imports the framework.
    """
    precisions: tuple[str, ...] = ("fp32",)
    """Supported values of `precision`."""
    linear_backend: bool = False
    """True if `framework.linear_backend` can select the library for fp32 linear layers on CPU
    cores.
    """
    max_cuda_graph_devices: float = 0
    """Maximum number of GPUs with which a training step can be launched as a CUDA graph
    (`framework.graphs`). The value 0 disables CUDA graphs.
    """
    async_updates: bool = False
    """True if the trainer supports `update=async`. A model with batch norm cannot support
    `update=async`.
    """
    fp16_loss_scaling: LossScaling = LossScaling("static", start=128.0)
    """Loss scaling with `precision=fp16`.

    The default matches the ResNet reference (resnet_run_loop.py) and NVIDIA's v0.5 submission of
    SSD.
    """

    @property
    def module(self) -> str:
        """Return the name of the module that contains the trainer class."""
        return self.trainer.partition(":")[0]

    def load(self) -> type[Any]:
        """Import and return the trainer class."""
        loaded: type[Any] = pkgutil.resolve_name(self.trainer)
        return loaded


def get_trainer(workload: type, framework: str) -> TrainerInfo:
    """Return the trainer of a workload in a framework.

    Args:
        workload: Class of the workload.
        framework: Name of the framework.

    Raises:
        ValueError: The workload has no trainer in this framework. The message contains the allowed
            names.
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
    """Return the mapping `TRAINERS` of the workload's package, by framework.

    A workload class may be derived from a workload in a different package. If the package of the
    derived class has no module `trainers`, the function returns the trainers of the base workload.
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

    The mapping is empty if the framework has no entry point.
    """
    point = entry_points.points(entry_points.TRAINERS).get(framework)
    return _checked(point.load(), point.value) if point is not None else {}


def _name(workload: type) -> str:
    return str(getattr(workload, "name", workload.__name__))


def _checked(trainers: Any, source: str) -> Mapping[str, TrainerInfo]:
    """Return `trainers`, or raise ValueError if it does not map names to `TrainerInfo`."""
    if not isinstance(trainers, Mapping) or not all(
        isinstance(info, TrainerInfo) for info in trainers.values()
    ):
        raise ValueError(
            f"{source}: expected a mapping of names to workloads.api.TrainerInfo, got"
            f" {trainers!r:.80}"
        )
    return trainers
