"""Controller of a run, which `run_suite.py` starts.

The controller starts the processes of the run, monitors the processes, samples the machine, ends
the processes, and writes the result.
"""
