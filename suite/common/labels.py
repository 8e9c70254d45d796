"""Labels of runs.

A label is a condition that is shown with every number of a run, such as `cpu` or `demo`.

Logs hold the texts in `labels` and the same labels as data in `label_facts`. Logs of versions
without `label_facts` only hold the texts, which `label_of_text` converts.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from workloads.api import Json


class LabelKind(enum.Enum):
    """Kind of a label. The value is the kind in logs, and the text of labels without a detail."""

    DEMO = "demo"
    SYNTHETIC = "synthetic"
    CPU = "cpu"
    OVERSUBSCRIBED = "oversubscribed"
    """The run had more devices than the machine has."""
    NULL_DEVICE = "null device"
    """The GPU is a stub without computation."""
    ASYNC = "async"
    """Each device updated the model with its gradients, without synchronization."""
    STRAGGLER = "straggler"
    """A device was slowed down on purpose. The detail is the delay per step."""
    RESUMED = "continued"
    """The run was resumed from a checkpoint."""
    BUSY = "busy machine"
    """Foreign programs used the machine. The detail names their share."""
    EXTRAPOLATED = "extrapolated"
    """The number lies beyond the measured device counts."""
    USER_FILE = "own file"
    """The result is from a file of the user, without a review."""
    ARTICLE = "article"
    """The result was published in an article."""
    DATA = "data"
    """A difference of the data set, or of the initial weights, from the published files.

    The detail is the sentence.
    """
    OTHER = "other"
    """A label of a different version or program. The detail is its text."""


_TEXT_IS_DETAIL = (LabelKind.DATA, LabelKind.OTHER)


@dataclass(frozen=True)
class Label:
    """A condition that is shown with every number of a run."""

    kind: LabelKind
    detail: str = ""
    scope: str = ""
    """Runs of a result that the label is about: `2 of 3 runs`. Empty: all runs."""

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The text for users, such as `straggler 50 ms`.

        A label may also have a scope: `busy machine (2 of 3 runs): others took 48 % of its cores`.
        """
        if self.kind in _TEXT_IS_DETAIL:
            return self.detail
        name = f"{self.kind.value} ({self.scope})" if self.scope else self.kind.value
        if not self.detail:
            return name
        return f"{name}: {self.detail}" if self.kind is LabelKind.BUSY else f"{name} {self.detail}"

    def to_json(self) -> dict[str, Json]:
        """Return the object of `label_facts`. Fields without a value are left out."""
        stated = {
            name: value for name, value in (("detail", self.detail), ("scope", self.scope)) if value
        }
        return {"kind": self.kind.value, **stated}


def profile_label(profile: str) -> Label:
    """Return the label of a profile, which may be that of a plugin."""
    try:
        return Label(LabelKind(profile))
    except ValueError:
        return Label(LabelKind.OTHER, profile)


def label_from_json(value: Json) -> Label | None:
    """Return the label in an object of `label_facts`, or None for an invalid value.

    A kind that only a different version has becomes `OTHER`, with the same text.
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
    """Return the label for a text of an older version, which wrote no `label_facts`.

    Every text that is not a fixed label is a note of the data set.
    """
    if text in _PLAIN:
        return Label(_PLAIN[text])
    if match := _STRAGGLER.fullmatch(text):
        return Label(LabelKind.STRAGGLER, match["delay"])
    if match := _BUSY.fullmatch(text):
        return Label(LabelKind.BUSY, match["detail"] or "", match["scope"] or "")
    return Label(LabelKind.DATA, text)
