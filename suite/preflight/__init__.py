"""Checks of this machine before a run.

The checks find conditions that prevent the run or distort its measured times. The controller runs
the checks before each job, and `suite doctor` runs the checks on request.
"""
