"""What lies in a run's folder and beside it, under names that writers and readers share."""

SUPERSEDED = "superseded"
"""Folder beside the runs of a job that keeps unfinished attempts; reports leave it out."""

STUDY_FILES = "study-*.json"
"""In the folder of a study's jobs: its cells, also those that could not run, and what its table holds (docs/studies.md)."""


def study_file(name: str) -> str:
    """Name of that file for the study of this name."""
    return STUDY_FILES.replace("*", name)
