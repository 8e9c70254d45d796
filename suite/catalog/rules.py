"""Closed-division rules of a round, and the check of settings against these rules.

A rule contains settings, their allowed values, and the section of the MLPerf rules that is the
source. Several rules for the same setting are alternatives. A run is in the open division if a
setting has no rule, or if no rule allows the setting's value. Rules are stored as YAML in
`conf/rounds/`. All rules are listed in docs/reference/closed_rules.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from suite.catalog.deviations import SETTING_NAMES, Deviation, DeviationCode, shown
from suite.catalog.yaml_files import as_number
from workloads.api import Json, Round, allowed_text

TOLERANCE = 1e-6
"""Maximum distance from an integer at which a number still counts as an integer.

The MLPerf checker allows a distance ten times as large (mlp_compliance.is_integer).
"""

Values = Mapping[str, Json]
"""All values that determine the computation of a run, by name."""


Test = Callable[[Json, Values], bool]
"""Function that checks the value of a setting. The second argument contains all values of the
run by name.
"""


@dataclass(frozen=True)
class Allowed:
    """Allowed values of a setting in a rule."""

    text: str
    """Description of the allowed values, which follows `not` in sentences. Example: `1 or 50`."""
    allows: Test
    listed: Json = None
    """Values of `one_of`, or targets of `at_targets`. The round's data set and targets are read
    from this attribute.
    """
    find_differing_parts: Callable[[Mapping[str, Json]], list[str]] | None = None
    """Function that returns the names of the model parameters that are missing or differ from the
    reference.
    """

    def __str__(self) -> str:
        return self.text

    def holds(self, value: Json, values: Values) -> bool:
        """Return whether `value` is allowed.

        A value of a wrong type is not allowed, for example a string if the rule is `multiple`.
        """
        try:
            return self.allows(value, values)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
            return False


ANY = Allowed("any", lambda value, values: True)


def one_of(*chosen: Json) -> Allowed:
    """Allow any of the given values.

    The comparison treats 0 and 0.0 as equal, and a list and a tuple as equal.
    """
    plain = [_plain(item) for item in chosen]
    return Allowed(
        " or ".join(map(shown, chosen)), lambda value, values: _plain(value) in plain, chosen
    )


def reference(parts: Mapping[str, Json], free: tuple[str, ...] = ()) -> Allowed:
    """Allow a model whose parameters equal the parameters of the reference.

    The parameters in `free` may have any value.
    """

    def differing_parts(value: Mapping[str, Json]) -> list[str]:
        names = [name for name in {**parts, **value} if name not in free or name not in value]
        return [name for name in names if _plain(parts.get(name)) != _plain(value.get(name))]

    text = "the reference's" + (f" but for {', '.join(free)}" if free else "")
    return Allowed(
        text, lambda value, values: not differing_parts(value), find_differing_parts=differing_parts
    )


def at_targets(least: Mapping[str, float]) -> Allowed:
    """Allow targets that are at least as high as the targets in `least`.

    Targets for additional metrics are also allowed, because an additional target can only prolong a
    run.
    """
    text = " and ".join(f"{metric} {target:g}" for metric, target in least.items()) + " or above"
    return Allowed(
        text,
        lambda value, values: all(
            value.get(metric, -math.inf) >= least[metric] for metric in least
        ),
        least,
    )


def at_most_targets(most: Mapping[str, float]) -> Allowed:
    """Allow targets that are at most as high as the targets in `most`.

    The rule is for metrics that improve as they fall. Targets for additional metrics are also
    allowed, because an additional target can only prolong a run.
    """
    text = " and ".join(f"{metric} {target:g}" for metric, target in most.items()) + " or below"
    return Allowed(
        text,
        lambda value, values: all(value.get(metric, math.inf) <= most[metric] for metric in most),
        most,
    )


def whole(least: int, most: int | None = None) -> Allowed:
    """Allow an integer from `least` to `most`, inclusive."""
    text = f"{least} or more, whole" if most is None else f"{least} to {most}, whole"
    return Allowed(
        text,
        lambda value, values: (
            _is_whole(value) and least <= value and (most is None or value <= most)
        ),
    )


def at_least(least: float | str) -> Allowed:
    """Allow a number that is at least `least`.

    The argument `least` is a number or the name of a setting.
    """
    return Allowed(
        f"{shown(least)} or more", lambda value, values: bool(value >= _bound(least, values))
    )


def at_most(most: float) -> Allowed:
    """Allow a number that is at most `most`."""
    return Allowed(f"{shown(most)} or less", lambda value, values: bool(value <= most))


def above(least: float) -> Allowed:
    """Allow a number that is greater than `least`."""
    return Allowed(f"above {shown(least)}", lambda value, values: bool(value > least))


def below(*bounds: float | str) -> Allowed:
    """Allow a number below all bounds. Each bound is a number or the name of a setting.

    A bound is ignored if the setting that it names is None.
    """

    def allows(value: Json, values: Values) -> bool:
        limits = [_bound(bound, values) for bound in bounds]
        return all(value < bound for bound in limits if bound is not None)

    return Allowed(
        "below " + " and ".join(SETTING_NAMES.get(str(bound), shown(bound)) for bound in bounds),
        allows,
    )


def multiple(of: float) -> Allowed:
    """Allow a positive integer multiple of `of`."""
    return Allowed(
        f"{shown(of)} · k",
        lambda value, values: float(value) / of > 0.5 and _is_whole(float(value) / of),
    )


def power_of_two(of: float) -> Allowed:
    """Allow `of` times 2^N for any integer N. The value 0 is not allowed."""
    return Allowed(
        f"{shown(of)} · 2^N", lambda value, values: value > 0 and _is_whole(math.log2(value / of))
    )


def per_batch(rate: float, batch: int) -> Allowed:
    """Allow `rate` · global batch size / `batch`.

    The value may deviate by the rounding error of the reference.
    """
    text = f"{shown(rate)} · global batch / {batch}"
    return Allowed(
        text, lambda value, values: _is_close(value, rate * values["global_batch_size"] / batch)
    )


def per_device(of: float) -> Allowed:
    """Allow `of` times the batch size per device, up to rounding errors."""
    text = f"{shown(of)} · global batch / devices"
    return Allowed(
        text,
        lambda value, values: _is_close(
            value, of * values["global_batch_size"] / values["devices"]
        ),
    )


LESS_HALVINGS = Allowed(
    "1 - 2^-k, k ≥ 0", lambda value, values: 0 <= value < 1 and _is_whole(math.log2(1 - value))
)
"""Allows 1 - 2^-k for any integer k ≥ 0: 0, 1/2, 3/4, …"""


def stretched(boundaries: tuple[float, ...], least: int | None = None) -> Allowed:
    """Allow a schedule whose boundaries are the given boundaries times a common factor.

    The factor is 1 + k/10 for an integer k, where k must be at least `least`. If `least` is None,
    any k with positive boundaries is allowed.
    """

    def allows(value: Json, values: Values) -> bool:
        if len(value) != len(boundaries):
            return False
        factors = [new / old for new, old in zip(value, boundaries, strict=True)]
        k = 10 * (factors[0] - 1)
        equal = all(_is_close(factor, factors[0]) for factor in factors)
        return equal and factors[0] > 0 and _is_whole(k) and (least is None or round(k) >= least)

    return Allowed(
        f"{shown(boundaries)} · (1 + k/10)" + ("" if least is None else f", k ≥ {least}"), allows
    )


_ARGUMENTS: Mapping[str, tuple[Callable[[Json], bool], str]] = {
    "list": (lambda value: isinstance(value, list) and bool(value), "a list"),
    "number": (lambda value: _is_number(value), "a number"),
    "bound": (
        lambda value: _is_number(value) or isinstance(value, str),
        "a number or the name of a setting",
    ),
    "numbers": (
        lambda value: isinstance(value, list) and all(map(_is_number, value)),
        "a list of numbers",
    ),
    "targets": (
        lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
        "{METRIC: NUMBER}",
    ),
}
_KINDS: Mapping[str, tuple[Callable[..., Allowed], str]] = {
    "one_of": (lambda chosen: one_of(*chosen), "list"),
    "at_targets": (at_targets, "targets"),
    "at_most_targets": (at_most_targets, "targets"),
    "whole": (whole, "number"),
    "at_least": (at_least, "bound"),
    "at_most": (at_most, "number"),
    "above": (above, "number"),
    "below": (lambda bounds: below(*bounds), "list"),
    "multiple": (multiple, "number"),
    "power_of_two": (power_of_two, "number"),
    "per_batch": (per_batch, "number"),
    "per_device": (per_device, "number"),
    "stretched": (stretched, "numbers"),
    "reference_model": (reference, "list"),
}
"""Maps a name such as `one_of` to the function that builds the allowed values, and to the type
of the function's argument (a key of `_ARGUMENTS`).
"""
_WITHOUT_ARGUMENT = {"any": ANY, "less_halvings": LESS_HALVINGS}


def allowed(entry: Json, model: Mapping[str, Json]) -> Allowed:
    """Return the allowed values that a rule gives for a setting.

    Args:
        entry: A value, `any`, `less_halvings`, `reference_model`, or `{KIND: …}`, where KIND is a
            key of `_KINDS`. `{KIND: …}` may have further keys, such as `{whole: 1, most: 4}`.
        model: Parameters of the reference model.

    Raises:
        ValueError: `entry` is invalid.
    """
    if entry == "reference_model":
        return reference(model)
    if isinstance(entry, str) and entry in _WITHOUT_ARGUMENT:
        return _WITHOUT_ARGUMENT[entry]
    if not isinstance(entry, dict):
        return one_of(as_number(entry))
    kind, first = next(iter(entry.items()), ("", None))
    if kind not in _KINDS:
        names = (*_WITHOUT_ARGUMENT, *_KINDS)
        raise ValueError(f"{kind}: unknown kind, {allowed_text(names, kind)}")
    function, form = _KINDS[kind]
    fits, description = _ARGUMENTS[form]
    first = [as_number(item) for item in first] if isinstance(first, list) else as_number(first)
    further = {name: as_number(value) for name, value in entry.items() if name != kind}
    if not fits(first) or not all(map(_is_number, further.values())):
        raise ValueError(f"{kind}: expected {description}, got {shown(entry)[:80]}")
    try:
        return (
            reference(model, tuple(first))
            if kind == "reference_model"
            else function(first, **further)
        )
    except TypeError as error:  # one of the further keys of `{KIND: …}` is unknown or missing
        raise ValueError(f"{kind}: {error}") from None


@dataclass(frozen=True)
class Rule:
    """A closed-division rule: settings, their allowed values, and the source of the rule."""

    names: tuple[str, ...]
    allowed: Allowed
    source: str
    """Section and table row in the round's MLPerf rules, or file of the MLPerf checker."""
    when: Mapping[str, Allowed] = field(default_factory=dict)
    """Condition of the rule: maps settings to their allowed values. The rule applies if every
    setting has an allowed value.
    """

    def applies(self, values: Values) -> bool:
        """Return True if the rule's conditions are all satisfied."""
        return all(allowed.holds(values.get(name), values) for name, allowed in self.when.items())


