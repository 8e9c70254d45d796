"""Trainers of the workload `lines`, by framework."""

from workloads.api import TrainerInfo

TRAINERS = {
    "pytorch": TrainerInfo("lines.torch_trainer:LinesTrainer", precisions=("fp32",)),
    "numpy": TrainerInfo("lines.numpy_trainer:LinesTrainer", precisions=("fp32",)),
}
