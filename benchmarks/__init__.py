"""Benchmarks of the suite: each module is started with `python -m benchmarks.NAME` from the
repository root.
"""
