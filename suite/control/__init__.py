"""Controls the processes of a run. This package is the entry of the runner, for `run_suite.py`.

The controller starts the processes, monitors them, samples the machine, ends the processes, and
writes the result.
"""
