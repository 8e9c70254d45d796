"""Catalog of rounds, closed rules and hyperparameter sets, and the division that they give a run.

The controller and the readers of logs use this package. Workers take the figures of their round from `run.json`
(`workloads.api.Round`).
"""
