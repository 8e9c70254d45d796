"""Export runs to TensorBoard, with a folder of event files for each run.

The exporter first reads the existing events, so that it writes no event twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.hparams import api_pb2, plugin_data_pb2
from tensorboard.plugins.text import metadata as text_metadata
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from suite.common.run_folder import safe_name
from suite.results.text import markdown_escape
from suite.trackers.exported import ExportedRun

_Point = tuple[str, int, int]
"""Tag, step, and time in milliseconds since 1970 of a TensorBoard event."""
_START, _END = "_hparams_/session_start_info", "_hparams_/session_end_info"
"""Tags that TensorBoard's HParams page reads. The page uses only the first event with each tag.

The exporter therefore writes these events only after the run has ended.
"""


class TensorBoard:
    """TensorBoard event files below a log directory."""

    def __init__(self, output: str) -> None:
        self._folder = Path(output)
        self._written: dict[str, set[_Point]] = {}
        self._files: dict[str, Path] = {}

    def add(self, run: ExportedRun) -> int:
        """Append the new events of a run to its folder, and return the number of new scalars."""
        folder = next(
            self._folder.glob(f"*-{run.identity}"),
            self._folder / f"{safe_name(run.name)}-{run.identity}",
        )
        if run.identity not in self._written:
            self._written[run.identity] = {
                point
                for path in sorted(folder.glob("events.out.tfevents.*"))
                for point in _points(path)
            }
        written = self._written[run.identity]
        scalars = [
            scalar
            for scalar in run.scalars
            if (scalar.name, scalar.at, scalar.time_ms) not in written
        ]
        events = [
            _event(scalar.time_ms, scalar.at, _scalar(run, scalar.name, scalar.value))
            for scalar in scalars
        ]
        if not any(tag == "run" for tag, _, _ in written):
            events.insert(0, _event(run.start_ms, 0, _text(run)))
        if run.end_ms is not None and not any(tag == _END for tag, _, _ in written):
            events += [
                # some rows of the table are complete only at the end of the run
                _event(run.end_ms, 1, _text(run)),
                _event(run.start_ms, 0, _hparams(_START, _session_start(run))),
                _event(run.end_ms, 0, _hparams(_END, _session_end(run))),
            ]
        if events:
            self._append(folder, run, events)
        return len(scalars)

    def _append(self, folder: Path, run: ExportedRun, events: list[Event]) -> None:
        """Append events to a new file that no other process writes.

        The events are not appended to an existing file, because a killed process may have left an
        incomplete record at its end.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if run.identity not in self._files:
            count = len([*folder.glob("events.out.tfevents.*")])
            self._files[run.identity] = path = (
                folder / f"events.out.tfevents.{run.start_ms // 1000}.{count:06d}"
            )
            path.touch(exist_ok=False)
            events.insert(0, Event(wall_time=run.start_ms / 1000, file_version="brain.Event:2"))
        with open(self._files[run.identity], "ab") as stream:
            writer = RecordWriter(stream)
            for event in events:
                writer.write(event.SerializeToString())
            writer.flush()
        self._written[run.identity].update(filter(None, map(_point, events)))


def _points(path: Path) -> Iterator[_Point]:
    return filter(None, map(_point, LegacyEventFileLoader(str(path)).Load()))


def _point(event: Event) -> _Point | None:
    """Return the tag, step, and time of an event.

    Returns None for the event that contains the file version.
    """
    tag = next((value.tag for value in event.summary.value), None)
    return None if tag is None else (tag, event.step, round(event.wall_time * 1000))


def _event(time_ms: int, step: int, value: Summary.Value) -> Event:
    return Event(wall_time=time_ms / 1000, step=step, summary=Summary(value=[value]))


def _scalar(run: ExportedRun, name: str, value: float) -> Summary.Value:
    """Return a TensorBoard scalar.

    The description of the scalar contains the labels, because the chart displays the description.
    """
    metadata = SummaryMetadata(
        display_name=name, summary_description=markdown_escape(run.labels_text)
    )
    return Summary.Value(tag=name, simple_value=value, metadata=metadata)


def _text(run: ExportedRun) -> Summary.Value:
    """Return a table of labels, tags, and hyperparameters for TensorBoard's Text page."""
    rows = {"labels": run.labels_text, **run.tags, **run.hyperparameters}
    lines = [
        f"| {markdown_escape(name)} | {markdown_escape(str(value))} |"
        for name, value in rows.items()
    ]
    metadata = text_metadata.create_summary_metadata(display_name="run", description="")
    tensor = make_tensor_proto(
        "\n".join([f"| run | {markdown_escape(run.name)} |", "|---|---|", *lines])
    )
    return Summary.Value(tag="run", metadata=metadata, tensor=tensor)


def _session_start(run: ExportedRun) -> plugin_data_pb2.HParamsPluginData:
    start = plugin_data_pb2.SessionStartInfo(
        group_name=run.identity, start_time_secs=run.start_ms / 1000
    )
    for name, value in {"labels": run.labels_text, **run.tags, **run.hyperparameters}.items():
        kind = {bool: "bool_value", str: "string_value"}.get(type(value), "number_value")
        setattr(start.hparams[name], kind, value)
    return plugin_data_pb2.HParamsPluginData(session_start_info=start)


def _session_end(run: ExportedRun) -> plugin_data_pb2.HParamsPluginData:
    status = api_pb2.STATUS_SUCCESS if run.status == "success" else api_pb2.STATUS_FAILURE
    end = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=(run.end_ms or 0) / 1000)
    return plugin_data_pb2.HParamsPluginData(session_end_info=end)


def _hparams(tag: str, data: plugin_data_pb2.HParamsPluginData) -> Summary.Value:
    content = SummaryMetadata.PluginData(plugin_name="hparams", content=data.SerializeToString())
    return Summary.Value(
        tag=tag, metadata=SummaryMetadata(plugin_data=content), tensor=make_tensor_proto([0.0])
    )
