"""Sentences below a table of results.

The sentences describe the division, speedups, disagreements, and the use of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.catalog.deviations import SETTING_NAMES, Deviation, DeviationCode
from suite.catalog.deviations import shown as shown_value
from suite.launch.registered_frameworks import title_of
from suite.results.columns import Result
from suite.results.disagreement import find_disagreements
from suite.results.ratios import Ratio, ratio_text
from suite.results.scores import labels
from suite.results.settings_difference import distinct_labels
from suite.results.text import clean, devices_text, percent_text, range_text, time_text
from suite.results.views.overview import division
from suite.results.views.speedup_text import (
    NOT_SEPARATED,
    interval_sentence,
    speedup_details,
    speedup_headline,
)

_MAX_REASONS, _MAX_PARTS = 4, 4
"""Maximum number of reasons for the open division, and maximum number of model differences per
reason, without `--verbose`.
"""


def open_division_sentence(deviations: Sequence[Deviation], verbose: bool = False) -> str:
    """Return the reasons for the open division as a sentence.

    Example: `Open division because: profile is demo instead of reference.`

    Args:
        deviations: The reasons.
        verbose: True to list all reasons, and all differences between the model and the reference.
    """
    order = {"profile": 0, "dataset": 1, "model": 2}
    ordered = sorted(deviations, key=lambda deviation: order.get(deviation.setting, len(order)))
    shown = ordered if verbose else ordered[:_MAX_REASONS]
    phrases = [_reason_text(deviation, verbose) for deviation in shown]
    hidden = len(ordered) - len(shown)
    if hidden:
        phrases.append(f"{hidden} more reason{'' if hidden == 1 else 's'} (--verbose)")
    return f"Open division because: {clean('; '.join(phrases), 4000)}."


def _reason_text(deviation: Deviation, verbose: bool) -> str:
    """Describe a reason for the open division.

    Examples: `data set is ml-demo instead of ml-20m`, `model differs in mf_dim, mlp_layer_sizes`.
    """
    if deviation.code is not DeviationCode.SETTING:
        return deviation.text
    name = SETTING_NAMES.get(deviation.setting, deviation.setting)
    if deviation.parts:
        parts = deviation.parts if verbose else deviation.parts[:_MAX_PARTS]
        hidden = len(deviation.parts) - len(parts)
        return f"{name} differs from the reference in {', '.join(parts)}" + (
            f" and {hidden} more settings" if hidden else ""
        )
    if deviation.value is None or not deviation.allowed:
        return deviation.text
    return f"{name} is {shown_value(deviation.value)} instead of {deviation.allowed}"


def result_notes(result: Result, deviations: Sequence[str], shared: Sequence[str]) -> list[str]:
    """Return the notes on a result in a row of a table.

    The notes contain labels, deviations from the closed division, and the method of the score.
    """
    texts = [text for text in (*division(result), *labels(result)) if text not in shared]
    texts += [
        f"open division because: {text}" for text in result.deviations if text not in deviations
    ]
    texts += [*result.score_notes, mean_text(result), result.note]
    return [text for text in texts if text]


def mean_text(result: Result) -> str:
    """Describe how the runs of a result are averaged: `olympic mean of 8 of 10 runs`.

    The text is empty for a single run.
    """
    if not result.to_target or result.runs_successful < 2:
        return ""
    return f"{result.score_method} of {result.runs_retained} of {result.runs_successful} runs"


def speedup_sentences(table: Sequence[Result], over: Mapping[str, Ratio]) -> list[str]:
    """Return sentences on the speedups in a table: their size, factors, and confidence."""
    compared = [
        result for result in table if result.key in over and over[result.key].value is not None
    ]
    if not compared:
        return []
    frameworks = {result.framework for result in table}
    baselines = [over[result.key].before for result in compared]
    labels_of = distinct_labels(
        baselines, [over[result.key].places for result in compared], ("devices", "nodes")
    )
    sentences: list[str] = []
    flags: dict[str, list[str]] = {}
    for result, settings in zip(compared, labels_of, strict=True):
        speedup = over[result.key]
        name = ", ".join(
            filter(None, (title_of(result.framework) if len(frameworks) > 1 else "", settings))
        )
        prefix = f"{name}: " if name else ""
        sentences.append(" ".join((prefix + speedup_headline(speedup), *speedup_details(speedup))))
        for flag in speedup.flags:
            flags.setdefault(flag, []).append(f"{prefix}{speedup.places}")
    for flag, names in flags.items():
        where = f" ({'; '.join(names)})" if len(names) < len(compared) else ""
        sentences.append(f"{flag[:1].upper()}{flag[1:]}{where}.")
    if any(
        over[result.key].total is not None and over[result.key].setup is None for result in compared
    ):
        sentences.append(NOT_SEPARATED)
    unsure = interval_sentence([over[result.key] for result in compared])
    return [*sentences, *([unsure] if unsure else [])]


def disagreement_sentences(table: Sequence[Result]) -> list[str]:
    """Return sentences on results whose times differ between output folders."""
    sentences = []
    for found in find_disagreements(table):
        result, parts = found.result, []
        for folder, seconds in found.seconds_by_folder.items():
            longest = max(seconds)
            times = (
                time_text(min(seconds), longest)
                if len(seconds) == 1
                else range_text(min(seconds), longest, longest)
            )
            parts.append(f"{times} in {relative_path_text(str(folder))}")
        why = (
            "more than the spread within a folder"
            if found.has_spread
            else "with one run per folder, the spread is unknown"
        )
        sentences.append(
            f"On {devices_text(result.devices or 0, result.nodes)} the runs disagree:"
            f" {', '.join(parts)}. Their times per epoch differ by {ratio_text(found.ratio)}×"
            f" ({why}), so ratios of these results are not reliable."
        )
    return sentences


def share_sentences(table: Sequence[Result]) -> list[str]:
    """Return sentences on the fractions of time for evaluation and waiting for data.

    Tables without columns for the components of the time use these sentences.
    """
    if any(result.parts is not None for result in table):
        return []
    sentences = []
    for name, text in (
        ("evaluation_share", "Evaluation took {} of the time of training and evaluation."),
        ("data_wait_share", "Waiting for data took {} of the training time."),
    ):
        shares = sorted(share for result in table if (share := getattr(result, name)))
        if shares:
            ends = dict.fromkeys((percent_text(shares[0]), percent_text(shares[-1])))
            sentences.append(text.format(" to ".join(ends)))
    return sentences


def relative_path_text(path: str) -> str:
    """Return a path as sanitized text.

    A path below the working directory is converted to a relative path.
    """
    absolute = Path(path).absolute()
    here = Path.cwd()
    return clean(
        str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute), 400
    )
