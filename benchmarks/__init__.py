"""Benchmarks of the suite.

Start a module from the repository root: `python -m benchmarks.NAME`.
"""
