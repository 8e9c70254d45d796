"""Which logs this suite wrote, and whether their `suite_run` line is there and sound.

Every check of the suite's logs starts from `suite_run`. A log that shows other signs of this suite must therefore have it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from suite.common import registry
from suite.compliance.complaints import MISSING, Complaint
from suite.results.logs.events import Event
from suite.results.logs.record import RunRecord
from suite.results.logs.recorded_telemetry import json_object
from suite.results.text import clean
from workloads import files

NEVER_EDIT = "a log is never edited: run again, and give the log as it was written"
PROFILES = ("reference", "demo", "synthetic")
_KEY_PREFIX = "suite_"
_SOURCE_FILE = re.compile(rb'"file": ?"(suite/(?:worker|control|agent)/\w{1,60}\.py)"')
"""`file` in the metadata of a record that this suite's log writer wrote."""
_SEARCHED_BYTES = 1 << 20
"""Length of the beginning of a log in which `file` is searched."""


def signs_of_suite(record: RunRecord, events: Sequence[Event]) -> list[str]:
    """Return what shows that this suite wrote a log, apart from `suite_run`. Empty for the logs of other programs."""
    keys = sorted({event.key for event in events if event.key.startswith(_KEY_PREFIX) and event.key != "suite_run"})
    signs = [f"key {clean(key, 40)}" for key in keys]
    if source_file := _find_source_file(record.path):
        signs.append(f"file {source_file} in the metadata")
    if isinstance(json_object(record.path.with_name("run.json")).get("settings"), dict):
        signs.append("run.json next to it")
    if isinstance(json_object(record.path.with_name("status.json")).get("status"), str):
        signs.append("status.json next to it")
    return signs


def find_origin_complaints(record: RunRecord, events: Sequence[Event]) -> Iterator[Complaint]:
    """Yield complaints about a missing, repeated or damaged `suite_run`. No content of the log raises."""
    lines = [event for event in events if event.key == "suite_run"]
    if not lines:
        if signs := signs_of_suite(record, events):
            shown = ", ".join(signs[:3])
            needed = f"exactly once: this suite wrote the log ({shown})"
            yield Complaint("suite_run", 0, MISSING, needed, NEVER_EDIT)
        return
    if len(lines) > 1:
        yield Complaint("suite_run", lines[1].line, f"{len(lines)} times", "exactly once", NEVER_EDIT)
    first = lines[0]
    if not isinstance(first.value, dict):
        yield Complaint("suite_run", first.line, clean(str(first.value), 40), "an object with the settings", NEVER_EDIT)
        return
    profile, workload = record.settings.profile, record.settings.workload
    if profile not in PROFILES:
        found = f"profile {clean(profile, 40)}" if profile else "no profile"
        yield Complaint("suite_run", first.line, found, f"one of {', '.join(PROFILES)}", NEVER_EDIT)
    if workload not in registry.names(registry.WORKLOADS):
        found = f"workload {clean(workload, 40)}" if workload else "no workload"
        do = f"{NEVER_EDIT}. If a plugin has the workload, install the plugin first"
        yield Complaint("suite_run", first.line, found, "a workload that is installed here", do)
        return
    benchmark = registry.load_workload(workload).log_name
    if record.benchmark != benchmark:
        found = f"{clean(record.benchmark, 40) or MISSING}, and workload {workload} in suite_run"
        yield Complaint("submission_benchmark", 0, found, benchmark, NEVER_EDIT)


def _find_source_file(path: Path) -> str:
    """Return a source file of this suite that a log names in its metadata, or an empty string. The reader leaves them out."""
    try:
        with files.open_stream(path) as stream:
            match = _SOURCE_FILE.search(stream.read(_SEARCHED_BYTES))
    except OSError:
        return ""
    return match[1].decode("ascii") if match else ""
