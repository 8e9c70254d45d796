"""Results: one reader for logs, scores by the rules, tables."""

from suite.results.logs.lines import Problem
from suite.results.logs.reader import read
from suite.results.logs.record import Evaluation, Reading, RunRecord, RunSettings, Throughput

__all__ = ["Evaluation", "Problem", "Reading", "RunRecord", "RunSettings", "Throughput", "read"]
