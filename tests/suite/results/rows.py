"""Results from a few numbers, without a log."""

from dataclasses import fields
from types import SimpleNamespace

from suite.results.columns import row_of_settings
from suite.results.logs.record import RunSettings
from suite.results.scores import results_of

_SETTINGS = {
    **{"workload": "ncf", "framework": "pytorch", "profile": "demo", "system": "laptop", "device": "cpu", "nodes": 1},
    **{"device_name": "Some CPU", "batch_rule": "set", "batch_size_global": 4096, "precision": "fp32", "rules": "v0.5"},
    **{"clock": "v0.5", "labels": ("demo",)},
}


def make_runs(devices=1, runs=((100.0, 10.0),), **changed):
    """Run rows from (seconds, epochs) each; `changed` are settings or columns."""
    known = {item.name for item in fields(RunSettings)}
    settings = {**_SETTINGS, "devices": devices, **{name: value for name, value in changed.items() if name in known}}
    blank = row_of_settings(RunSettings(**settings)) | {"run": "log", "path": "log"}
    blank |= {"targets": {"hr_at_10": 0.635}, "hyperparameters": {"opt_base_learning_rate": 0.001}, **changed}
    return [
        SimpleNamespace(**blank | {"seconds": seconds, "epochs": epochs, "start_ms": float(index)})
        for index, (seconds, epochs) in enumerate(runs)
    ]


def make_result(devices=1, runs=((100.0, 10.0),), failed=0, **changed):
    """The one result of such runs, beside which `failed` more failed."""
    lost = make_runs(devices, [(None, None)] * failed, **changed | {"succeeded": False, "status": "aborted"})
    (result,) = results_of([*make_runs(devices, runs, **changed), *lost])
    return result
