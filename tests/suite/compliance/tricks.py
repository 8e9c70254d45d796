"""Edits of a closed run's files that `suite check` must reject, grouped by the falsified claim.

Each function receives the log that `suite_runs.write_run` wrote.
"""

import gzip
import json

from tests.suite.compliance.suite_runs import (
    BLOCK_MS,
    TRAIN_SECONDS,
    edit,
    edit_json,
    records,
    without_files,
    write_records,
)


def set_value(path, key, value):
    edit(path, lambda item: {**item, "value": value}, key)


def set_setting(path, **settings):
    edit(path, lambda item: {**item, "value": {**item["value"], **settings}}, "suite_run")


def set_figure(path, **figures):
    edit(path, lambda item: {**item, "value": {**item["value"], **figures}}, "tracked_stats")


def set_status(path, status):
    edit(
        path, lambda item: {**item, "metadata": {**item["metadata"], "status": status}}, "run_stop"
    )


def move(path, key, milliseconds):
    edit(path, lambda item: {**item, "time_ms": item["time_ms"] + milliseconds}, key)


def drop(path, key):
    edit(path, lambda item: None, key)


def drop_number(path, key, number):
    items, seen = [], 0
    for item in records(path):
        seen += item["key"] == key
        if item["key"] != key or seen != number:
            items.append(item)
    write_records(path, items)


def rescale(path, factor, offset_ms=0):
    first = records(path)[0]["time_ms"]
    edit(
        path,
        lambda item: {
            **item,
            "time_ms": int(offset_ms or first) + int((item["time_ms"] - first) * factor),
        },
    )


def stop_first(path):
    """Move `run_stop` to the start of the run, in the log and by its time stamp."""
    items = records(path)
    stop = next(item for item in items if item["key"] == "run_stop")
    start = next(number for number, item in enumerate(items) if item["key"] == "run_start")
    items.remove(stop)
    items.insert(start, {**stop, "time_ms": items[start]["time_ms"] - 1})
    write_records(path, items)


def stop_before_last_evaluation(path):
    move(path, "run_stop", -BLOCK_MS)


def reached_after_stop(path):
    """Move the evaluation that reaches the target behind `run_stop`."""
    items = records(path)
    last = [item for item in items if item["key"] == "eval_accuracy"][-1]
    last["time_ms"] += BLOCK_MS
    write_records(path, items)


def aborted(path):
    set_status(path, "aborted")


def with_another(key, value, on_same_line=False):
    """Return an edit that logs a key again with this value, on a new or the same line."""

    def change(path):
        without_files(path)
        if not on_same_line:
            edit(path, lambda item: [item, {**item, "value": value}], key)
            return
        lines = []
        for item in records(path):
            line = f":::MLLOG {json.dumps(item)}"
            again = f" :::MLLOG {json.dumps({**item, 'value': value})}"
            lines.append(line + again * (item["key"] == key))
        path.write_text("\n".join(lines) + "\n")

    return change


UNSUCCESSFUL = {
    "success with a reason": lambda path: edit(
        path,
        lambda item: {**item, "metadata": {**item["metadata"], "reason": "OSError: no space"}},
        "run_stop",
    ),
    "two seeds": with_another("seed", 8),
    "two seeds on the same line": with_another("seed", 8, True),
    "two divisions on one line": with_another("submission_division", "open", True),
    "two organizations on one line": with_another("submission_org", "another", True),
    "two numbers of samples on one line": with_another("train_samples", 1, True),
    "aborted, though the last accuracy reaches the target": aborted,
    "run_stop before run_start": stop_first,
    "run_stop before the deciding evaluation": stop_before_last_evaluation,
    "the deciding evaluation after run_stop": reached_after_stop,
    "time stamps of 1970": lambda path: rescale(path, 1.0, 1),
    "time stamps of 2160": lambda path: rescale(path, 1.0, 6_000_000_000_000),
    "a run of one millisecond": lambda path: rescale(path, 1e-6),
}


