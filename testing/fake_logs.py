"""Builds logs of runs from a few numbers, for tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

START_MS = 1_700_000_000_000

SUITE_RUN: dict[str, Any] = {
    **{
        "schema": 1,
        "workload": "ncf",
        "framework": "pytorch",
        "framework_version": "2.11.0",
        "profile": "demo",
    },
    **{
        "system": "laptop",
        "device": "cpu",
        "device_name": "Some CPU",
        "devices": 1,
        "nodes": 1,
        "cores_per_device": 1,
    },
    **{"batch_rule": "set", "global_batch_size": 4096, "lr_scaling": "none", "precision": "fp32"},
    **{
        "hyperparameter_set": "demo",
        "rules": "v0.5",
        "clock": "v0.5",
        "stop": "target",
        "mode": "train",
    },
    **{"targets": {"hr_at_10": 0.635}, "sample_unit": "user-item pairs", "dataset": "ml-demo"},
    **{
        "data_fingerprint": "abcdef0123456789",
        "run_index": 0,
        "runs_required": 100,
        "labels": ["demo", "cpu"],
    },
    **{"deviations": [], "suite_version": "0.1.0", "git_commit": "0000000"},
}

KEYS: dict[str, Any] = {
    **{
        "seed": 12345,
        "global_batch_size": 4096,
        "opt_name": "adam",
        "opt_base_learning_rate": 0.003,
    },
    **{
        "opt_adam_beta_1": 0.9,
        "opt_adam_beta_2": 0.999,
        "opt_adam_epsilon": 1e-8,
        "preproc_hp_min_ratings": 20,
    },
    **{
        "preproc_hp_num_eval": 999,
        "preproc_hp_sample_eval_replacement": True,
        "input_hp_num_neg": 4,
    },
    **{
        "input_hp_sample_train_replacement": True,
        "eval_hp_num_neg": 999,
        "eval_hp_num_users": 2000,
    },
    **{"model_hp_mf_dim": 16, "model_hp_mlp_layer_sizes": [64, 64, 32, 16], "train_samples": 82152},
    **{"eval_samples": 2000},
}


IDENTITY = {
    "org": "DEMO - not an MLPerf result",
    "division": "open",
    "status": "research",
    "platform": "1xSome CPU",
}


def line(milliseconds: int, key: str, value: Any = None, **metadata: Any) -> str:
    """Return a log record with a time stamp `milliseconds` after START_MS."""
    record = {
        "namespace": "",
        "time_ms": START_MS + milliseconds,
        "event_type": "POINT_IN_TIME",
        "key": key,
    }
    metadata = {"file": "train.py", "lineno": 1, **metadata}
    return ":::MLLOG " + json.dumps({**record, "value": value, "metadata": metadata})


def demo_log(
    qualities: Sequence[float | None] = (0.3, 0.5, 0.65),
    seconds_per_epoch: float = 2.0,
    status: str | None = None,
    reason: str | None = None,
    samples: float = 400_000,
    train_seconds: float = 1.0,
    keys: dict[str, Any] | None = None,
    start: int = 0,
    condition: dict[str, Any] | None = None,
    setup_seconds: float = 0.0,
    evaluation_seconds: float = 0.25,
    **suite_run: Any,
) -> list[str]:
    """Return the log lines of a run under the v0.5 clock rule.

    The run has one evaluation per epoch. If `status` is None, the run is successful if a quality
    reaches the target 0.635.
    """
    lines = [line(start - 5, "submission_benchmark", "ncf")]
    lines += [line(start - 5, f"submission_{key}", value) for key, value in IDENTITY.items()]
    lines += [
        line(start - 4, "cache_clear", False),
        line(start - 3, "suite_run", {**SUITE_RUN, **suite_run}),
    ]
    lines.append(line(start, "run_start"))
    lines += [line(start, key, value) for key, value in {**KEYS, **(keys or {})}.items()]
    start_of_blocks = start + round(1000 * setup_seconds)
    first = 0 if {**SUITE_RUN, **suite_run}["rules"] == "v0.5" else 1
    for epoch, quality in enumerate(qualities, start=1):
        number = epoch - 1 + first
        end = start_of_blocks + round(epoch * seconds_per_epoch * 1000)
        begin = start_of_blocks + round((epoch - 1) * seconds_per_epoch * 1000)
        lines.append(line(begin, "block_start", first_epoch_num=number, epoch_count=1))
        lines.append(line(begin, "epoch_start", epoch_num=number))
        lines.append(line(end - 3, "epoch_stop", epoch_num=number))
        if quality is not None:
            lines.append(line(end - 2, "eval_start", epoch_num=number))
            lines.append(line(end - 1, "eval_accuracy", quality, epoch_num=number))
            lines.append(line(end - 1, "eval_stop", epoch_num=number))
        stats = {
            "throughput": samples / train_seconds,
            "train_seconds": train_seconds,
            "evaluation_seconds": evaluation_seconds,
        }
        stats |= {"data_wait_seconds": 0.5, "samples": samples, "loss": 0.25}
        lines.append(line(end - 1, "tracked_stats", stats, step=epoch * 101))
        lines.append(line(end, "block_stop", first_epoch_num=number))
    reached = any(quality is not None and quality >= 0.635 for quality in qualities)
    ended = {
        "status": status or ("success" if reached else "aborted"),
        **({"reason": reason} if reason else {}),
    }
    lines.append(
        line(
            start_of_blocks + round(len(qualities) * seconds_per_epoch * 1000), "run_stop", **ended
        )
    )
    if condition is not None:
        lines.append(
            line(
                start_of_blocks + round(len(qualities) * seconds_per_epoch * 1000),
                "suite_condition",
                condition,
            )
        )
    return lines


def write(path: Path, lines: Sequence[str] | bytes) -> Path:
    """Write lines (strings) or bytes to a file. Create the folder of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines if isinstance(lines, bytes) else ("\n".join(lines) + "\n").encode())
    return path


def write_run(
    root: Path,
    job: str,
    index: int = 0,
    status: dict[str, Any] | None = None,
    log: bool = True,
    **options: Any,
) -> Path:
    """Write a run folder with its log.

    If `status` is given, a status.json is also written.
    """
    folder = root / job / f"run_{index}"
    folder.mkdir(parents=True, exist_ok=True)
    if log:
        write(folder / f"result_{index}.txt", demo_log(run_index=index, **options))
    if status is not None:
        (folder / "status.json").write_text(json.dumps(status))
    return folder


def foreign(
    path: Path,
    platform: str = "placeholder",
    seconds: int = 60,
    benchmark: str = "resnet",
    **more: Any,
) -> Path:
    """Write a log of another program with two epochs.

    `more` contains keys in addition to the required keys.
    """
    events: dict[str, Any] = {"submission_benchmark": benchmark, "submission_platform": platform}
    events |= {"submission_org": "Somebody", "global_batch_size": 256, **more, "run_start": None}
    events |= {"eval_accuracy": 0.76, "run_stop": None}
    metadata: dict[str, dict[str, Any]] = {
        "eval_accuracy": {"epoch_num": 2},
        "run_stop": {"status": "success"},
    }
    at = {"eval_accuracy": 1000 * seconds - 1, "run_stop": 1000 * seconds}
    lines = [
        line(at.get(key, 0), key, value, file="train.py", **metadata.get(key, {}))
        for key, value in events.items()
    ]
    return write(path, lines)
