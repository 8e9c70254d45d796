"""Targets of a command: what is done with the plans of its jobs."""