def rename_files(path):
    edit(path, lambda item: {**item, "metadata": {**item["metadata"], "file": "train.py"}})


def without_suite_run(path):
    without_files(path)
    drop(path, "suite_run")
    rename_files(path)


def only_source_files(path):
    without_files(path)
    edit(path, lambda item: None if item["key"].startswith("suite_") else item)


def only_run_file(path):
    only_source_files(path)
    rename_files(path)
    path.with_name("run.json").write_text(json.dumps({"settings": {}}))


def only_status_file(path):
    only_source_files(path)
    rename_files(path)
    path.with_name("status.json").write_text(json.dumps({"status": "success"}))


def compressed(path):
    only_source_files(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def text_replaced(old, new):
    def change(path):
        only_source_files(path)
        path.write_text(path.read_text().replace(old, new))

    return change


def padded(path):
    """Start the log with more than one MiB of text, as a program that prints a lot would."""
    only_source_files(path)
    path.write_text("step 1 of 1000\n" * 100_000 + path.read_text())


def keys_renamed(change_key):
    def change(path):
        without_files(path)
        rename_files(path)
        edit(
            path,
            lambda item: (
                {**item, "key": change_key(item["key"])}
                if item["key"].startswith("suite_")
                else item
            ),
        )

    return change


def only_file(name, content):
    def change(path):
        only_source_files(path)
        rename_files(path)
        path.with_name(name).write_text(content)

    return change


NO_SUITE_RUN = {
    "source files in a compressed log": compressed,
    "source files, with a space after the key": text_replaced('"file": "', '"file" : "'),
    "source files, with escaped slashes": text_replaced("suite/", "suite\\/"),
    "source files, with the path of a checkout": text_replaced(
        '"suite/', '"/home/user/code/suite/'
    ),
    "source files, with a relative path": text_replaced('"suite/', '"./suite/'),
    "source files after a mebibyte of text": padded,
    "keys in upper case": keys_renamed(str.upper),
    "keys with a space": keys_renamed(lambda key: f" {key}"),
    "run.json of two mebibytes left": only_file(
        "run.json", json.dumps({"settings": {}, "rest": "x" * (2 << 20)})
    ),
    "run.json left, its settings removed": only_file(
        "run.json", json.dumps({"facts": {}, "run_index": 0})
    ),
    "status.json left, its status removed": only_file("status.json", json.dumps({"run_index": 0})),
    "metrics.jsonl left": only_file(
        "metrics.jsonl", json.dumps({"block": 1, "step": 9, "train_seconds": 1.0})
    ),
    "telemetry.jsonl left": only_file(
        "telemetry.jsonl", json.dumps({"sensors": {}, "interval_seconds": 1.0})
    ),
    "topology.json left": only_file("topology.json", json.dumps({"numa_nodes": [], "gpus": []})),
    "suite_run deleted": lambda path: drop(path, "suite_run"),
    "suite_run deleted, other suite_ keys left": without_suite_run,
    "all suite_ keys deleted, source files left": only_source_files,
    "all signs deleted, run.json left": only_run_file,
    "all signs deleted, status.json left": only_status_file,
    "suite_run is a list": lambda path: set_value(path, "suite_run", ["resnet50"]),
    "suite_run is null": lambda path: set_value(path, "suite_run", None),
    "profile empty": lambda path: set_setting(path, profile=""),
    "unknown profile": lambda path: set_setting(path, profile="mine"),
    "profile null": lambda path: set_setting(path, profile=None),
    "unknown workload": lambda path: set_setting(path, workload="chess"),
    "workload of another benchmark": lambda path: set_setting(path, workload="allreduce"),
    "workload is a number": lambda path: set_setting(path, workload=3),
}


def run_file(**changes):
    """Return an edit of run.json; `settings__seed=1` sets run.json["settings"]["seed"] to 1."""

    def change(value):
        for name, new in changes.items():
            *groups, last = name.split("__")
            target = value
            for group in groups:
                target = target[group]
            target[last] = new

    return lambda path: edit_json(path.with_name("run.json"), change)


def removed_from_log(name, recorded):
    """Return an edit that removes a value from the log which is recorded in run.json.

    The value decides the division.
    """

    def change(path):
        edit(
            path,
            lambda item: {
                **item,
                "value": {key: value for key, value in item["value"].items() if key != name},
            },
            "suite_run",
        )
        run_file(**{name: recorded})(path)

    return change


def machines(names, logged):
    """Return an edit that records the machines in run.json and these digests in the log."""

    def change(path):
        set_setting(path, machines=logged, code_digest="d" * 32)
        run_file(hosts=[{"name": name} for name in names], code_digest="d" * 32)(path)

    return change


def elapsed_of_rows(path, change_seconds):
    """Write changed seconds since run_start into metrics.jsonl."""
    items = records(path)
    start = next(item["time_ms"] for item in items if item["key"] == "run_start")
    ends = [item["time_ms"] for item in items if item["key"] == "tracked_stats"]
    metrics = path.with_name("metrics.jsonl")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    for row, end in zip(rows, ends, strict=True):
        row["elapsed_seconds"] = change_seconds((end - start) / 1e3)
    metrics.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


CONTRADICTIONS = {
    "environment_variables, removed from the log": removed_from_log(
        "environment_variables", {"LD_PRELOAD": "a.so"}
    ),
    "deviations, removed from the log": removed_from_log(
        "deviations", ["cache_clear false, not true"]
    ),
    "labels, removed from the log": removed_from_log("labels", ["continued"]),
    "code_digest, removed from the log": removed_from_log("code_digest", "0" * 32),
    "another machine": machines(["a"], ["0" * 12]),
    "a machine less": machines(["a", "b"], ["ca978112ca1b"]),
    "no machines": machines(["a"], []),
    "override of the target": run_file(overrides=["workload.target=0.1"]),
    "override of the end": run_file(overrides=["stop=epochs:1"]),
    "override of the batch size": run_file(overrides=["batch=global:64"]),
    "override of a hyperparameter": run_file(overrides=["workload.label_smoothing=0.3"]),
    "run_start 1.5 s later than in metrics.jsonl": lambda path: elapsed_of_rows(
        path, lambda seconds: seconds + 1.5
    ),
    "stamps divided by two": lambda path: elapsed_of_rows(path, lambda seconds: seconds * 2),
    "a minute cut out": lambda path: elapsed_of_rows(path, lambda seconds: seconds + 60),
    "division": run_file(division="open"),
    "code digest": run_file(code_digest="0" * 64),
    "environment_variables": run_file(environment_variables={"OMP_PROC_BIND": "close"}),
    "deviations": run_file(deviations=["it was interrupted, and went on from a checkpoint"]),
    "labels": run_file(labels=["continued"]),
    "seed": run_file(settings__seed=1),
    "data fingerprint": run_file(dataset_info__fingerprint="0" * 64),
    "train_samples": run_file(dataset_info__train_samples=1000),
    "cache_cleared": run_file(cache_cleared=False),
    "devices": run_file(settings__devices=8),
    "batch": run_file(settings__batch_size_global=64),
    "device name": run_file(identity__device_name="another GPU"),
    "framework": run_file(settings__framework="mxnet"),
    "framework version": run_file(identity__framework_version="0.9"),
    "precision": run_file(settings__precision="fp16"),
    "hyperparameters": run_file(settings__hyperparameters={"learning_rate": 1.0}),
    "model": run_file(settings__model={"depth": 18}),
    "options": run_file(settings__options={"decode": "scaled"}),
    "override of the precision": run_file(overrides=["precision=bf16"]),
    "override of the devices": run_file(overrides=["gpus=8"]),
    "override of the seed": run_file(overrides=["seed=7"]),
    "override of the mode": run_file(overrides=["mode=forward"]),
    "resumed": run_file(
        resume_from={"checkpoint": "checkpoint_10.npz", "stopped_ms": 1, "resumptions": 1}
    ),
    "resumed, by an older version": run_file(
        resume_from={"checkpoint": "checkpoint_10.npz", "stopped_ms": 1}
    ),
    "git commit": run_file(git__commit="abcdef0"),
    "submitter": run_file(identity__submission_org="another"),
}


def late_start(path):
    without_files(path)
    move(path, "run_start", BLOCK_MS + 50_000)


def late_start_after_first_block(path):
    """Move `run_start` behind the first block, in the log and by its time stamp."""
    items = records(path)
    start = next(item for item in items if item["key"] == "run_start")
    block = next(number for number, item in enumerate(items) if item["key"] == "block_stop")
    items.insert(block + 1, {**start, "time_ms": items[block]["time_ms"]})
    items.remove(start)
    write_records(path, items)


def late_start_before_first_block(path):
    """Move `run_start` and the first block's start, as if loading the data had taken no time."""
    items = records(path)
    for item in items:
        if item["key"] == "run_start" or (
            item["key"] in ("block_start", "epoch_start") and item is first_of(items, item)
        ):
            item["time_ms"] += 30_000
    write_records(path, items)


def first_of(items, like):
    return next(item for item in items if item["key"] == like["key"])


def single_step(path):
    edit(path, lambda item: {**item, "metadata": {**item["metadata"], "step": 1}}, "tracked_stats")


def fewer_evaluations(path):
    for key in ("eval_start", "eval_accuracy", "eval_stop"):
        drop_number(path, key, 1)


def without_first_block(path):
    """Remove the first block, and move the following records back in time."""
    items = records(path)
    begin = next(number for number, item in enumerate(items) if item["key"] == "block_start")
    end = next(number for number, item in enumerate(items) if item["key"] == "block_stop")
    kept = items[:begin] + [
        {**item, "time_ms": item["time_ms"] - BLOCK_MS} for item in items[end + 1 :]
    ]
    for item in kept:
        if item["key"] == "suite_condition":
            item["value"]["seconds"] -= BLOCK_MS / 1e3
    write_records(path, kept)


def epochs_renumbered(path):
    """Remove the first block, and number the remaining epochs from the first on."""
    without_first_block(path)
    items = records(path)
    least = min(item["metadata"]["epoch_num"] for item in items if "epoch_num" in item["metadata"])
    for item in items:
        for name in ("epoch_num", "first_epoch_num"):
            if name in item["metadata"]:
                item["metadata"][name] -= least - 1
    write_records(path, items)


CLOCK = {
    "run_start 150 s later": late_start,
    "run_start behind the first block": late_start_after_first_block,
    "run_start and first block 30 s later": late_start_before_first_block,
    "time stamps divided by ten": lambda path: rescale(path, 0.1),
    "15,000 training seconds in a run of 300": lambda path: set_figure(
        path, train_seconds=5_000.0, throughput=1.0
    ),
    "run_stop 50 s earlier": lambda path: move(path, "run_stop", -50_000),
    "a falling time stamp": lambda path: move(path, "epoch_stop", -95_000),
    "counted seconds of a longer run": lambda path: set_value(
        path, "suite_condition", {"busy": [], "seconds": 900.0}
    ),
}
SCHEDULE = {
    "one optimizer step": single_step,
    "losses of NaN": lambda path: set_figure(path, loss=None),
    "losses as text": lambda path: set_figure(path, loss="nan"),
    "ten samples in each block": lambda path: set_figure(
        path, samples=10, throughput=10 / TRAIN_SECONDS
    ),
    "twice the samples": lambda path: edit(
        path,
        lambda item: {
            **item,
            "value": {
                **item["value"],
                "samples": 2 * item["value"]["samples"],
                "throughput": 2 * item["value"]["throughput"],
            },
        },
        "tracked_stats",
    ),
    "a higher throughput": lambda path: set_figure(path, throughput=1e6),
    "an evaluation removed": fewer_evaluations,
    "all but the last evaluation removed": lambda path: (
        fewer_evaluations(path),
        fewer_evaluations(path),
    ),
    "tracked_stats removed": lambda path: drop(path, "tracked_stats"),
    "a block cut out": without_first_block,
    "a block cut out, epochs renumbered": epochs_renumbered,
    "epoch lines removed": lambda path: (
        drop_number(path, "epoch_start", 2),
        drop_number(path, "epoch_stop", 2),
    ),
}


def continued(path, gap_ms=0):
    """Make a log that states closed look resumed: add `suite_continued` before the second block."""
    items, blocks = [], 0
    for item in records(path):
        blocks += item["key"] == "block_start"
        if item["key"] == "block_start" and blocks == 2:
            items.append(
                {**item, "key": "suite_continued", "value": {"stopped_ms": 0, "idle_seconds": 1.0}}
            )
        items.append(item)
    write_records(path, items)


RESUMED = {
    "closed with suite_continued": lambda path: (without_files(path), continued(path)),
    "closed with suite_continued, run.json of one start": continued,
    "closed with the label continued": lambda path: (
        without_files(path),
        set_setting(path, labels=["continued"]),
    ),
    "fewer resumptions than in run.json": lambda path: (
        continued(path),
        edit(path, lambda item: {**item, "value": "open"}, "submission_division"),
        run_file(
            division="open",
            resume_from={"checkpoint": "checkpoint_10.npz", "stopped_ms": 1, "resumptions": 2},
        )(path),
    ),
    "no suite_continued, and run.json of a resumed run": run_file(
        resume_from={"checkpoint": "checkpoint_10.npz", "stopped_ms": 1, "resumptions": 1}
    ),
}


def add_open_reasons(path, reasons, line=None):
    """Write reasons for the open division to status.json, and a `suite_open` line to the log."""
    edit_json(path.with_name("status.json"), lambda value: value.update(open_reasons=reasons))
    if line is not None:
        items = records(path)
        write_records(
            path, [*items, {**items[-1], "key": "suite_open", "value": {"reasons": line}}]
        )


EDITED_RESULTS = {
    "suite_open deleted": lambda path: add_open_reasons(path, ["the data set changed"]),
    "one of two reasons deleted from suite_open": lambda path: (
        add_open_reasons(path, ["the data set changed", "other code"], ["other code"]),
        set_value(path, "submission_division", "open"),
    ),
    "a reason in suite_open edited": lambda path: (
        add_open_reasons(path, ["the data set changed"], ["another note"]),
        set_value(path, "submission_division", "open"),
    ),
    "accuracy edited": lambda path: edit(
        path, lambda item: {**item, "value": 0.99} if item["value"] > 0.7 else item, "eval_accuracy"
    ),
    "training seconds edited": lambda path: edit(
        path,
        lambda item: {
            **item,
            "value": {
                **item["value"],
                "train_seconds": 44.0,
                "throughput": 2 * item["value"]["throughput"],
            },
        },
        "tracked_stats",
    ),
    "missed by status.json": lambda path: path.with_name("status.json").write_text(
        json.dumps({"status": "target_missed", "reason": ""})
    ),
}
CAUSES = {
    "2 unsuccessful": UNSUCCESSFUL,
    "3 suite_run": NO_SUITE_RUN,
    "4 run.json": CONTRADICTIONS,
    "4 metrics.jsonl, status.json": EDITED_RESULTS,
    "5 clock": CLOCK,
    "5 schedule": SCHEDULE,
    "7 resumed": RESUMED,
}
