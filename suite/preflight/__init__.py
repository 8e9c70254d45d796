"""Checks of this machine before a run.

They find conditions that prevent the run, or that would distort its times. The controller runs the
checks before each job, and `suite doctor` runs them at any time.
"""
