"""Workload `lines`: fits y = slope * x + offset to points near y = 2x - 1."""

import dataclasses
from pathlib import Path

import numpy as np

from workloads import api
from workloads.common.randomness import Permutation, bits, normal, stream

POINTS = 10_000


class LinesDemo(api.Dataset):
    """Generated data set: 10,000 points with noise."""

    name, generated = "lines-demo", True

    def make_demo(self, destination):
        destination.mkdir(parents=True, exist_ok=True)
        x = np.linspace(-1, 1, POINTS)
        y = 2 * x - 1 + 0.1 * normal(bits(stream(1, "noise"), np.arange(POINTS)))
        np.save(destination / "points.npy", np.stack([x, y]).astype(np.float32))
        (destination / "manifest.json").write_text("{}")  # written last: marks a complete data set
        return [f"lines-demo: {POINTS} points in {destination}"]

    def prepare(self, source, destination):
        raise ValueError("lines-demo is generated, not downloaded; set profile=demo")

    def verify(self, destination):
        return [f"lines-demo: {np.load(destination / 'points.npy').shape[1]} points"]


class Points:
    """Data pipeline: batches of points, in a different order in each epoch."""

    def __init__(self, settings, worker, seed):
        self.points = np.load(Path(settings.data_dir) / "points.npy")
        self.batch_size, self.worker, self.seed = settings.global_batch_size, worker, seed

    def train(self, first_step, stop_step):
        for step in range(first_step, stop_step):
            epoch, number = divmod(step, -(-POINTS // self.batch_size))
            order = Permutation(stream(self.seed, "order", epoch), POINTS)
            yield self.split(
                order(np.arange(POINTS)[number * self.batch_size :][: self.batch_size])
            )

    def evaluation(self):
        yield self.split(np.arange(POINTS))

    def split(self, chosen):
        """Return one batch for each device of this process."""
        count = self.worker.num_replicas
        parts = [self.points[:, chosen[device::count]] for device in self.worker.replica_ids]
        return [api.Batch({"x": x, "y": y}, len(x), len(chosen), len(chosen)) for x, y in parts]

    def close(self):
        self.points = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinesOptions(api.WorkloadOptions):
    """Hyperparameters and options, set as `workload.NAME`."""

    optimizer: str = api.hyperparameter("optimizer", choices=("sgd",))
    learning_rate: float = api.hyperparameter("step size", minimum=0.0)


class Lines(api.Workload):
    """Trains a line until it explains 95 % of the variance."""

    name, mlperf_name, sample_unit = "lines", "lines", "points"
    Options = LinesOptions

    @classmethod
    def defaults(cls, profile, round, options):
        if profile != "demo":
            raise ValueError(f"profile={profile}: lines has only demo; set profile=demo")
        return api.Defaults("lines-demo", "demo", targets={"r_squared": 0.95})

    @classmethod
    def hyperparameter_sets(cls):
        values = {"global_batch_size": 256, "optimizer": "sgd", "learning_rate": 0.05}
        values |= {"lr_scaling": "linear", "max_epochs": 10}
        source = "presumed: an example"
        return {"demo": {name: api.Hyperparameter(value, source) for name, value in values.items()}}

    @classmethod
    def load_dataset_info(cls, settings):
        return api.DatasetInfo(POINTS, POINTS, {}, "lines-demo 1")

    def learning_rate(self, step):
        return self.options.learning_rate

    def shapes(self):
        spec = api.ArraySpec((self.settings.global_batch_size // self.settings.devices,), "float32")
        return [{"x": spec, "y": spec}]

    def initial_weights(self, seed):
        yield "line", np.zeros(2, np.float32)

    def open_data(self, worker, seed):
        return Points(self.settings, worker, seed)

    def eval_batch_metrics(self, batch, outputs):
        return {"y": batch.arrays["y"], "error": outputs["y"] - batch.arrays["y"]}

    def compute_metrics(self, results):
        return {"r_squared": float(1 - np.mean(results["error"] ** 2.0) / np.var(results["y"]))}

    def log_keys(self):
        return {"opt_name": "sgd", "opt_base_learning_rate": self.learning_rate(0)}
