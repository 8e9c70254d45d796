"""The closed rules of a round as a table, and what a run's settings make of it: nothing is closed that no row allows.

A row names settings, what they may be, and the line of the rules that says so. Several rows for a setting are alternatives.
A setting that no row allows, or that has no row, makes the division open. Rows are data, `conf/rounds/`: docs/rules.md prints
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from suite.catalog.deviations import SETTING_NAMES, Deviation, DeviationCode, shown
from suite.catalog.yaml_files import as_number
from workloads.api import Json, Round, suggestion

TOLERANCE = 1e-6
"""By which a quotient may miss a whole number; the stock checker's is ten times as large (mlp_compliance.is_integer)."""

Values = Mapping[str, Json]
"""Everything that decides what a run computes, by name."""


Test = Callable[[Json, Values], bool]
"""Of a value of a setting, and those of the whole run."""


@dataclass(frozen=True)
class Allowed:
    """What a row allows."""

    text: str
    """It reads after "not": `1 or 50`."""
    allows: Test
    of: Json = None
    """What `one_of` and `at_targets` are made of, for those who ask a round what its data set and its targets are."""
    others: Callable[[Mapping[str, Json]], list[str]] | None = None
    """Of a value of many parts: those that differ, or are missing."""

    def __str__(self) -> str:
        return self.text

    def holds(self, value: Json, values: Values) -> bool:
        """Whether it allows the value; no where it cannot be asked: a row of the user's wants a multiple of a text."""
        try:
            return self.allows(value, values)
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
            return False


ANY = Allowed("any", lambda value, values: True)


def one_of(*chosen: Json) -> Allowed:
    """One of these values; 0 and 0.0 are equal, a list and a tuple too."""
    plain = [_plain(item) for item in chosen]
    return Allowed(" or ".join(map(shown, chosen)), lambda value, values: _plain(value) in plain, chosen)


def reference(parts: Mapping[str, Json], free: tuple[str, ...] = ()) -> Allowed:
    """The reference's values of something with many parts, a model; `free` parts may have any value."""

    def others(value: Mapping[str, Json]) -> list[str]:
        names = [name for name in {**parts, **value} if name not in free or name not in value]
        return [name for name in names if _plain(parts.get(name)) != _plain(value.get(name))]

    text = "the reference's" + (f" but for {', '.join(free)}" if free else "")
    return Allowed(text, lambda value, values: not others(value), others=others)


def at_targets(least: Mapping[str, float]) -> Allowed:
    """Every metric of the round at its target or above; others beside them only make a run longer."""
    text = " and ".join(f"{metric} {target:g}" for metric, target in least.items()) + " or above"
    return Allowed(
        text, lambda value, values: all(value.get(metric, -math.inf) >= least[metric] for metric in least), least
    )


def whole(least: int, most: int | None = None) -> Allowed:
    """A whole number from `least` to `most`, both included."""
    text = f"{least} or more, whole" if most is None else f"{least} to {most}, whole"
    return Allowed(text, lambda value, values: _is_whole(value) and least <= value and (most is None or value <= most))


def at_least(least: float | str) -> Allowed:
    """A number from a bound on: a number, or the name of another setting."""
    return Allowed(f"{shown(least)} or more", lambda value, values: bool(value >= _bound(least, values)))


def at_most(most: float) -> Allowed:
    """A number up to this one."""
    return Allowed(f"{shown(most)} or less", lambda value, values: bool(value <= most))


def above(least: float) -> Allowed:
    """A number above this one."""
    return Allowed(f"above {shown(least)}", lambda value, values: bool(value > least))


def below(*bounds: float | str) -> Allowed:
    """A number below all of these: numbers, or names of other values; null is no bound."""

    def allows(value: Json, values: Values) -> bool:
        limits = [_bound(bound, values) for bound in bounds]
        return all(value < bound for bound in limits if bound is not None)

    return Allowed("below " + " and ".join(SETTING_NAMES.get(str(bound), shown(bound)) for bound in bounds), allows)


def multiple(of: float) -> Allowed:
    """`of` times 1, 2, 3, …"""
    return Allowed(f"{shown(of)} · k", lambda value, values: float(value) / of > 0.5 and _is_whole(float(value) / of))


def power_of_two(of: float) -> Allowed:
    """`of` times 2^N for any whole N; never 0."""
    return Allowed(f"{shown(of)} · 2^N", lambda value, values: value > 0 and _is_whole(math.log2(value / of)))


def per_batch(rate: float, batch: int) -> Allowed:
    """What a reference computes from the global batch, but for rounding: `rate` for every `batch` samples."""
    text = f"{shown(rate)} · global batch / {batch}"
    return Allowed(text, lambda value, values: _is_close(value, rate * values["global_batch_size"] / batch))


def per_device(of: float) -> Allowed:
    """`of` for every sample that a device has in a step, but for rounding."""
    text = f"{shown(of)} · global batch / devices"
    return Allowed(text, lambda value, values: _is_close(value, of * values["global_batch_size"] / values["devices"]))


LESS_HALVINGS = Allowed("1 - 2^-k, k ≥ 0", lambda value, values: 0 <= value < 1 and _is_whole(math.log2(1 - value)))
"""1 less a number of halvings: 0, 1/2, 3/4, …"""


def stretched(boundaries: tuple[float, ...], least: int | None = None) -> Allowed:
    """A schedule stretched in time: each boundary times 1 + k/10, for one whole k of at least `least`; None: k may be negative
    too, as long as the boundaries stay positive."""

    def allows(value: Json, values: Values) -> bool:
        if len(value) != len(boundaries):
            return False
        factors = [given / own for given, own in zip(value, boundaries, strict=True)]
        k = 10 * (factors[0] - 1)
        alike = all(_is_close(factor, factors[0]) for factor in factors)
        return alike and factors[0] > 0 and _is_whole(k) and (least is None or round(k) >= least)

    return Allowed(f"{shown(boundaries)} · (1 + k/10)" + ("" if least is None else f", k ≥ {least}"), allows)


