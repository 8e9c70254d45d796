"""Trainers of the workload `toy_loss`, by framework."""

from workloads.api import TrainerInfo

TRAINERS = {"plain": TrainerInfo("toy:ToyTrainer", precisions=("fp32",))}
