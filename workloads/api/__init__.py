"""Interfaces of workloads and trainers.

Only this package is used by both the runner and the plugins. The package imports neither a
framework, nor Hydra, nor the runner. A *process* is an operating-system process. A *replica* is a
device with a copy of the model. `WorkerContext` lists the replicas of a process.
"""

from workloads.api.data import (
    ArraySpec,
    Batch,
    DataPipeline,
    Dataset,
    DatasetInfo,
    check_evaluation_coverage,
)
from workloads.api.epochs import EpochSamples, EpochSchedule, num_steps, share_of_samples
from workloads.api.exchange import (
    ParameterServerClient,
    ParameterServerTransport,
    metadata_size,
    record_update,
)
from workloads.api.hooks import ModelHooks
from workloads.api.messages import allowed_text, invalid_choice, invalid_value, suggestion
from workloads.api.options import (
    NOT_OPTIONS,
    OPTION_GROUPS,
    Hyperparameter,
    WorkloadOptions,
    build_options,
    check_value,
    default_values,
    hyperparameter,
    hyperparameter_fields,
    kind_of,
    option,
    option_keys,
)
from workloads.api.round import Round
from workloads.api.settings import Defaults, LoggedSettings, Settings, field_names, setting
from workloads.api.trainer import (
    GradientAllReduceInfo,
    NonFiniteLossError,
    Trainer,
    TrainStats,
    check_finite,
)
from workloads.api.trainer_info import TrainerInfo, find_trainer, frameworks_of, get_trainer
from workloads.api.updates import LossScaling, OptimizerSettings, ParameterRule
from workloads.api.values import Array, Arrays, Json
from workloads.api.worker_context import WorkerContext
from workloads.api.workload import Workload
