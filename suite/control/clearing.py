"""Clear the caches of all machines before a run.

After the run, the module checks whether the data set has changed.
"""

from __future__ import annotations

from suite.catalog.deviations import Deviation, DeviationCode
from suite.control import caches
from suite.control.command import Command
from suite.control.hosts.agents import Agents
from suite.plan.job import Job


def clear_caches(
    job: Job, command: Command, agents: Agents | None
) -> tuple[bool, caches.DataStates | None]:
    """Clear the caches before a run that starts from step 0.

    Returns:
        Whether the caches were cleared, and the recorded metadata of the data set's files. For a
        run on several machines, the metadata is None, and a change of a file is detected only if it
        happens while the caches are cleared.
    """
    settings = job.template.settings
    states = None
    if agents is not None:
        cleared, lines = agents.clear(job)
    else:
        cleared, line, states = caches.clear_and_watch(
            job.system, settings.dataset, settings.data_dir
        )
        lines = [line] if line else []
    for line in lines:
        command.warn(line)
    return cleared, states


def open_reasons(states: caches.DataStates | None) -> list[Deviation]:
    """Return the reasons for the open division that are found only after a run has ended."""
    changed = states.find_change() if states is not None else ""
    sentence = f"the data set changed during the run: {changed}"
    return [Deviation(DeviationCode.DATA_CHANGED, detail=sentence)] if changed else []