@dataclass(frozen=True)
class ClosedRound(Round):
    """The closed-division rules of a round for one workload.

    The controller and the log readers check settings against these rules.
    """

    rows: tuple[Rule, ...] = ()
    """The closed-division rules. An empty tuple means that the round does not include the
    workload, so every run is in the open division.
    """
    listed_optimizers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Maps an optimizer to the frameworks for which the MLPerf rules of the round list an
    implementation.

    Submissions with an optimizer implementation that is not listed must show that it is equivalent
    to the reference. An empty mapping means that the rules of the round list no implementations.
    """
    unsupported_reason: str = ""
    """Element of the round's reference that this suite's workload does not implement.

    If the string is not empty, every run under the round is in the open division.
    """

    def listed_values(self, name: str, otherwise: Json = None) -> Json:
        """Return the values that the first rule for a setting lists.

        The method returns `otherwise` if the setting has no rule.
        """
        return next((row.allowed.listed for row in self.rows if name in row.names), otherwise)


def deviations(rows: Sequence[Rule], values: Values, names: Iterable[str]) -> list[Deviation]:
    """Return a deviation for each setting in `names` whose value no rule allows.

    Args:
        rows: The closed-division rules of a round.
        values: All values of the run by name. Conditions and bounds of rules may refer to any of
            these names.
        names: Names of the settings to check.
    """
    result = []
    for name in names:
        applying = [row for row in rows if name in row.names and row.applies(values)]
        if not any(row.allowed.holds(values[name], values) for row in applying):
            result.append(_deviation(name, values[name], [row.allowed for row in applying]))
    return result


def _deviation(setting: str, value: Json, allowed: Sequence[Allowed]) -> Deviation:
    """Return the deviation of a setting whose value none of the rules in `allowed` allows."""
    text = " or ".join(dict.fromkeys(str(item) for item in allowed))
    if allowed and allowed[0].find_differing_parts is not None:
        parts = tuple(allowed[0].find_differing_parts(value))
        differing = {name: _plain(value[name]) for name in parts if name in value}
        return Deviation(DeviationCode.SETTING, setting, differing, text, parts=parts)
    listed = _plain(allowed[0].listed) if len(allowed) == 1 else None
    return Deviation(DeviationCode.SETTING, setting, _plain(value), text, listed)


def _plain(value: Json) -> Json:
    """Return `value` with tuples replaced by lists, as after a JSON round trip."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _bound(bound: float | str, values: Values) -> Json:
    """Return a numeric bound unchanged, or the value of the setting that `bound` names."""
    return values[bound] if isinstance(bound, str) else bound


def _is_close(value: float, expected: float) -> bool:
    return math.isclose(value, expected, rel_tol=TOLERANCE)


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: float) -> bool:
    return math.isfinite(value) and abs(value - round(value)) < TOLERANCE
