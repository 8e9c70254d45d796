"""Catalog of rounds, closed-division rules, and hyperparameter sets.

The catalog determines whether a run is in the closed or the open division. The controller and the
log readers use the catalog. Workers read the values of their round from `run.json`
(`workloads.api.Round`).
"""
