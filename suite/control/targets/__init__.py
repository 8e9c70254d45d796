"""Targets of a command, which process the plans of its jobs."""
