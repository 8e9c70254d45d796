"""Differences between the settings of results, as data.

Settings that differ are stored as columns. Settings that are equal are stored as common values.

Table rows, series names, filters, and captions are derived from this data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suite.results.columns import Columns
from suite.results.combine import grouped
from suite.results.experiment_key import (
    DERIVED,
    HYPERPARAMETERS,
    comparable_value,
    facts,
    label,
    left_out,
    value_text,
)
from suite.results.text import shortened

NEVER_COMPARED_WITHOUT = ("precision", "global_batch_size", "clock")
"""Settings that a view must name if it compares times and these settings differ."""
LABEL_CHARACTERS = 150
VALUE_CHARACTERS = 40


@dataclass(frozen=True)
class SettingsDifference:
    """Settings of several results.

    A setting that differs between the results has a value for each result. All other settings have
    a common value.
    """

    results: tuple[Columns, ...]
    columns: Mapping[str, tuple[Any, ...]]
    """Values of each differing setting in all results.

    A value is None if the logs of the result do not contain the setting.
    """
    common: Mapping[str, Any]
    """Values of the settings that are equal in all results."""

    def without(self, names: Collection[str]) -> SettingsDifference:
        """Return the difference without the settings `names`.

        Callers remove settings that a table already shows, for example. The name `hyperparameters`
        removes all hyperparameters.
        """
        kept = {name: values for name, values in self.columns.items() if not _is_named(name, names)}
        return SettingsDifference(self.results, kept, self.common)

    def only(self, names: Collection[str]) -> SettingsDifference:
        """Return the difference with only the settings `names`."""
        kept = {name: values for name, values in self.columns.items() if _is_named(name, names)}
        return SettingsDifference(self.results, kept, self.common)

    def with_known_values(self) -> SettingsDifference:
        """Return the difference with only the settings that the logs of all results contain."""
        kept = {
            name: values
            for name, values in self.columns.items()
            if not any(map(_is_unknown, values))
        }
        return SettingsDifference(self.results, kept, self.common)

    def phrases(self) -> list[str]:
        """Return a phrase for each differing setting: `learning rate 0.002 and 0.006`."""
        return [
            f"{label(name)} {' and '.join(dict.fromkeys(self.texts(name)))}"
            for name in self.columns
        ]

    def without_derived(self) -> SettingsDifference:
        """Return the difference without derived settings if any other setting differs.

        Labels and fingerprints are derived from other settings.
        """
        kept = {name: values for name, values in self.columns.items() if name not in DERIVED}
        return SettingsDifference(self.results, kept or self.columns, self.common)

    def distinguishing(self) -> SettingsDifference:
        """Return the smallest set of differing settings that distinguishes the results.

        Settings are removed as long as the results remain distinguishable, beginning with
        hyperparameters.
        """
        if not self.columns:
            return self
        texts = {name: self.texts(name) for name in self.columns}
        distinct = len(set(zip(*texts.values(), strict=True)))
        kept = list(texts)
        for name in reversed(list(texts)):
            rest = [kept_name for kept_name in kept if kept_name != name]
            deciding = rest
            if name in (
                "batch_rule",
                "global_batch_size",
            ):  # hyperparameters often follow from the batch size, which is clearer
                deciding = [setting for setting in rest if not setting.startswith(HYPERPARAMETERS)]
            if (
                deciding
                and len(set(zip(*(texts[setting] for setting in deciding), strict=True)))
                == distinct
            ):
                kept = rest
        return self.only(kept)

    def texts(self, name: str) -> list[str]:
        """Return the values of a setting as short texts, one for each result.

        Different values have different texts, even after shortening.
        """
        values = self.columns[name]
        # labels and deviations that all results share are omitted
        if name in ("labels", "deviations"):
            shared = set.intersection(*(set(value or ()) for value in values))
            values = tuple(
                tuple(text for text in value or () if text not in shared) for value in values
            )
        texts = []
        for value, result in zip(values, self.results, strict=True):
            texts.append("" if value == () else value_text(name, value, result, 1000))
        return shortened(texts, VALUE_CHARACTERS)

    def labels(self, limit: int = LABEL_CHARACTERS, exceptions: bool = False) -> list[str]:
        """Return a label for each result.

        Example: `learning rate 0.01, global batch 512`. The labels are empty if no setting differs.

        Args:
            limit: Maximum number of characters of a label. Different labels remain different.
            exceptions: Omit the most common value of each setting, so that a label contains only
                exceptions.
        """
        columns = {label(name): self.texts(name) for name in self.columns}
        usual = {
            name: _most_common(texts) if exceptions else None for name, texts in columns.items()
        }
        named = []
        for place in range(len(self.results)):
            values = {
                name: texts[place]
                for name, texts in columns.items()
                if texts[place] not in ("", usual[name])
            }
            named.append(", ".join(f"{name} {text}" for name, text in values.items()))
        return shortened(named, limit)


def settings_difference(results: Sequence[Columns], *ignored: str) -> SettingsDifference:
    """Compare the settings and the logged hyperparameters of results.

    Args:
        results: Results or runs.
        ignored: Command-line settings (`gpus`, `batch`) to omit, together with all fields that
            depend on these settings.
    """
    every = [facts(result) for result in results]
    out = set().union(*(left_out(result, ignored) for result in results)) if ignored else set()
    columns: dict[str, tuple[Any, ...]] = {}
    common: dict[str, Any] = {}
    for name in dict.fromkeys(name for settings in every for name in settings):
        values = tuple(settings.get(name) for settings in every)
        if len({comparable_value(value) for value in values}) == 1:
            common[name] = values[0]
        elif not _is_named(name, out):
            columns[name] = values
    return SettingsDifference(tuple(results), columns, common)


def distinct_labels(
    results: Sequence[Columns],
    names: Sequence[Hashable] = (),
    shown: Collection[str] = (),
    ignored: Sequence[str] = (),
    always: Collection[str] = (),
) -> list[str]:
    """Return labels that distinguish results with the same name.

    A label has as few settings as possible.

    Args:
        results: Results or runs.
        names: Name of each result. Only results with the same name are compared. If empty, all
            results are compared.
        shown: Settings that are shown next to the label and are therefore omitted from the label.
        ignored: Command-line settings to omit, together with all fields that depend on these
            settings.
        always: Settings that are included if they differ between any results, even results with
            different names.
    """
    groups = grouped(enumerate(results), lambda pair: names[pair[0]] if names else "")
    labels = [""] * len(results)
    forced = settings_difference(results, *ignored).without(shown).only(always) if always else None
    for members in groups.values():
        difference = (
            settings_difference([result for _, result in members], *ignored)
            .without(shown)
            .without_derived()
        )
        shortest = difference.distinguishing()
        for (place, _), text in zip(members, shortest.without(always).labels(), strict=True):
            labels[place] = text
    if forced is not None and forced.columns:
        labels = [
            ", ".join(filter(None, pair)) for pair in zip(labels, forced.labels(), strict=True)
        ]
    return labels


def named_apart(results: Sequence[Columns], names: Sequence[str], **options: Any) -> list[str]:
    """Return the name of each result.

    If several results have the same name, each name is followed by a distinguishing label.
    """
    labels = distinct_labels(results, names, **options)
    return [", ".join(filter(None, both)) for both in zip(names, labels, strict=True)]


def _most_common(texts: Sequence[str]) -> str | None:
    """Return the most frequent text, or None if no text occurs more than once."""
    (text, count), *further = Counter(texts).most_common(2)
    return text if count > max([1, *(further_count for _, further_count in further)]) else None


def _is_unknown(value: Any) -> bool:
    return value is None or value in ("", (), [], {})


def _is_named(name: str, names: Iterable[str]) -> bool:
    return name in names or name.partition(".")[0] in names
