"""Structured reasons why a run is in the open division.

Sentences in logs, tables, and messages are built from the structured reasons.

This module imports only the standard library. Logs contain the sentences in `deviations` and the
structured reasons in `deviation_facts`. Logs of early versions contain only the sentences.
`deviation_of_text` translates the sentences in these logs to structured reasons.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from suite.catalog.former_names import current_name
from workloads.api import Json, fingerprints

SETTING_NAMES: Mapping[str, str] = {
    "dataset": "data set",
    "seed_source": "seed from",
    "global_batch_size": "global batch",
    "repeated_share": "repeated share of an epoch",
    "left_out_share": "left-out share of an epoch",
    "warmup_samples": "samples of warm-up",
    "first_decay_samples": "those before the first decay",
    "run_samples": "those of the run",
}
"""Maps a setting's name in the configuration to its name in sentences, if the two names differ."""
_FILE_NAMES: Mapping[str, str] = {"rules": "round", "hyperparameter_set": "hyperparameter set"}
"""Maps a setting that names a user-defined file to a description of the file."""


class DeviationCode(enum.Enum):
    """Category of a reason for the open division. The enum value is written to logs."""

    SETTING = "setting"
    """No rule allows the value of a setting, or a number that is computed from settings."""
    USER_FILE = "user_file"
    """The round or the hyperparameter set comes from a user's file."""
    NO_RULES = "no_rules"
    """The round does not include the workload."""
    REFERENCE_DIFFERS = "reference_differs"
    """The workload's model or algorithm differs from the round's reference."""
    DATA = "data"
    """The data set or the initial weights differ from the published files."""
    DATA_NOT_VERIFIED = "data_not_verified"
    """The fingerprint of the data set does not match a published data set."""
    DATA_CHANGED = "data_changed"
    """Files of the data set changed during the run."""
    ENVIRONMENT_VARIABLE = "environment_variable"
    """An environment variable can change the arithmetic of the workers."""
    PRELOADED_CODE = "preloaded_code"
    """An environment variable or a Python module loads code from outside the suite into the
    workers.
    """
    CHANGED_CODE = "changed_code"
    """Files of the checkout differ from the commit that the log names."""
    OTHER_CHECKOUT = "other_checkout"
    """A worker imported code that differs from the controller's checkout."""
    RESUMED = "resumed"
    """The run was resumed from a checkpoint."""
    UNKNOWN = "unknown"
    """A sentence in a log of an earlier version does not match any code."""


@dataclass(frozen=True)
class Deviation:
    """A reason why a run is in the open division."""

    code: DeviationCode
    setting: str = ""
    """Name of the setting or of the environment variable that causes the deviation. The string is
    empty for reasons without a setting.
    """
    value: Json = field(default=None, hash=False)
    """Value of the setting in the run.

    For a model, the value contains only the parameters that differ from the reference. None means
    that a log of an earlier version does not contain the value.
    """
    allowed: str = ""
    """Allowed values of the setting, as a phrase that follows `not` in the sentence. The string is
    empty if no rule allows any value.
    """
    allowed_values: Json = field(default=None, hash=False)
    """List of allowed values in the rule, or the round's targets by metric.

    None if the rule does not list values.
    """
    parts: tuple[str, ...] = ()
    """Names of the model parameters that differ from the reference."""
    detail: str = ""
    """Additional text, which depends on `code`: the effect of an environment variable, the name
    of the workload that the round lacks, or the complete sentence.
    """
    sentence: str = ""
    """Original sentence in a log of an earlier version. The string is empty if `text` builds the
    same sentence.
    """

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """Return the reason as a phrase for users, such as `max_samples 3, not 1 or 50`."""
        if self.sentence:
            return self.sentence
        match self.code:
            case DeviationCode.SETTING:
                return self._setting_text()
            case DeviationCode.USER_FILE:
                return f"{_FILE_NAMES[self.setting]} {self.value}, a file of the user's"
            case DeviationCode.NO_RULES:
                return f"rules {self.value}, whose round has no {self.detail}"
            case DeviationCode.ENVIRONMENT_VARIABLE:
                return f"environment variable {self.setting}={self.value}, which {self.detail}"
            case DeviationCode.PRELOADED_CODE:
                return f"{self.setting}, which {self.detail}"
        return self.detail

    def _setting_text(self) -> str:
        name = SETTING_NAMES.get(self.setting, self.setting)
        if self.parts:
            return f"{name} with other {', '.join(self.parts)} than {self.allowed}"
        if not self.allowed:
            return f"{name} {shown(self.value)}, which no rule allows"
        return f"{name} {shown(self.value)}, not {self.allowed}"

    def to_json(self) -> dict[str, Json]:
        """Return the reason as a JSON object for `deviation_facts`, without empty fields."""
        texts = {name: getattr(self, name) for name in ("setting", "allowed", "detail", "sentence")}
        values = {
            "value": self.value,
            "allowed_values": self.allowed_values,
            "parts": list(self.parts) or None,
        }
        return {
            "code": self.code.value,
            **{name: text for name, text in texts.items() if text},
            **{name: value for name, value in values.items() if value is not None},
        }


