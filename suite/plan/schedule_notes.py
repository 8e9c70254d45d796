"""Notes about a run that trains beyond the end of its learning-rate schedule."""

from __future__ import annotations

from suite.plan.schedule import schedule_note
from suite.plan.validate_workload import check_workload
from workloads.api import DatasetInfo, Settings, Workload


def schedule_notes(
    workload: type[Workload], settings: Settings, dataset_info: DatasetInfo
) -> list[str]:
    """Return the note for a run that trains beyond the end of its schedule.

    The list is empty for all other runs, and for settings that are rejected by a later check.
    """
    try:
        of_run = workload(settings, dataset_info)
        check_workload(of_run)
    except ValueError:
        return []
    note = schedule_note(of_run)
    return [note] if note else []
