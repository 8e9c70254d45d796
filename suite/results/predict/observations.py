"""What the scaling law is fitted to: time per epoch on numbers of devices, in families that share workload and hardware."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from suite.results.identity import Row, key
from suite.results.names import accelerator_name
from suite.results.published import ARTICLE, SHIPPED
from suite.results.scores import published_results

WORKLOADS = ("resnet50", "ssd", "maskrcnn", "gnmt", "transformer")
"""Workloads with published rows on several device counts (NCF was submitted on one node alone)."""
TOKENS_PER_SENTENCE = 30.0
"""Transformer's batch is counted in tokens: divided by about the mean length of a WMT'14 sentence it is one of sentences."""
CONSTANTS_UP_TO = (ARTICLE, "v0.5", "v0.6", "v0.7", "v1.1")
"""Rounds that the law's fixed constants were chosen on; later ones test it."""
_NVIDIAS = re.compile(
    r"\b(nvidia|tesla|geforce|quadro|titan|rtx|dgx|gh200|gb[23]00|[bh][12]00|h[28]00|b300|h20|v100s?|[pa]100|a800|"
    r"a10g?|a16|a2|a[34]0|l20|l40?s?|p40?|t4|k80)\b",
    re.IGNORECASE,
)
"""Whose GPU an accelerator's name means: other programs log `A100-SXM4-40GB` without the maker."""
_REPEATED = "logs stand already under"
"""Part of the note of a published row whose logs were submitted in an earlier round too."""


@dataclass(frozen=True)
class Observation:
    """Time per epoch, evaluation included, on one number of devices with so many samples (sentences) each."""

    workload: str
    devices: int
    batch_per_device: float
    seconds_per_epoch: float
    round: str = ""
    name: str = ""
    submitter: str = ""
    accelerator: str = ""

    @property
    def device_seconds(self) -> float:
        """Seconds per epoch times devices: constant where scaling is linear."""
        return self.seconds_per_epoch * self.devices


Family = tuple[Observation, ...]
"""Observations of results that differ in devices and batch alone, in order of devices."""


def samples_per_batch_unit(row: Row) -> float | None:
    """Samples in one unit of the batch: 1, or sentence pairs a token as the runs had them; None where no log tells."""
    if row.batch_unit in ("", "samples"):
        return 1.0
    units = (row.steps or 0) * (row.batch_size_global or 0)
    return row.samples / units if row.samples and units else None


def observation(row: Row) -> Observation | None:
    """A result as an observation; None where time per epoch, batch or devices are not known."""
    if not row.seconds_per_epoch or not row.batch_size_global or not row.devices:
        return None
    each = samples_per_batch_unit(row) or (1 / TOKENS_PER_SENTENCE if row.batch_unit.startswith("token") else 1.0)
    batch, accelerator = row.batch_size_global * each / row.devices, accelerator_name(row.device_name or row.device)
    about = (row.round, row.run, row.submitter, accelerator)
    return Observation(row.workload, row.devices, batch, row.seconds_per_epoch, *about)


def published_families() -> tuple[list[Family], dict[str, int]]:
    """(families of two or more device counts among the shipped rows, reason to rows left out).

    Rows of the closed division on NVIDIA's GPUs; a user's own must not move the constants and the validation. Of several
    entries of a family on as many devices the fastest epoch counts. Logs submitted again in a later round count once.
    """
    left_out: Counter[str] = Counter()
    grouped: dict[object, dict[int, Observation]] = {}
    for row in (row for row in published_results((SHIPPED,)) if row.workload in WORKLOADS):
        seen = observation(row)
        reason = outside_of_the_law(row) or _reason_to_leave_out(row)
        if reason or seen is None:
            left_out[reason or "batch or time per epoch not known"] += 1
            continue
        family = grouped.setdefault(key(row, "gpus", "batch"), {})
        left_out["slower than another entry on as many devices"] += seen.devices in family
        family[seen.devices] = min(family.get(seen.devices, seen), seen, key=lambda one: one.seconds_per_epoch)
    left_out["the only device count of its family"] = sum(len(found) == 1 for found in grouped.values())
    families = [tuple(found[devices] for devices in sorted(found)) for found in grouped.values() if len(found) > 1]
    return families, dict(left_out.most_common())


def outside_of_the_law(row: Row) -> str:
    """Why the law says nothing of a result, whatever its figures; empty if it does.

    Our own GPUs are all NVIDIA's, and of our own runs the division says only which hyperparameters they had.
    """
    if row.profile:
        return ""
    known = _NVIDIAS.search(row.device_name or row.device)
    return "open division" if "open" in row.division else "" if known else "no NVIDIA GPU"


def _reason_to_leave_out(row: Row) -> str:
    """Why a published row is not fitted. With fewer images than devices a part of the devices does not train."""
    if _REPEATED in (row.note or ""):
        return "logs of an earlier round again"
    fewer = row.workload == "maskrcnn" and (row.batch_size_global or math.inf) < (row.devices or 0)
    return "Mask R-CNN with fewer images than devices" if fewer else ""


def of_workload(families: Iterable[Family], workload: str) -> list[Family]:
    """The families of a workload."""
    return [family for family in families if family[0].workload == workload]
