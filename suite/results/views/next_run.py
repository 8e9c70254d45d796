"""What to run next: the command that repeats a result on another number of devices."""

from __future__ import annotations

import math
import shlex
from typing import Any

from suite.common import registry
from suite.packaging.recorded_machine import recorded_machine
from suite.packaging.scripts import typed_words
from suite.results.columns import OURS
from suite.results.identity import Row, label
from workloads.api import option_keys


def run_next(row: Row) -> tuple[str, tuple[str, ...]]:
    """What gives a result on one number of devices a second one: a sentence, and the command below it."""
    if row.round != OURS:
        return "Give results of the same hardware on other counts (suite published list).", ()
    return "Run next:", (next_command(row, 2 * row.devices),)


def next_command(row: Row, gpus: int) -> str:
    """What repeats a result of ours on so many devices: every key that a plain command would set otherwise, quoted."""
    record = (row.runs or row.attempts)[0].record
    words = typed_words(record.settings, recorded_machine(record)) | {
        "gpus": f"gpus={gpus}",
        "stop": f"stop={row.stop}",
    }
    plain, own = _plain(row)
    words |= {key: word for key, word in own.items() if key not in words}
    first = [words.pop(key) for key in ("workload", "framework", "profile", "gpus") if key in words]
    kept = [word for key, word in words.items() if word not in plain and key not in ("runs", "environment")]
    return f"python run_suite.py {shlex.join([*first, *kept])}"


def _plain(row: Row) -> tuple[set[str], dict[str, str]]:
    """(the words that a plain command means anyway, key to word of the hyperparameters in the log that are not the set's)."""
    values: dict[str, Any] = {
        "batch": "set",
        "precision": "fp32",
        "nodes": 1,
        "cpu.cores_per_device": 1,
        "stop": "target",
    }
    own: dict[str, str] = {}
    try:
        workload = registry.load_workload(row.workload)
        defaults = workload.defaults(row.profile, row.rules, {})
    except ValueError:  # not installed here
        return {f"{key}={value}" for key, value in values.items()}, own
    chosen = {name: one.value for name, one in workload.hyperparameter_sets().get(row.hyperparameter_set, {}).items()}
    target = "workload.target" if len(defaults.targets) == 1 else "workload.target.{}"
    options = {key: getattr(workload.Options(), item.name) for key, item in option_keys(workload.Options).items()}
    values |= {
        **options,
        **{target.format(name): value for name, value in defaults.targets.items()},
        **{"rules": workload.default_rules, "rules.clock": row.rules, "lr_scaling": chosen.get("lr_scaling", "none")},
        **{"workload.dataset": defaults.dataset, "workload.hyperparameter_set": defaults.hyperparameter_set},
    }
    times = (row.batch_size_global or 0) / (chosen.get("batch_size_global") or math.inf)
    factor = {"linear": times, "sqrt": math.sqrt(times)}.get(row.lr_scaling, 1.0)
    logged = {**{label(name): value for name, value in row.hyperparameters.items()}, "max epochs": row.max_epochs}
    for name, meant in chosen.items():
        value, key = logged.get(label(name)), f"workload.{name}"
        if not isinstance(value, (int, float)) or not isinstance(meant, (int, float)) or key not in options:
            continue
        if not math.isclose(value, meant * (factor if name == "learning_rate" else 1), rel_tol=1e-6):
            own[key] = f"{key}={value}"
    return {f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in values.items()}, own
