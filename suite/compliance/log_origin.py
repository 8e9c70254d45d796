"""Determine whether this suite wrote a log, and whether the log's `suite_run` line is valid.

Every check of the suite's logs needs the `suite_run` line. If a log shows other signs of this
suite, a missing `suite_run` is therefore an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from suite.common import registry
from suite.compliance.complaints import MISSING, Complaint
from suite.results.logs.compressed import CompressedLog, compression_of, is_read
from suite.results.logs.events import Event
from suite.results.logs.record import RunRecord
from suite.results.logs.recorded_telemetry import json_lines, json_object
from suite.results.text import clean
from workloads import files

NEVER_EDIT = "a log must not be edited: run again, and give the log as it was written"
PROFILES = ("reference", "demo", "synthetic")
_KEY_PREFIX = "suite_"
_FILE_ENTRY = re.compile(rb'"file"\s{0,9}:\s{0,9}("(?:[^"\\]|\\.){1,400}")')
"""Pattern of the key `file` in the metadata of a record, with its value as a JSON string."""
_SOURCE_FILE = re.compile(r"(?:^|/)suite/(?:worker|control|agent)/\w{1,60}\.py")
"""Pattern of the suite's source files that write log records."""
_BLOCK_BYTES = 1 << 20
_OVERLAP_BYTES = 1 << 10
"""Number of bytes at the end of each block that are searched again together with the next block."""
_MAX_FILE_BYTES = 16 << 20
_KEYS_OF_FILES = {
    "run.json": frozenset(
        {
            "settings",
            "dataset_info",
            "facts",
            "run_index",
            "cache_cleared",
            "code_digest",
            "resume_from",
        }
    ),
    "status.json": frozenset({"run_index", "controller"}),
    "topology.json": frozenset({"gpu_nvlink", "gpu_pcie", "numa_nodes"}),
}
"""Maps each JSON file that the suite writes next to a log to keys that only this suite writes.

If a file contains any of these keys, this suite wrote the file.
"""
_KEYS_OF_ROWS = {
    "metrics.jsonl": frozenset({"train_seconds", "samples_per_second"}),
    "telemetry.jsonl": frozenset({"sensors", "run_memory_bytes"}),
}
"""Maps each JSON Lines file that the suite writes next to a log to keys that only this suite
writes.
"""


def signs_of_suite(record: RunRecord, events: Sequence[Event]) -> list[str]:
    """Return the signs, apart from `suite_run`, that this suite wrote a log.

    The list is empty for logs of other programs.
    """
    keys = sorted(
        {event.key for event in events if event.key.strip().lower().startswith(_KEY_PREFIX)}
        - {"suite_run"}
    )
    signs = [f"key {clean(key, 40)}" for key in keys]
    if source_file := _find_source_file(record.path):
        signs.append(f"file {source_file} in the metadata")
    signs += [f"{name} next to it" for name in _files_of_suite(record.path)]
    return signs


def _files_of_suite(log: Path) -> Iterator[str]:
    """Yield the names of the files next to a log that this suite wrote."""
    for name, keys in _KEYS_OF_FILES.items():
        content = json_object(log.with_name(name), _MAX_FILE_BYTES)
        if not keys.isdisjoint(content) or (
            name == "status.json" and isinstance(content.get("status"), str)
        ):
            yield name
    for name, keys in _KEYS_OF_ROWS.items():
        if any(not keys.isdisjoint(row) for row in json_lines(log.with_name(name))):
            yield name


def find_origin_complaints(record: RunRecord, events: Sequence[Event]) -> Iterator[Complaint]:
    """Yield complaints about a missing, repeated, or damaged `suite_run`.

    Invalid content of the log never raises an error.
    """
    lines = [event for event in events if event.key == "suite_run"]
    if not lines:
        if signs := signs_of_suite(record, events):
            shown = ", ".join(signs[:3])
            needed = f"exactly once: this suite wrote the log ({shown})"
            yield Complaint("suite_run", 0, MISSING, needed, NEVER_EDIT)
        return
    if len(lines) > 1:
        yield Complaint(
            "suite_run", lines[1].line, f"{len(lines)} times", "exactly once", NEVER_EDIT
        )
    first = lines[0]
    if not isinstance(first.value, dict):
        yield Complaint(
            "suite_run",
            first.line,
            clean(str(first.value), 40),
            "an object with the settings",
            NEVER_EDIT,
        )
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
    benchmark = registry.load_workload(workload).mlperf_name
    if record.benchmark != benchmark:
        found = f"{clean(record.benchmark, 40) or MISSING}, and workload {workload} in suite_run"
        yield Complaint("submission_benchmark", 0, found, benchmark, NEVER_EDIT)


def _find_source_file(path: Path) -> str:
    """Return a source file of this suite that the log's metadata names, or "".

    The log reader skips the metadata `file`, so this function searches the file directly.
    """
    try:
        with files.open_stream(path) as stream:
            compression = compression_of(stream.read(_OVERLAP_BYTES))
            stream.seek(0)
            source = CompressedLog(stream, compression) if is_read(compression) else stream
            end = b""
            while block := source.read(_BLOCK_BYTES):
                for entry in _FILE_ENTRY.finditer(end + block):
                    if match := _SOURCE_FILE.search(_json_string(entry[1])):
                        return match[0].lstrip("/")
                end = block[-_OVERLAP_BYTES:]
    except OSError:
        pass
    return ""


def _json_string(text: bytes) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return ""
