"""What is computed, said once for every framework: y = slope * x + offset, fitted to points near y = 2x - 1."""

import dataclasses
from pathlib import Path

import numpy as np

from workloads.api import (
    ArraySpec,
    Batch,
    Dataset,
    DatasetInfo,
    Defaults,
    Hyperparameter,
    Workload,
    WorkloadOptions,
    hyperparameter,
)
from workloads.common.randomness import Permutation, bits, normal, stream

POINTS = 10_000


class LinesDemo(Dataset):
    name, generated = "lines-demo", True

    def make_demo(self, destination):
        destination.mkdir(parents=True, exist_ok=True)
        x, noise = np.linspace(-1, 1, POINTS), normal(bits(stream(1, "noise"), np.arange(POINTS)))
        np.save(destination / "points.npy", np.stack([x, 2 * x - 1 + 0.1 * noise]).astype(np.float32))
        (destination / "manifest.json").write_text("{}")  # the last file: now the data set is complete
        return [f"lines-demo: {POINTS} points in {destination}"]

    def prepare(self, source, destination):
        raise ValueError("lines-demo is generated, not read; type: suite data make-demo lines-demo")

    def verify(self, destination):
        return [f"lines-demo: {np.load(destination / 'points.npy').shape[1]} points"]


class Points:
    def __init__(self, settings, place, seed):
        self.points, self.settings = np.load(Path(settings.data_dir) / "points.npy"), settings
        self.worker, self.seed = place, seed

    def train(self, first_step, stop_step):
        size = self.settings.global_batch_size
        for step in range(first_step, stop_step):
            epoch, number = divmod(step, -(-POINTS // size))
            order = Permutation(stream(self.seed, "order", epoch), POINTS)
            yield self.share(order(np.arange(POINTS)[number * size :][:size]))

    def evaluation(self):
        yield self.share(np.arange(POINTS))

    def share(self, chosen):
        """A batch for each replica of this process: every n-th of the chosen points."""
        parts = [self.points[:, chosen[replica :: self.worker.num_replicas]] for replica in self.worker.replica_ids]
        return [Batch({"x": x, "y": y}, len(x), len(chosen), len(chosen)) for x, y in parts]

    def close(self):
        self.points = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinesOptions(WorkloadOptions):
    """`workload.learning_rate`, and what every workload has."""

    learning_rate: float = hyperparameter("step size", minimum=0.0)


class Lines(Workload):
    name, mlperf_name, sample_unit = "lines", "lines", "points"
    runs_required = 5
    Options = LinesOptions

    @classmethod
    def defaults(cls, profile, round, options):
        return Defaults("lines-demo", "demo", {}, {"r_squared": 0.95})

    @classmethod
    def hyperparameter_sets(cls):
        values = {"global_batch_size": 256, "learning_rate": 0.05, "lr_scaling": "linear", "max_epochs": 10}
        return {"demo": {name: Hyperparameter(value, "presumed: an example") for name, value in values.items()}}

    @classmethod
    def load_dataset_info(cls, settings):
        return DatasetInfo(POINTS, POINTS, {}, "lines-demo 1")

    def learning_rate(self, step):
        return self.options.learning_rate

    def shapes(self):
        return [{name: ArraySpec((self.settings.global_batch_size,), "float32") for name in ("x", "y")}]

    def initial_weights(self, seed):
        yield "line", np.zeros(2, np.float32)

    def open_data(self, place, seed):
        return Points(self.settings, place, seed)

    def eval_batch_metrics(self, batch, outputs):
        return {"y": batch.arrays["y"], "error": outputs["y"] - batch.arrays["y"]}

    def compute_metrics(self, results):
        return {"r_squared": float(1 - np.mean(results["error"] ** 2.0) / np.var(results["y"]))}

    def log_keys(self):
        return {"opt_name": "sgd", "opt_base_learning_rate": self.learning_rate(0)}
