"""Owns the processes of a run: starts, watches, samples, ends and files them.

The top of the runner, for `run_suite.py`.
"""
