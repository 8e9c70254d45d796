"""Cases of NCF's rules: closed and open settings, and settings around their limits.

mlperf-logging has no rule file for NCF, so the suite's rule file is checked.
"""

import dataclasses

from suite.catalog.sets import named_sets
from testing import synthetic
from tests.workloads.closed_logs import changed, varied
from workloads.ncf.dataset_info import published_facts
from workloads.ncf.settings import DEMO_MODEL, REFERENCE_MODEL
from workloads.ncf.workload import NCF

SETS = named_sets(NCF)


def settings(set_name, **changes):
    """Return the settings of the full workload with a hyperparameter set."""
    values = {
        "rules": "v0.5",
        "dataset": "ml-20m",
        "model": REFERENCE_MODEL,
        "targets": {"hr_at_10": 0.635},
    }
    return changed(synthetic.of_set(NCF, set_name, **values), **changes)


CLOSED = [
    (settings("reference"), []),
    (settings("nvidia_v0.5"), []),
    (settings("intel_v0.5"), []),
    (settings("reference", learning_rate=0.1, beta1=0.1, beta2=0.2, max_epochs=3), []),
    (settings("reference", epsilon=1e-7), ["epsilon 1e-07, not 1e-08 or 1.45439e-07"]),
    (
        settings("reference", model=DEMO_MODEL),
        ["model with other mf_dim, mlp_layer_sizes than the reference's"],
    ),
    (settings("reference", rules="v0.7"), ["rules v0.7, whose round has no ncf"]),
    (
        settings("reference", dataset="ml-1m", targets={"hr_at_10": 0.5}),
        ["data set ml-1m, not ml-20m", "targets hr_at_10 0.5, not hr_at_10 0.635 or above"],
    ),
]

LEAST = 30
LAXER = {
    "epsilon": "the rule file ignores the value",
    "precision": "not logged under a key of the rules",
    "dataset": "the rule file checks the data's counts",
    "stop": "not logged under a key of the rules",
}
EDGES = {
    "learning_rate": [1e-5, 5e-4, 0.0045, 1.0],
    "beta1": [0.0, 0.25, 0.9],
    "beta2": [0.0, 0.5, 0.999],
    "epsilon": [1e-8, 1.45439e-7, 1e-7, 1e-4],
    "global_batch_size": [256, 2_048, 1_048_576],
    "max_epochs": [1, 100],
    "targets": [{"hr_at_10": 0.6349}, {"hr_at_10": 0.635}, {"hr_at_10": 0.64}],
    "model": [
        DEMO_MODEL,
        {**REFERENCE_MODEL, "mf_dim": 32},
        {**REFERENCE_MODEL, "mlp_layer_sizes": [256, 128, 64]},
    ],
    "precision": ["bf16", "tf32"],
    "dataset": ["ml-1m"],
    "options": [{"evaluation_users_per_batch": 7}, {"data_threads": 3}],
    "stop": ["epochs:1"],
}  # fmt: skip


def around_the_edges():
    cases = [case for name in SETS for case in varied(settings(name), EDGES)]
    dataset_info = dataclasses.replace(published_facts(), fingerprint="published")
    # The number of parameters is checked outside the demo. All settings have the data of ML-20M
    # here.
    return [NCFOfAnySize(case, dataset_info) for case in cases]


class NCFOfAnySize(NCF):
    """NCF without the check of its number of parameters, so that models of any size have a log."""

    def __init__(self, settings, dataset_info):
        super(NCF, self).__init__(settings, dataset_info)
