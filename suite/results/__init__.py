"""Reads training logs into a table of runs and combines the runs into results.

Example: `from suite.results import table; runs = table("logs/")`.
"""

from suite.results.curves import curves
from suite.results.logs.events import Problem
from suite.results.logs.reader import read
from suite.results.logs.record import Evaluation, RunRecord, RunSettings, Throughput
from suite.results.table import table

__all__ = [
    "Evaluation",
    "Problem",
    "RunRecord",
    "RunSettings",
    "Throughput",
    "curves",
    "read",
    "table",
]
