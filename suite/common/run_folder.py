"""What lies in a run's folder and beside it, under names that writers and readers share."""

SUPERSEDED = "superseded"
"""Folder beside the runs of a job that keeps unfinished attempts; reports leave it out."""
