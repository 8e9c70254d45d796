"""PyTorch trainer of the workload `lines`: its model, loss and outputs."""

import torch
from torch import nn

from workloads.frameworks.pytorch.model import ModelTrainer


class Line(nn.Module):
    """Model with two parameters: slope and offset."""

    def __init__(self):
        super().__init__()
        self.line = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        return self.line[0] * x + self.line[1]


class LinesTrainer(ModelTrainer):
    inputs = ("x", "y")
    evaluation_inputs = ("x",)

    def build(self):
        return Line()

    def loss(self, model, batch):
        return (model(batch["x"]) - batch["y"]).square().sum()

    def outputs(self, model, batch):
        return {"y": model(batch["x"])}
