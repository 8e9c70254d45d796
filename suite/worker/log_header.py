"""Write the log lines that identify the run and list its settings.

docs/reference/log_format.md defines these lines.
"""

from __future__ import annotations

import hashlib
import os

from suite.common.runspec import RunSpec, labels_and_deviations
from suite.launch.base import omp_spin_settings
from suite.launch.hosts import hosts_of
from suite.worker.runlog import RunLog
from workloads.api import LoggedSettings, Settings, Workload, field_names, share_of_samples

PATHS = ("backbone_weights",)
"""Options that contain a file path on this machine. These options are not logged."""
OPTIONAL = ("falling_metrics", "epoch_unit")
"""Settings that are logged only if they differ from their default."""
_DEFAULTS = LoggedSettings()


def write_log_header(log: RunLog, run: RunSpec, workload: Workload) -> None:
    """Write the log lines that identify the run.

    These lines are the submission keys, `cache_clear`, and `suite_run`
    (docs/reference/log_format.md).

    Args:
        log: The log of the run.
        run: The run.
        workload: The workload, which provides the clock, the ruleset, and properties of the data.
    """
    settings, metric_signatures, of_epoch = (
        run.settings,
        workload.metric_signatures(),
        workload.epoch_samples,
    )
    log.event("submission_benchmark", str(run.identity["benchmark"]))
    log.event("submission_org", run.identity["submission_org"])
    log.event("submission_division", run.division)
    log.event("submission_status", run.identity["submission_status"])
    log.event("submission_platform", run.identity["submission_platform"])
    log.event("cache_clear", run.cache_cleared)
    log.event(
        "suite_run",
        {
            "schema": run.schema,
            **{
                name: getattr(settings, name)
                for name in field_names(Settings, logged=True)
                if name not in OPTIONAL or getattr(settings, name) != getattr(_DEFAULTS, name)
            },
            "clock": workload.round.clock,
            "first_epoch": workload.round.first_epoch,
            "ruleset": workload.round.ruleset,
            "system": run.identity["system"],
            "machines": [machine_digest(host.name) for host in hosts_of(run)],
            "device_name": run.identity["device_name"],
            "framework_version": run.identity["framework_version"],
            "thread_waiting": omp_spin_settings(os.environ),
            "environment_variables": dict(run.environment_variables),
            "sample_unit": run.identity["sample_unit"],
            "batch_unit": run.identity["batch_unit"],
            **({"metric_signatures": dict(metric_signatures)} if metric_signatures else {}),
            "data_fingerprint": run.dataset_info.fingerprint,
            "repeated_samples_per_epoch": of_epoch.repeated,
            "repeated_share": share_of_samples(
                of_epoch.repeated, workload.dataset_info.train_samples
            ),
            "left_out_share": share_of_samples(
                of_epoch.left_out, workload.dataset_info.train_samples
            ),
            "model": dict(settings.model),
            "hyperparameters": dict(settings.hyperparameters),
            "options": {
                name: value for name, value in settings.options.items() if name not in PATHS
            },
            "run_index": run.run_index,
            "runs_required": run.runs_required,
            **labels_and_deviations(run),
            "suite_version": run.versions.get("suite"),
            "git_commit": run.git.get("commit"),
            "code_digest": run.code_digest,
            **({"study": run.study, "study_cell": list(run.study_cell)} if run.study else {}),
            **(
                {"price_per_device_hour": price}
                if (price := run.identity.get("price_per_device_hour"))
                else {}
            ),
        },
    )


def machine_digest(name: str) -> str:
    """Return 12 hexadecimal digits that identify a machine without revealing its name."""
    return hashlib.sha256(name.encode(errors="replace")).hexdigest()[:12]


def log_settings(log: RunLog, run: RunSpec, workload: Workload) -> None:
    """Write the log lines with the settings of the run and the sizes of its data set.

    These lines are the seed, the batch size, the keys of the workload, and the sample counts of the
    data set.

    Args:
        log: The log of the run.
        run: The run.
        workload: The workload, which provides its keys and their metadata.
    """
    keys = {
        "seed": run.settings.seed,
        "global_batch_size": run.settings.global_batch_size,
        **workload.log_keys(),
        "train_samples": run.dataset_info.train_samples,
        "eval_samples": run.dataset_info.evaluation_samples,
    }
    metadata = workload.log_metadata()
    for key, value in keys.items():
        log.event(key, value, **metadata.get(key, {}))
