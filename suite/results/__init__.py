"""Reads training logs, scores the runs by the MLPerf rules, and prints tables, comparisons, advice and pages."""

from suite.results.logs.events import Problem
from suite.results.logs.reader import read
from suite.results.logs.record import Evaluation, Reading, RunRecord, RunSettings, Throughput

__all__ = ["Evaluation", "Problem", "Reading", "RunRecord", "RunSettings", "Throughput", "read"]
