"""Framework `numpy` and its trainer: one process for all devices."""

import numpy as np

from suite.launch.base import Framework, single_process
from workloads.api import NonFiniteLossError, Trainer, TrainStats

NUMPY = Framework(
    "numpy",
    {"cpu": "current", "cuda": "current"},  # environments of the workers: the controller's Python
    ("numpy",),  # packages whose versions are logged
    lambda devices, device: 1,  # number of processes
    single_process,  # commands that start the processes
)


class LinesTrainer(Trainer):
    def setup(self, weights, warmup=True):
        self.load_state_dict(dict(weights))

    def train(self, steps, first_step):
        return self.run(steps, lambda number: self.workload.learning_rate(first_step + number))

    def forward(self, steps):
        return self.run(steps, lambda number: 0.0)

    def run(self, steps, learning_rate):
        losses = [self.step(batches, learning_rate(n)) for n, batches in enumerate(steps)]
        if not np.isfinite(losses).all():
            raise NonFiniteLossError("the loss is not finite; try a smaller learning rate")
        return TrainStats(len(losses), float(np.mean(losses)))

    def step(self, replicas, learning_rate):
        x, y = (np.concatenate([batch.arrays[name] for batch in replicas]) for name in "xy")
        error = self.line[0] * x + self.line[1] - y
        self.line -= learning_rate * 2 / len(x) * np.array([error @ x, error.sum()])
        return error @ error / len(x)

    def predict(self, batches):
        for batch in (batch for replicas in batches for batch in replicas):
            yield batch, {"y": self.line[0] * batch.arrays["x"] + self.line[1]}

    def gather(self, arrays):
        return [arrays]

    def broadcast(self, value):
        return value

    def state_dict(self):
        return {"line": self.line.copy()}

    def load_state_dict(self, state):
        self.line = state["line"].copy()

    def close(self):
        self.line = None
