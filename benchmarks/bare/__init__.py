"""Minimal training and input loops with which the benchmarks compare the suite.

None of the modules in this package imports the suite.
"""
