"""Minimal training and input loops that the benchmarks compare the suite with.

No module imports the suite.
"""
