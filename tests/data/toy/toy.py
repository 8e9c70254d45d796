"""Plugin for tests: a workload, a framework and a launcher that fit a line with plain NumPy.

The option `workload.misbehave` selects a fault.
"""

import faulthandler
import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from suite.launch.base import Framework, single_process
from suite.launch.launcher import Launcher
from workloads.api import (
    ArraySpec,
    Batch,
    Dataset,
    DatasetInfo,
    Defaults,
    Hyperparameter,
    NonFiniteLossError,
    Trainer,
    TrainerInfo,
    TrainStats,
    Workload,
)
from workloads.common.data.prefetch import Prefetch

HERE_ALONE = {"cpu": "current", "cuda": "current"}
PLAIN = Framework(
    "plain",
    HERE_ALONE,
    ("numpy",),
    lambda devices, device: 1,
    single_process,
    static_work_split=True,
)
TRAINERS = {"toy": TrainerInfo("toy:ToyTrainer", precisions=("fp32",))}
HERE = Launcher(
    "here",
    list_hosts=lambda launch, _: launch.hosts,
    build_argv=lambda name, launch, argv: list(argv),
)
"""Launcher that starts the agents of all hosts on this machine."""
SAMPLES = 1000
ENDINGS = {
    "sentence": "Runs that succeed and runs that fail.",
    "set": {"workload": "toy", "framework": "plain", "profile": "demo", "stop": "steps:4"},
    "axes": {"workload.misbehave": ["no", "oom"], "gpus": [1, 4096]},
    "ci": {"axes": {"workload.misbehave": ["no"]}},
    "table": {"columns": ["samples/s", "ms/step", "ms mean"]},
    "figure": {"y": "samples/s", "kind": "bars"},
}
MISBEHAVIOURS = (
    "no", "hang", "die", "crash", "oom", "raise", "diverge", "sleep",
    "setup", "flaky", "fill", "threads", "slow", "clock", "evaluation",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    name: str = "toy"
    dataset: str = "auto"
    learning_rate: float | None = None
    max_epochs: int | None = field(default=None, metadata={"minimum": 1})
    misbehave: str = field(default="no", metadata={"choices": MISBEHAVIOURS})


class ToyDemo(Dataset):
    name = "toy-demo"
    generated = True

    def prepare(self, source, destination):
        raise ValueError("toy-demo is generated")

    def verify(self, destination):
        return ["toy-demo: fine"]

    def make_demo(self, destination):
        destination.mkdir(parents=True, exist_ok=True)
        x = np.linspace(-1, 1, SAMPLES, dtype=np.float32)
        # Two commands may generate the data at the same time.
        temporary = destination / f".{os.getpid()}.npy"
        np.save(temporary, x)
        os.replace(temporary, destination / "x.npy")
        temporary.write_text(json.dumps({"samples": SAMPLES}))
        os.replace(temporary, destination / "manifest.json")
        return [f"toy-demo: {SAMPLES} samples"]


class ToyData:
    def __init__(self, folder, batch_size, worker):
        self.x, self.batch_size, self.worker = np.load(folder / "x.npy"), batch_size, worker
        self.per_epoch = -(-len(self.x) // batch_size)

    def train(self, first_step, stop_step):
        return Prefetch(self.steps(first_step, stop_step))

    def steps(self, first_step, stop_step):
        for step in range(first_step, stop_step):
            if step == int(os.environ.get("TOY_DATA_ERROR_STEP", -1)):
                raise OSError("the data thread was lost")
            part = self.x[step % self.per_epoch * self.batch_size :][: self.batch_size]
            shares = np.array_split(part, self.worker.num_replicas)
            yield [
                Batch({"x": shares[r]}, len(shares[r]), len(part), len(part))
                for r in self.worker.replica_ids
            ]

    def evaluation(self):
        yield [Batch({"x": self.x}, len(self.x), len(self.x), len(self.x))]

    def close(self):
        pass


class Toy(Workload):
    name, mlperf_name, sample_unit, default_rules = "toy", "toy", "points", "v0.7"
    runs_required = 5
    Options = Options

    @classmethod
    def defaults(cls, profile, round, options):
        return Defaults("toy-demo", "demo", {}, {"fit": 0.99})

    @classmethod
    def hyperparameter_sets(cls):
        values = {
            "global_batch_size": 64,
            "learning_rate": 0.2,
            "lr_scaling": "none",
            "max_epochs": 5,
        }
        return {
            "demo": {
                name: Hyperparameter(value, "presumed: a toy") for name, value in values.items()
            }
        }

    @classmethod
    def load_dataset_info(cls, settings):
        manifest = json.loads((Path(settings.data_dir) / "manifest.json").read_text())
        return DatasetInfo(manifest["samples"], manifest["samples"], {}, "toy")

    def learning_rate(self, step):
        return self.settings.hyperparameters["learning_rate"]

    def shapes(self):
        return [{"x": ArraySpec((64,), "float32")}]

    def initial_weights(self, seed):
        yield "slope", np.zeros(1, np.float32)

    def open_data(self, worker, seed):
        return ToyData(Path(self.settings.data_dir), self.settings.global_batch_size, worker)

    def eval_batch_metrics(self, batch, outputs):
        return {"error": np.abs(outputs["y"] - 3 * batch.arrays["x"])}

    def compute_metrics(self, results):
        return {"fit": float(1 - results["error"].mean())}

    def log_keys(self):
        return {"opt_name": "sgd"}


class ToyTrainer(Trainer):
    def setup(self, weights, warmup=True):
        self.slope = dict(weights)["slope"].copy()
        if self.settings.options["misbehave"] == "setup":
            raise RuntimeError("setup went wrong | `badly`")

    def misbehave(self, step):
        kind = self.settings.options["misbehave"]
        if kind in ("sleep", "slow"):
            time.sleep(0.2 if kind == "sleep" else 0.02)
        if kind == "fill":
            self.filled = [np.ones(8 << 20) for _ in range(100)]
        if kind == "clock":  # The clock jumps by an hour in every step.
            hour, real = 3600 if step % 2 else -3600, time.clock_gettime
            time.time = lambda: real(time.CLOCK_REALTIME) + hour
        if kind == "threads" and step == 0:
            print(
                f"OMP_NUM_THREADS={os.environ['OMP_NUM_THREADS']}"
                f" cores={len(os.sched_getaffinity(0))}"
            )
        if step == 3 and kind == "flaky" and self.settings.seed % 2:
            raise RuntimeError("an odd seed")
        if step == 3 and kind in ("hang", "die", "crash", "oom", "raise", "diverge"):
            if kind == "hang":
                time.sleep(600)
            if kind == "crash":
                print("the last words", flush=True)
                faulthandler._sigsegv()
            if kind == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if kind == "diverge":
                raise NonFiniteLossError("the loss is nan within 3 steps of this block")
            raise MemoryError("no more") if kind == "oom" else RuntimeError("something broke")

    def train(self, steps, first_step):
        loss, step = 0.0, first_step
        for step, batches in enumerate(steps, first_step):
            self.misbehave(step)
            of_x, weight = [batch.arrays["x"] for batch in batches], batches[0].global_weight_sum
            gradient = sum((2 * (self.slope * x - 3 * x) * x).sum() for x in of_x)
            self.slope -= self.workload.learning_rate(step) * gradient / weight
            loss = float(sum(((self.slope - 3) ** 2 * x**2).sum() for x in of_x) / weight)
        return TrainStats(step - first_step + 1, loss)

    def forward(self, steps):
        return TrainStats(sum(1 for _ in steps), 0.0)

    def predict(self, batches):
        if self.settings.options["misbehave"] in ("evaluation", "slow"):
            time.sleep(600 if self.settings.options["misbehave"] == "evaluation" else 0.1)
        for (batch,) in batches:
            yield batch, {"y": self.slope * batch.arrays["x"]}

    def gather(self, arrays):
        return [arrays]

    def broadcast(self, value):
        return value

    def state_dict(self):
        return {"slope": self.slope.copy()}

    def load_state_dict(self, state):
        self.slope = state["slope"].copy()

    def close(self):
        pass