_ARGUMENTS: Mapping[str, tuple[Callable[[Json], bool], str]] = {
    "list": (lambda given: isinstance(given, list) and bool(given), "a list"),
    "number": (lambda given: _is_number(given), "a number"),
    "bound": (lambda given: _is_number(given) or isinstance(given, str), "a number or the name of a setting"),
    "numbers": (lambda given: isinstance(given, list) and all(map(_is_number, given)), "a list of numbers"),
    "targets": (lambda given: isinstance(given, dict) and all(map(_is_number, given.values())), "{METRIC: NUMBER}"),
}
_KINDS: Mapping[str, tuple[Callable[..., Allowed], str]] = {
    "one_of": (lambda chosen: one_of(*chosen), "list"),
    "at_targets": (at_targets, "targets"),
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
"""What a row of a file may say beside a value: its function, and what stands behind it."""
_WITHOUT = {"any": ANY, "less_halvings": LESS_HALVINGS}


def allowed(given: Json, model: Mapping[str, Json]) -> Allowed:
    """What a row of a file allows: one value, `any`, `less_halvings`, `reference_model`, or `{KIND: …}` with further keys:
    `{whole: 1, most: 4}`. `model`: the reference's. Raises ValueError."""
    if given == "reference_model":
        return reference(model)
    if isinstance(given, str) and given in _WITHOUT:
        return _WITHOUT[given]
    if not isinstance(given, dict):
        return one_of(as_number(given))
    kind, first = next(iter(given.items()), ("", None))
    if kind not in _KINDS:
        raise ValueError(
            f"{kind}: there is no such kind; allowed: {', '.join((*_WITHOUT, *_KINDS))}{suggestion(str(kind), _KINDS)}"
        )
    function, form = _KINDS[kind]
    fits, words = _ARGUMENTS[form]
    first = [as_number(item) for item in first] if isinstance(first, list) else as_number(first)
    others = {name: as_number(value) for name, value in given.items() if name != kind}
    if not fits(first) or not all(map(_is_number, others.values())):
        raise ValueError(f"{kind}: {words} is needed, found {shown(given)[:80]}")
    try:
        return reference(model, tuple(first)) if kind == "reference_model" else function(first, **others)
    except TypeError as error:  # a further key that there is not, or one that is missing
        raise ValueError(f"{kind}: {error}") from None


@dataclass(frozen=True)
class Rule:
    """A row: settings, what they may be, and where the rules say so."""

    names: tuple[str, ...]
    allowed: Allowed
    source: str
    """Section and row of the round's rules, or the checker's file."""
    when: Mapping[str, Allowed] = field(default_factory=dict)
    """Settings that must be so for the row to apply."""

    def applies(self, values: Values) -> bool:
        """True if every condition holds."""
        return all(allowed.holds(values.get(name), values) for name, allowed in self.when.items())


@dataclass(frozen=True)
class ClosedRound(Round):
    """A round for one workload, with the closed rules, which the controller and the readers of logs check."""

    rows: tuple[Rule, ...] = ()
    """The closed rules. Empty: the round does not have the workload, and every run is open."""
    listed_optimizers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Maps an optimizer to the frameworks for which the round lists an implementation. Packages must show that others are
    equivalent. Empty: the round has no such list."""
    unsupported_reason: str = ""
    """Part of the round's reference that the workload does not compute: every run under the round is open for this reason."""

    def listed_values(self, name: str, otherwise: Json = None) -> Json:
        """Return the values that the first row of a setting lists, or `otherwise` if no row names the setting."""
        return next((row.allowed.of for row in self.rows if name in row.names), otherwise)


def deviations(rows: Sequence[Rule], values: Values, judged: Iterable[str]) -> list[Deviation]:
    """Return a deviation for each setting of `judged` that no row allows.

    Args:
        rows: The closed rules of a round.
        values: Every setting that a row may look at, including those of `judged`.
        judged: Names of the settings to check.
    """
    found = []
    for name in judged:
        applying = [row for row in rows if name in row.names and row.applies(values)]
        if not any(row.allowed.holds(values[name], values) for row in applying):
            found.append(_deviation(name, values[name], [row.allowed for row in applying]))
    return found


def _deviation(setting: str, value: Json, allowed: Sequence[Allowed]) -> Deviation:
    """Return the deviation of a setting whose value none of these rows allows."""
    text = " or ".join(dict.fromkeys(str(item) for item in allowed))
    if allowed and allowed[0].others is not None:
        parts = tuple(allowed[0].others(value))
        differing = {name: _plain(value[name]) for name in parts if name in value}
        return Deviation(DeviationCode.SETTING, setting, differing, text, parts=parts)
    listed = _plain(allowed[0].of) if len(allowed) == 1 else None
    return Deviation(DeviationCode.SETTING, setting, _plain(value), text, listed)


def _plain(value: Json) -> Json:
    """Tuples as lists, as JSON gives them back."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _bound(bound: float | str, values: Values) -> Json:
    """A number, or the value of the setting that it names."""
    return values[bound] if isinstance(bound, str) else bound


def _is_close(value: float, wanted: float) -> bool:
    return math.isclose(value, wanted, rel_tol=TOLERANCE)


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: float) -> bool:
    return math.isfinite(value) and abs(value - round(value)) < TOLERANCE
