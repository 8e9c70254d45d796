"""Base class of workloads without data, which compare trainers with float64 NumPy.

It needs no framework.
"""

from __future__ import annotations

import dataclasses

from workloads.api import Batch, DatasetInfo, OptimizerSettings, Settings, Workload

STEPS = 10


@dataclasses.dataclass(frozen=True)
class Options:
    """Option `compile` of image workloads."""

    compile: str = "off"


class Synthetic(Workload):
    """Workload of `replicas` devices with `samples` per step each.

    Subclasses define shapes, weights, and batches.
    """

    Options = Options
    steps_of_run = STEPS
    open_data = defaults = load_dataset_info = None  # The tests do not call them.

    def __init__(
        self,
        updates: OptimizerSettings,
        replicas: int,
        samples: int,
        compile: str = "off",
        mode: str = "train",
    ):
        settings = Settings(
            workload="synthetic", devices=replicas, global_batch_size=replicas * samples,
            precision="fp32", nodes=1, cores_per_device=1, device="cpu", mode=mode,
            options={"compile": compile},
        )  # fmt: skip
        super().__init__(settings, DatasetInfo(100, 100, {}, "synthetic"))
        self.updates = updates

    def optimizer(self):
        return self.updates

    def batch(self, step: int, replica: int = 0) -> Batch:
        raise NotImplementedError

    def steps(self, replicas) -> list[list[Batch]]:
        """Return the batches of these replicas for every step."""
        return [
            [self.batch(step, replica) for replica in replicas] for step in range(self.steps_of_run)
        ]
