"""Targets of a command. A target executes or prints the plans of the command's jobs."""
