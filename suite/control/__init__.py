"""Controls the processes of a run: starts them, monitors them, samples the machine, ends them, and
writes the result.

This package is the entry of the runner, for `run_suite.py`.
"""
