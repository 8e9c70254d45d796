"""Results: one reader for logs, scores by the rules, tables."""

from suite.results.lines import Problem
from suite.results.reader import read
from suite.results.record import Evaluation, Reading, RunRecord, RunSettings, Throughput

__all__ = ["Evaluation", "Problem", "Reading", "RunRecord", "RunSettings", "Throughput", "read"]
