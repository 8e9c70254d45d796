"""What the scaling law is fitted to: time per epoch on numbers of devices, in families that share workload and hardware."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from suite.results.published.csv_files import ARTICLE, SHIPPED, PublishedResult, load_published_results
from suite.results.score.measurement import Measurement

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
    """Time per epoch on one number of devices."""

    workload: str
    devices: int
    batch_per_device: float
    """Samples (sentences) a device and step."""
    seconds_per_epoch: float
    """Evaluation included."""
    samples_per_second: float | None = None
    """Training alone, of all devices; None where it was not logged."""
    round: str = ""
    name: str = ""

    @property
    def device_seconds(self) -> float:
        """Seconds per epoch times devices: constant where scaling is linear."""
        return self.seconds_per_epoch * self.devices


Family = tuple[Observation, ...]
"""Observations of one workload, submitter, round and accelerator, in order of devices."""


@dataclass(frozen=True)
class PublishedFamilies:
    """The published rows that the law is fitted to, and what was left out."""

    families: tuple[Family, ...]
    left_out: tuple[tuple[str, int], ...]
    """(reason, rows)."""

    @property
    def rows(self) -> int:
        """Rows over all families."""
        return sum(map(len, self.families))


def observation(item: Measurement, name: str = "") -> Observation | None:
    """A measurement as an observation; None where time per epoch or batch is not known."""
    per_epoch, batch = item.score.seconds_per_epoch, item.batch_size_global
    if not per_epoch or not batch or item.devices < 1:
        return None
    each = item.samples_per_batch_unit or (1 / TOKENS_PER_SENTENCE if item.batch_unit.startswith("tokens") else 1.0)
    return Observation(
        workload=item.workload,
        devices=item.devices,
        batch_per_device=batch * each / item.devices,
        seconds_per_epoch=per_epoch,
        samples_per_second=item.score.samples_per_second,
        round=item.origin,
        name=name or item.series,
    )


def published_families(results: Iterable[PublishedResult] | None = None) -> PublishedFamilies:
    """Families of two or more device counts among the published rows of the closed division on NVIDIA's GPUs.

    Shipped rows alone, unless `results` are given: a user's own must not move the constants and the validation.
    Of several entries with the same round, submitter, workload, accelerator and device count the fastest epoch counts.
    Logs submitted again in a later round count once, and Mask R-CNN with fewer images than devices not at all: there a part
    of the devices does not train.
    """
    left_out: Counter[str] = Counter()
    fastest: dict[tuple[object, ...], Observation] = {}
    for result in load_published_results([SHIPPED]) if results is None else results:
        item = result.measurement
        if item.workload not in WORKLOADS:
            continue
        reason = _reason_to_leave_out(result)
        seen = observation(item, result.name)
        if reason or seen is None:
            left_out[reason or "batch or time per epoch not known"] += 1
            continue
        key: tuple[object, ...] = (item.origin, item.submitter, item.workload, item.hardware, item.devices)
        other = fastest.get(key)
        left_out["slower than another entry on as many devices"] += other is not None
        fastest[key] = seen if other is None else min(seen, other, key=lambda row: row.seconds_per_epoch)
    grouped: dict[tuple[object, ...], list[Observation]] = {}
    for key, row in fastest.items():
        grouped.setdefault(key[:-1], []).append(row)
    families = [tuple(sorted(rows, key=lambda row: row.devices)) for rows in grouped.values() if len(rows) > 1]
    left_out["the only device count of its family"] += sum(len(rows) == 1 for rows in grouped.values())
    return PublishedFamilies(tuple(families), tuple((why, count) for why, count in left_out.items() if count))


def outside_of_the_law(item: Measurement) -> str:
    """Why the law says nothing of a measurement, whatever its figures; empty if it does.

    Our own GPUs are all NVIDIA's, and of our own runs the division says only which hyperparameters they had.
    """
    if item.origin == "ours":
        return ""
    if item.in_open_division:
        return "open division"
    if not _NVIDIAS.search(item.hardware):
        return "no NVIDIA GPU"
    return ""


def _reason_to_leave_out(result: PublishedResult) -> str:
    """Why a published row is not fitted; empty for one that is."""
    item = result.measurement
    outside = outside_of_the_law(item)
    if outside:
        return outside
    if _REPEATED in item.note or _REPEATED in result.row.get("note", ""):
        return "logs of an earlier round again"
    if item.workload == "maskrcnn" and (item.batch_size_global or item.devices) < item.devices:
        return "Mask R-CNN with fewer images than devices"
    return ""


def of_rounds(families: Sequence[Family], rounds: Iterable[str]) -> list[Family]:
    """The families of these rounds."""
    wanted = set(rounds)
    return [family for family in families if family[0].round in wanted]
