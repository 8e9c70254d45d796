"""What the trainers support, by framework; the controller reads it and imports no framework."""

from workloads.api import TrainerInfo

TRAINERS = {
    "pytorch": TrainerInfo("lines.torch_trainer:LinesTrainer", precisions=("fp32",)),
    "numpy": TrainerInfo("lines.numpy_trainer:LinesTrainer", precisions=("fp32",)),
}
