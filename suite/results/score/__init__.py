"""Runs to scores: rows of equal runs, means by the rules, intervals, speedups. For all tables and comparisons."""
