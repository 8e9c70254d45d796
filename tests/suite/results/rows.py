"""Builders of results from a few numbers without a log, and of logs over several device counts."""

from itertools import chain, combinations, count
from types import SimpleNamespace

from suite.results.columns import OURS, Run
from suite.results.data_table import DataTable
from suite.results.ratios import ratio
from suite.results.scores import results_of
from suite.results.series import families, series_of_family
from testing.fake_logs import write_run

_SETTINGS = {
    **{
        "workload": "ncf",
        "framework": "pytorch",
        "profile": "demo",
        "system": "laptop",
        "device": "cpu",
        "nodes": 1,
    },
    **{
        "device_name": "Some CPU",
        "batch_rule": "default",
        "global_batch_size": 4096,
        "precision": "fp32",
        "rules": "v0.5",
    },
    **{"clock": "v0.5", "labels": ("demo",)},
}
_LOGS = count()


def make_runs(devices=1, runs=((100.0, 10.0),), **changed):
    """Return one `Run` for each (seconds, epochs) pair.

    Args:
        devices: Number of devices of every run.
        runs: Time to target in seconds and epochs to target of each run.
        **changed: Settings or columns that differ from the defaults.
    """
    common = {
        **{**_SETTINGS, "devices": devices, "run": "log", "round": OURS},
        **{
            "targets": {"hr_at_10": 0.635},
            "hyperparameters": {"opt_base_learning_rate": 0.001},
            **changed,
        },
    }
    columns_of_runs = [
        {"seconds": seconds, "epochs": epochs, "start_ms": float(n)}
        for n, (seconds, epochs) in enumerate(runs)
    ]
    return [
        Run(**{"path": f"log {next(_LOGS)}", **common, **columns}) for columns in columns_of_runs
    ]


def make_result(devices=1, runs=((100.0, 10.0),), failed=0, **changed):
    """Return the only result of the runs of `make_runs` and of `failed` further, failed runs."""
    failed_runs = make_runs(
        devices, [(None, None)] * failed, **changed | {"succeeded": False, "status": "aborted"}
    )
    (result,) = results_of([*make_runs(devices, runs, **changed), *failed_runs])
    return result


def pairs(results, intervals=True):
    """Return the ratio of every pair of device counts within each series of results."""
    of_series = (
        combinations(series, 2)
        for family in families(results)
        for series in series_of_family(family)
    )
    return [ratio(*both, intervals) for both in chain.from_iterable(of_series)]


def lines(table):
    """Return the rows of a `DataTable` or DataFrame as objects with the columns as attributes."""
    rows = table if isinstance(table, DataTable) else DataTable.from_frame(table)
    return [SimpleNamespace(**row) for row in rows]


OF_DEVICES = {
    1: ((0.3, 0.5, 0.65), 2.0, 100),
    2: ((0.5, 0.65), 1.5, 160),
    4: ((0.5, 0.65), 1.0, 240),
}
"""For each number of devices: quality after each epoch, seconds per epoch, samples per epoch."""


def sweep(root, runs=1, counts=(1, 2, 4), **options):
    """Write logs on 1, 2, and 4 devices and return their folder.

    The times to target are 6 s (3 epochs), 3 s (2 epochs), and 2 s (2 epochs). Each further run
    takes 2 % longer.
    """
    for index in range(runs):
        for devices in counts:
            qualities, seconds, samples = OF_DEVICES[devices]
            log = {
                "qualities": qualities,
                "seconds_per_epoch": seconds * (1 + index / 50),
                "samples": samples,
            }
            write_run(root, f"ncf-{devices}", index, devices=devices, **log, **options)
    return root
