"""Catalog of rounds, closed rules and hyperparameter sets, which determines the division of a run.

The controller and the readers of logs use this package. Workers read the figures of their round
from `run.json` (`workloads.api.Round`).
"""
