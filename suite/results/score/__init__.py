"""Scores: groups of equal runs, their means by the rules, confidence intervals, and speedups."""
