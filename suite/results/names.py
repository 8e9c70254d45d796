"""One name for each workload, whatever a log or a table calls it."""

from __future__ import annotations

from collections.abc import Mapping

WORKLOADS = ("resnet50", "ssd", "maskrcnn", "gnmt", "transformer", "ncf")
"""The suite's names."""
_ALIASES: Mapping[str, str] = {
    "resnet": "resnet50",
    "mask": "maskrcnn",
    "mask_rcnn": "maskrcnn",
    "nmt": "gnmt",
    "rnn_translator": "gnmt",
    "recommendation": "ncf",
}
"""What logs of the rounds and tables of articles say, to the suite's name."""
TITLES: Mapping[str, str] = {
    "resnet50": "Image classification (ResNet-50)",
    "ssd": "Object detection, light (SSD)",
    "maskrcnn": "Object detection, heavy (Mask R-CNN)",
    "gnmt": "Translation, recurrent (GNMT)",
    "transformer": "Translation (Transformer)",
    "ncf": "Recommendation (NCF)",
}


def workload_name(name: str) -> str:
    """The suite's name of a workload; an unknown name comes back in lower case."""
    lower = name.strip().lower()
    return _ALIASES.get(lower, lower)


def framework_name(text: str, system: str = "") -> str:
    """`pytorch`, `tensorflow` or `mxnet` from a submitter's words; the system's name decides where the words name several.

    Anything else comes back as it is.
    """
    for words in (system.lower(), text.lower()):
        named = [name for name in ("pytorch", "tensorflow", "mxnet") if name in words]
        if len(named) == 1:
            return named[0]
    return text
