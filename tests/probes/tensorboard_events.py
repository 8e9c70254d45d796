"""Prints the events below a log directory as JSON, as TensorBoard's reader reads them.

python -m tests.probes.tensorboard_events FOLDER
"""

import contextlib
import json
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import metadata as hparams
from tensorboard.util.tensor_util import make_ndarray

found = {}
for name in EventMultiplexer().AddRunsFromDirectory(sys.argv[1]).Runs():
    events = EventAccumulator(
        str(Path(sys.argv[1], name)), size_guidance={"scalars": 0, "tensors": 0}
    ).Reload()
    tags = events.Tags()["scalars"]
    found[name] = {
        "first": events.FirstEventTimestamp(),
        "scalars": {
            tag: [[event.step, event.value, event.wall_time] for event in events.Scalars(tag)]
            for tag in tags
        },
        "descriptions": [events.SummaryMetadata(tag).summary_description for tag in tags],
        "texts": [
            make_ndarray(event.tensor_proto).item().decode() for event in events.Tensors("run")
        ],
    }
    with contextlib.suppress(KeyError):  # the run has no hyperparameters
        content = events.PluginTagToContent("hparams")
        start = hparams.parse_session_start_info_plugin_data(
            content[hparams.SESSION_START_INFO_TAG]
        )
        end = hparams.parse_session_end_info_plugin_data(content[hparams.SESSION_END_INFO_TAG])
        found[name]["hparams"] = {
            key: getattr(value, value.WhichOneof("kind")) for key, value in start.hparams.items()
        }
        found[name]["session"] = [start.start_time_secs, end.end_time_secs, end.status]
print(json.dumps(found))
