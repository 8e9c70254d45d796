"""Labels of runs.

A label is a condition, such as `cpu` or `demo`, that is shown next to every number of a run.

Logs contain the text of each label in `labels` and the structured label in `label_facts`. Logs of
versions without `label_facts` contain only the text, which `label_of_text` converts to a structured
label.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Json


class LabelKind(enum.Enum):
    """Category of a label.

    The enum value is written to logs. If a label has no details, the enum value is also the label's
    text.
    """

    DEMO = "demo"
    SYNTHETIC = "synthetic"
    CPU = "cpu"
    OVERSUBSCRIBED = "oversubscribed"
    """The run used more devices than the machine has."""
    NULL_DEVICE = "null device"
    """The GPU is a stub driver that computes nothing."""
    ASYNC = "async"
    """Each device updated the model with its local gradients, without synchronization."""
    STRAGGLER = "straggler"
    """A device was slowed down on purpose. The label's detail is the delay per step."""
    RESUMED = "continued"
    """The run was resumed from a checkpoint."""
    BUSY = "busy machine"
    """Unrelated programs used the machine's CPU cores. The label's detail is the share of the cores
    that they used.
    """
    EXTRAPOLATED = "extrapolated"
    """The displayed number is an extrapolation beyond the measured numbers of devices."""
    USER_FILE = "own file"
    """The displayed result comes from a user's file and was not reviewed."""
    ARTICLE = "article"
    """The displayed result was published in an article."""
    DATA = "data"
    """The data set or the initial weights differ from the published files.

    The label's detail is a complete sentence that describes the difference.
    """
    OTHER = "other"
    """A different version or program wrote the label. The label's detail is the original text."""


_TEXT_IS_DETAIL = (LabelKind.DATA, LabelKind.OTHER)


@dataclass(frozen=True)
class Label:
    """A condition that is shown next to every number of a run."""

    kind: LabelKind
    detail: str = ""
    scope: str = ""
    """Number of runs in a result to which the label applies, such as `2 of 3 runs`. An empty string
    means all runs.
    """

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """Return the label's text for users, such as `straggler 50 ms`.

        With a scope, an example is `busy machine (2 of 3 runs): others took 48 % of its cores`.
        """
        if self.kind in _TEXT_IS_DETAIL:
            return self.detail
        name = f"{self.kind.value} ({self.scope})" if self.scope else self.kind.value
        if not self.detail:
            return name
        return f"{name}: {self.detail}" if self.kind is LabelKind.BUSY else f"{name} {self.detail}"

    def to_json(self) -> dict[str, Json]:
        """Return the label as a JSON object for `label_facts`, without empty fields."""
        stated = {
            name: value for name, value in (("detail", self.detail), ("scope", self.scope)) if value
        }
        return {"kind": self.kind.value, **stated}


def profile_label(profile: str) -> Label:
    """Return the label of a profile. A plugin may define the profile."""
    try:
        return Label(LabelKind(profile))
    except ValueError:
        return Label(LabelKind.OTHER, profile)


def label_from_json(value: Json) -> Label | None:
    """Decode a JSON object of `label_facts`, or return None if it is invalid.

    A label whose kind this version does not define gets the kind `OTHER` and keeps its text.
    """
    if not isinstance(value, Mapping):
        return None
    kind, detail, scope = value.get("kind"), value.get("detail", ""), value.get("scope", "")
    if not isinstance(kind, str) or not isinstance(detail, str) or not isinstance(scope, str):
        return None
    try:
        return Label(LabelKind(kind), detail, scope)
    except ValueError:
        return Label(LabelKind.OTHER, f"{kind} {detail}".strip())


_STRAGGLER = re.compile(r"straggler (?P<delay>\d+ ms)")
_BUSY = re.compile(r"busy machine(?: \((?P<scope>[^)]*)\))?(?:: (?P<detail>.*))?", re.DOTALL)
_PLAIN = {
    kind.value: kind
    for kind in LabelKind
    if kind not in (*_TEXT_IS_DETAIL, LabelKind.STRAGGLER, LabelKind.BUSY)
}


@functools.lru_cache(maxsize=4096)
def label_of_text(text: str) -> Label:
    """Return the label for a text in a log without `label_facts`.

    Every text that is not a predefined label is treated as a note about the data set.
    """
    if text in _PLAIN:
        return Label(_PLAIN[text])
    if match := _STRAGGLER.fullmatch(text):
        return Label(LabelKind.STRAGGLER, match["delay"])
    if match := _BUSY.fullmatch(text):
        return Label(LabelKind.BUSY, match["detail"] or "", match["scope"] or "")
    return Label(LabelKind.DATA, text)
