"""Minimal training and input loops with which the benchmarks compare the suite.

None of these modules imports the suite.
"""
