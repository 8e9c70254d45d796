"""Results from a few numbers, without a log; and logs over devices."""

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
        "batch_rule": "set",
        "global_batch_size": 4096,
        "precision": "fp32",
        "rules": "v0.5",
    },
    **{"clock": "v0.5", "labels": ("demo",)},
}
_LOGS = count()


def make_runs(devices=1, runs=((100.0, 10.0),), **changed):
    """Run rows from (seconds, epochs) each; `changed` are settings or columns."""
    known = {
        **{**_SETTINGS, "devices": devices, "run": "log", "round": OURS},
        **{
            "targets": {"hr_at_10": 0.635},
            "hyperparameters": {"opt_base_learning_rate": 0.001},
            **changed,
        },
    }
    own = [
        {"seconds": seconds, "epochs": epochs, "start_ms": float(n)}
        for n, (seconds, epochs) in enumerate(runs)
    ]
    return [Run(**{"path": f"log {next(_LOGS)}", **known, **one}) for one in own]


def make_result(devices=1, runs=((100.0, 10.0),), failed=0, **changed):
    """The one result of such runs, beside which `failed` more failed."""
    lost = make_runs(
        devices, [(None, None)] * failed, **changed | {"succeeded": False, "status": "aborted"}
    )
    (result,) = results_of([*make_runs(devices, runs, **changed), *lost])
    return result


def pairs(results, intervals=True):
    """The ratio of every pair of device counts within a series of results."""
    of_series = (
        combinations(series, 2)
        for family in families(results)
        for series in series_of_family(family)
    )
    return [ratio(*both, intervals) for both in chain.from_iterable(of_series)]


def lines(table):
    """The rows of a view's table, or of a part of it as a DataFrame, as objects with its columns as
    attributes.
    """
    rows = table if isinstance(table, DataTable) else DataTable.from_frame(table)
    return [SimpleNamespace(**row) for row in rows]


OF_DEVICES = {
    1: ((0.3, 0.5, 0.65), 2.0, 100),
    2: ((0.5, 0.65), 1.5, 160),
    4: ((0.5, 0.65), 1.0, 240),
}
"""Qualities of the epochs, seconds and samples of each."""


def sweep(root, runs=1, counts=(1, 2, 4), **options):
    """Logs over devices: one 6 s and 3 epochs; two 3 s and 2; four 2 s and 2.

    Each further run takes 2 % longer.
    """
    for index in range(runs):
        for devices in counts:
            qualities, seconds, samples = OF_DEVICES[devices]
            own = {
                "qualities": qualities,
                "seconds_per_epoch": seconds * (1 + index / 50),
                "samples": samples,
            }
            write_run(root, f"ncf-{devices}", index, devices=devices, **own, **options)
    return root
