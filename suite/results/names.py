"""Names of workloads and frameworks: one for each, whatever a log or a table calls it."""

from __future__ import annotations

from collections.abc import Mapping

WORKLOADS = ("resnet50", "ssd", "maskrcnn", "gnmt", "transformer", "ncf")
"""The suite's names of the workloads."""
_ALIASES: Mapping[str, str] = {
    "resnet": "resnet50",
    "mask": "maskrcnn",
    "mask_rcnn": "maskrcnn",
    "nmt": "gnmt",
    "rnn_translator": "gnmt",
    "recommendation": "ncf",
}
"""Name in logs of the rounds or tables of articles, to the suite's name."""
WORKLOAD_TITLES: Mapping[str, str] = {
    "resnet50": "Image classification (ResNet-50)",
    "ssd": "Object detection, light (SSD)",
    "maskrcnn": "Object detection, heavy (Mask R-CNN)",
    "gnmt": "Translation, recurrent (GNMT)",
    "transformer": "Translation (Transformer)",
    "ncf": "Recommendation (NCF)",
}


def workload_name(name: str) -> str:
    """The suite's name of a workload; an unknown name is returned in lower case."""
    lower = name.strip().lower()
    return _ALIASES.get(lower, lower)


def framework_name(text: str, system: str = "") -> str:
    """`pytorch`, `tensorflow` or `mxnet` from a submitter's description; the system's name decides where that names several.

    Any other text is returned as it is.
    """
    for source in (system.lower(), text.lower()):
        named = [name for name in ("pytorch", "tensorflow", "mxnet") if name in source]
        if len(named) == 1:
            return named[0]
    return text
