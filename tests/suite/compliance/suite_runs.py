"""Closed runs of this suite with all their files, and functions that edit these files."""

import json
from dataclasses import replace
from pathlib import Path

from suite.compliance.check_log import check_file
from tests.workloads import rules_page
from tests.workloads.closed_logs import closed_run, write_log

BLOCK_MS = 100_000
TRAIN_SECONDS, EVALUATION_SECONDS = 88.0, 9.0
WITHIN_BLOCK_MS = {
    "epoch_stop": 90_000,
    "eval_start": 90_001,
    "eval_accuracy": 99_500,
    "eval_stop": 99_500,
    "tracked_stats": 99_501,
    "block_stop": 99_502,
}


def records(path):
    """Return the records of a log."""
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text().splitlines()]


def write_records(path, items):
    """Write records as a log."""
    path.write_text("".join(f":::MLLOG {json.dumps(item)}\n" for item in items))
    return path


def write_run(folder, name="resnet50", blocks=3):
    """Write a closed run of `blocks` blocks of 100 seconds and return its log.

    The last block reaches the target.
    """
    kind = next(kind for kind in rules_page.WORKLOADS if kind.name == name)
    settings = rules_page.default_settings(kind, "v0.5" if name == "ncf" else "v0.7", "pytorch")
    settings = replace(settings, devices=1, seed=7)
    dataset_info = (
        kind.load_dataset_info(settings)
        if kind.length_dependent_log_keys
        else rules_page.PUBLISHED[kind]
    )
    workload = kind(settings, dataset_info)
    folder.mkdir(parents=True)
    path = folder / "result_0.txt"
    write_log(path, workload, blocks)
    items = in_time(records(path))
    run = replace(closed_run(folder, workload), versions={"suite": None}, git={"commit": None})
    run.write(folder / "run.json")
    (folder / "status.json").write_text(json.dumps({"status": "success", "reason": ""}))
    rows = []
    for item in items:
        if item["key"] == "eval_accuracy":
            value = item["value"]
            quality = value if isinstance(value, dict) else {next(iter(settings.targets)): value}
        if item["key"] == "tracked_stats":
            rows.append({**item["value"], "step": item["metadata"]["step"], "quality": quality})
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return write_records(path, items)


def in_time(items):
    """Return the records with stamps of 100 seconds per block, followed by `suite_condition`."""
    begin_ms = items[0]["time_ms"]
    run_start_ms, block = begin_ms + 60_000, -1
    for item in items:
        block += item["key"] == "block_start"
        if item["key"] in ("init_stop", "run_start") or block >= 0:
            item["time_ms"] = (
                run_start_ms + max(block, 0) * BLOCK_MS + WITHIN_BLOCK_MS.get(item["key"], 0)
            )
        if item["key"] == "suite_run" and item["value"]["clock"] == "v0.5":
            begin_ms = item["time_ms"] = run_start_ms
        if item["key"] == "tracked_stats":
            samples = item["value"]["samples"]
            seconds = {"train_seconds": TRAIN_SECONDS, "evaluation_seconds": EVALUATION_SECONDS}
            item["value"] |= {**seconds, "throughput": samples / TRAIN_SECONDS}
        if item["key"] == "run_stop":
            item["time_ms"] = run_start_ms + (block + 1) * BLOCK_MS
    for number, item in enumerate(items):  # Under v0.5 some settings follow run_start.
        if number and item["time_ms"] < items[number - 1]["time_ms"]:
            item["time_ms"] = items[number - 1]["time_ms"]
    counted = {"busy": [], "seconds": (block + 1) * BLOCK_MS / 1e3 + 0.004}
    return [
        *items,
        {
            **items[-1],
            "key": "suite_condition",
            "value": counted,
            "metadata": {"file": "suite/control/condition.py", "lineno": 1},
        },
    ]


def edit(path, change, key=None):
    """Rewrite a log: replace each record, or each record of `key`, by the result of `change`.

    `change` returns a record, a list of records, or None to remove the line.
    """
    items = []
    for item in records(path):
        new = change(item) if key is None or item["key"] == key else item
        items += new if isinstance(new, list) else [new] * (new is not None)
    return write_records(path, items)


def edit_json(path, change):
    """Rewrite a JSON file after `change` has edited its object in place."""
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def complaints(path):
    """Return the keys of the complaints about a log; assert that the verdict follows from them."""
    verdict = check_file(Path(path))
    assert verdict.passed == (not verdict.complaints)
    assert all(item.found and item.needed and item.do for item in verdict.complaints)
    return {item.key for item in verdict.complaints}


def without_files(path):
    """Remove the files next to a log, as a submitter could, and return the log."""
    for name in ("run.json", "status.json", "metrics.jsonl"):
        path.with_name(name).unlink(missing_ok=True)
    return path
