"""Trainers of the workloads `toy_loss` and `toy_samples`, by framework."""

from workloads.api import TrainerInfo

TRAINERS = {"plain": TrainerInfo("toy:ToyTrainer", precisions=("fp32",))}
