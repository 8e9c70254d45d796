"""Forged logs of closed runs of Llama 3.1 8B, with the lines that the training loop writes."""

import json
from dataclasses import replace
from pathlib import Path

from suite.catalog.sets import named_sets
from suite.common import registry
from suite.common.git_state import git_state
from suite.worker.runlog import escape_searched_texts
from tests.workloads.closed_logs import write_log
from tests.workloads.rules_page import default_settings
from workloads.api import Settings
from workloads.llama31_8b.dataset import published_dataset_info
from workloads.llama31_8b.workload import Llama

HOUR_MS = 3_600_000
ROUNDS = ("v5.1", "v6.0")


def settings_of(rules: str, hyperparameter_set: str = "reference", **changes) -> Settings:
    """Return the settings of a closed run on 8 devices."""
    settings = default_settings(registry.load_workload("llama31_8b"), rules, "pytorch")
    values = {name: item.value for name, item in named_sets(Llama)[hyperparameter_set].items()}
    direct = {name: values.pop(name) for name in ("global_batch_size", "lr_scaling")}
    return replace(
        settings,
        hyperparameter_set=hyperparameter_set,
        hyperparameters=values,
        max_epochs=values["max_epochs"],
        **{"devices": 8, **direct, **changes},
    )


def workload_of(settings: Settings) -> Llama:
    return Llama(settings, published_dataset_info(8_192, 1_024))


def write_llama_log(path: Path, settings: Settings, evaluations: int, index: int, **keys) -> Path:
    """Write the log of an hour-long run that reaches its target in evaluation `evaluations`.

    Run `index` starts 24 hours after the run before, and has a different seed. `keys` change the
    values of log keys.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_log(path, workload_of(replace(settings, seed=100 + index)), evaluations)
    lines, delay_ms = [], index * 24 * HOUR_MS
    identity = {"submission_org": "EXAMPLE_ORG", "submission_platform": "1xEXAMPLE"}
    machine = {
        "system": "our box",
        "device_name": "NVIDIA Test 80GB",
        "framework_version": "2.11.0",
        "suite_version": "0.1.0",
        "git_commit": git_state()["commit"] or "",
        "run_index": index,
    }
    for line in path.read_text().splitlines():
        record = json.loads(line.removeprefix(":::MLLOG "))
        if record["key"] == "run_stop":
            delay_ms += HOUR_MS
        record["time_ms"] += delay_ms
        record["value"] = {**identity, **keys}.get(record["key"], record["value"])
        if record["key"] == "suite_run":
            record["value"] |= machine
        text = f":::MLLOG {json.dumps(record)}"
        lines.append(escape_searched_texts(text, record["key"]))
    path.write_text("\n".join(lines) + "\n")
    return path
