"""What workloads without data share, which hold trainers against float64 NumPy; free of frameworks."""

from __future__ import annotations

import dataclasses

from workloads.api import Batch, DatasetInfo, OptimizerSettings, Settings, Workload

STEPS = 10


@dataclasses.dataclass(frozen=True)
class Options:
    """`compile` as image workloads have it."""

    compile: str = "off"


class Synthetic(Workload):
    """A workload of `replicas` devices, each with `samples` a step; subclasses give shapes, weights
    and batches.
    """

    Options = Options
    steps_of_run = STEPS
    open_data = defaults = load_dataset_info = None  # nobody asks

    def __init__(
        self,
        updates: OptimizerSettings,
        replicas: int,
        samples: int,
        compile: str = "off",
        mode: str = "train",
    ):
        settings = Settings(
            workload="synthetic", devices=replicas, global_batch_size=replicas * samples, precision="fp32", nodes=1,
            cores_per_device=1, device="cpu", mode=mode, options={"compile": compile},
        )  # fmt: skip
        super().__init__(settings, DatasetInfo(100, 100, {}, "synthetic"))
        self.updates = updates

    def optimizer(self):
        return self.updates

    def batch(self, step: int, replica: int = 0) -> Batch:
        raise NotImplementedError

    def steps(self, replicas) -> list[list[Batch]]:
        """Every step's batches of these replicas."""
        return [
            [self.batch(step, replica) for replica in replicas] for step in range(self.steps_of_run)
        ]
