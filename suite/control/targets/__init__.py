"""Targets of a command. A target processes the plans of the command's jobs."""
