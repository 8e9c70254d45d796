"""Benchmarks of the suite.

Start a benchmark from the repository root with `python -m benchmarks.NAME`.
"""