def deviation_from_json(value: Json) -> Deviation | None:
    """Decode a JSON object of `deviation_facts`, or return None if it is invalid.

    A code from a later version, which this version does not define, becomes `UNKNOWN`.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("code"), str):
        return None
    texts = {name: value.get(name, "") for name in ("setting", "allowed", "detail", "sentence")}
    if isinstance(texts["setting"], str):
        texts["setting"] = current_name(texts["setting"])
    parts = value.get("parts", [])
    if not isinstance(parts, (list, tuple)) or not all(
        isinstance(item, str) for item in (*texts.values(), *parts)
    ):
        return None
    codes = {code.value: code for code in DeviationCode}
    code = codes.get(value["code"], DeviationCode.UNKNOWN)
    if code is DeviationCode.USER_FILE and texts["setting"] not in _FILE_NAMES:
        return None
    return Deviation(
        code,
        value=value.get("value"),
        allowed_values=value.get("allowed_values"),
        parts=tuple(parts),
        **texts,
    )


def data_deviation(note: str) -> Deviation:
    """Return the deviation for a note in `DatasetInfo.notes`."""
    is_unverified = note == fingerprints.NOT_VERIFIED
    return Deviation(
        DeviationCode.DATA_NOT_VERIFIED if is_unverified else DeviationCode.DATA, detail=note
    )


RESUMED = Deviation(
    DeviationCode.RESUMED, detail="it was interrupted, and went on from a checkpoint"
)


def shown(value: Json) -> str:
    """Format the value of a setting for sentences and tables."""
    if value == "":
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {shown(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(shown(item) for item in value)}]"
    return str(value)


# The patterns below match sentences in logs of versions without `deviation_facts`.


_NAME = "|".join(
    [
        *(re.escape(text) for text in SETTING_NAMES.values()),
        "samples left out of an epoch",
        r"[a-z]\w*",
    ]
)
_SETTING = re.compile(
    rf"(?P<name>{_NAME}) (?P<value>.*?)(?:, not (?P<allowed>.+)|, which no rule allows)", re.DOTALL
)
_PARTS = re.compile(
    r"(?P<name>[a-z]\w*) with other (?P<parts>.+?) than (?P<allowed>the reference's.*)", re.DOTALL
)
_USER_FILE = re.compile(
    r"(?P<name>round|hyperparameter set) (?P<value>.*), a file of the user's", re.DOTALL
)
_NO_RULES = re.compile(r"rules (?P<value>.*), whose round has no (?P<detail>.*)", re.DOTALL)
_VARIABLE = re.compile(
    r"environment variable (?P<setting>\w+)=(?P<value>.*), which (?P<detail>.*?)", re.DOTALL
)
_PRELOADED = re.compile(
    r"(?P<setting>[A-Z][A-Z0-9_]*|sitecustomize|usercustomize), which (?P<detail>.*)", re.DOTALL
)
_SET_BY_USER = re.compile(r"(?P<name>[a-z]\w*) set by the user")
_WITHOUT_RULE = re.compile(
    r"(?P<name>data set|profile|stop|mode|target|decode) (?P<value>\S+)"
    r"|(?P<rate>learning rate) (?P<number>\S+), no multiple of .*"
)
"""Pattern of sentences in logs of the first versions, which did not list the allowed values."""
_DATA = re.compile(
    r"counts differ from the published |content not known to be the published |prepared before .*"
    r" content was compared"
    r"|subset of [\d,]+ |[\d,]+ .* that cannot be used were left out|backbone "
    r"|.* has the MD5 .*, which is none of the published archives'"
)
_BEGINNINGS: Sequence[tuple[str, DeviationCode]] = (
    ("the data set changed", DeviationCode.DATA_CHANGED),
    ("code unlike its commit: ", DeviationCode.CHANGED_CODE),
    ("the run was resumed from a checkpoint", DeviationCode.RESUMED),
    ("it was interrupted, and went on from a checkpoint", DeviationCode.RESUMED),
    ("network and order of v0.6 on, ", DeviationCode.REFERENCE_DIFFERS),
)
_OTHER_CODE = re.compile(r"worker \d+ imported other code than ")
_SETTINGS_BY_NAME = {
    **{text: name for name, text in (*SETTING_NAMES.items(), *_FILE_NAMES.items())},
    "samples left out of an epoch": "left_out_samples",
    "target": "targets",
    "learning rate": "learning_rate",
}


@functools.lru_cache(maxsize=4096)
def deviation_of_text(text: str) -> Deviation:
    """Return the deviation for a sentence in a log without `deviation_facts`.

    The `text` of the returned deviation equals the sentence. All values in the deviation are
    strings, because the sentence does not show their types. The only exception are targets, which
    are numbers by metric.
    """
    deviation = _translate(text)
    return (
        deviation if deviation.text == text else Deviation(**{**vars(deviation), "sentence": text})
    )


def _translate(text: str) -> Deviation:
    if text == fingerprints.NOT_VERIFIED or _DATA.match(text):
        return data_deviation(text)
    for beginning, code in _BEGINNINGS:
        if text.startswith(beginning):
            return Deviation(code, detail=text)
    if _OTHER_CODE.match(text):
        return Deviation(DeviationCode.OTHER_CHECKOUT, detail=text)
    if match := _USER_FILE.fullmatch(text):
        return Deviation(DeviationCode.USER_FILE, _setting_called(match["name"]), match["value"])
    if match := _NO_RULES.fullmatch(text):
        return Deviation(DeviationCode.NO_RULES, "rules", match["value"], detail=match["detail"])
    if match := _VARIABLE.fullmatch(text):
        return Deviation(
            DeviationCode.ENVIRONMENT_VARIABLE,
            match["setting"],
            match["value"],
            detail=match["detail"],
        )
    if match := _PRELOADED.fullmatch(text):
        return Deviation(DeviationCode.PRELOADED_CODE, match["setting"], detail=match["detail"])
    return _translate_setting(text)


def _translate_setting(text: str) -> Deviation:
    """Return the deviation for a sentence about a setting.

    The function accepts every sentence format that an earlier version used.
    """
    if match := _PARTS.fullmatch(text):
        parts = tuple(match["parts"].split(", "))
        return Deviation(
            DeviationCode.SETTING,
            _setting_called(match["name"]),
            allowed=match["allowed"],
            parts=parts,
        )
    if match := _SETTING.fullmatch(text):
        setting, allowed = _setting_called(match["name"]), match["allowed"] or ""
        if setting == "targets":
            required = _numbers_by_metric(allowed.removesuffix(" or above").replace(" and ", ", "))
            return Deviation(
                DeviationCode.SETTING,
                setting,
                _numbers_by_metric(match["value"]),
                allowed,
                required,
            )
        return Deviation(DeviationCode.SETTING, setting, match["value"], allowed)
    if match := _SET_BY_USER.fullmatch(text):
        return Deviation(DeviationCode.SETTING, match["name"])
    if match := _WITHOUT_RULE.fullmatch(text):
        return Deviation(
            DeviationCode.SETTING,
            _setting_called(match["name"] or match["rate"]),
            match["value"] or match["number"],
        )
    return Deviation(DeviationCode.UNKNOWN, detail=text)


def _setting_called(name: str) -> str:
    return _SETTINGS_BY_NAME.get(name, current_name(name))


def _numbers_by_metric(text: str) -> dict[str, float] | None:
    """Convert a list of metrics such as `hr_at_10 0.5` to `{"hr_at_10": 0.5}`.

    Returns None if the string is not a list of metrics with numbers.
    """
    pairs = [item.rpartition(" ") for item in text.split(", ")]
    try:
        return {metric: float(number) for metric, _, number in pairs if metric} or None
    except ValueError:
        return None
