"""The closed rules of a round as a table, and what a run's settings make of it: nothing is closed that no row allows.

A row names settings, what they may be, and the line of the rules that says so. Several rows for a setting are alternatives.
A setting that no row allows, or that has no row, makes the division open. Rows are data: docs/rules.md prints them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workloads.api.settings import Defaults
from workloads.api.values import Json

TOLERANCE = 1e-6
"""By which a quotient may miss a whole number; the stock checker's is ten times as large (mlp_compliance.is_integer)."""

_WORDS = {
    **{"dataset": "data set", "seed_source": "seed from", "batch_size_global": "global batch"},
    **{"repeated_share": "repeated share of an epoch", "left_out_share": "left-out share of an epoch"},
    **{"warm_up_samples": "samples of warm-up", "first_decay_samples": "those before the first decay"},
    **{"run_samples": "those of the run"},
}
"""What a phrase calls a setting, where its name would not do."""

Values = Mapping[str, Json]
"""Everything that decides what a run computes, by name."""


class Allowed(Protocol):
    """What a row allows. Its text reads after "not": `1 or 50`."""

    def allows(self, value: Json, values: Values) -> bool:
        """True for an allowed value; `values` are those of the whole run."""
        ...


@dataclass(frozen=True)
class Free:
    """Any value."""

    def allows(self, value: Json, values: Values) -> bool:
        """Always."""
        return True

    def __str__(self) -> str:
        return "any"


@dataclass(frozen=True)
class OneOf:
    """One of these values; a single list as a value is a tuple in a tuple."""

    values: tuple[Json, ...]

    def allows(self, value: Json, values: Values) -> bool:
        """True for an equal value; 0 and 0.0 are equal, a list and a tuple too."""
        return any(_plain(value) == _plain(item) for item in self.values)

    def __str__(self) -> str:
        return " or ".join(shown(item) for item in self.values)


@dataclass(frozen=True)
class Reference:
    """The reference's values of something with many parts: a model."""

    parts: Mapping[str, Json]
    free: tuple[str, ...] = ()
    """Parts that may have any value."""

    def allows(self, value: Json, values: Values) -> bool:
        """True if every part is equal and there are no others."""
        return not self.others(value)

    def others(self, value: Mapping[str, Json]) -> list[str]:
        """The parts that differ, or that one of the two lacks."""
        names = [name for name in {**self.parts, **value} if name not in self.free or name not in value]
        return [name for name in names if _plain(self.parts.get(name)) != _plain(value.get(name))]

    def __str__(self) -> str:
        return "the reference's" + (f" but for {', '.join(self.free)}" if self.free else "")


@dataclass(frozen=True)
class Targets:
    """Every metric of the round, each at its target or above."""

    least: Mapping[str, float]

    def allows(self, value: Json, values: Values) -> bool:
        """`value`: metric to target; others beside those of the round only make a run longer."""
        return all(metric in value and value[metric] >= target for metric, target in self.least.items())

    def __str__(self) -> str:
        return " and ".join(f"{metric} {target:g}" for metric, target in self.least.items()) + " or above"


@dataclass(frozen=True)
class Whole:
    """A whole number from `least` to `most`, both included."""

    least: int
    most: int | None = None

    def allows(self, value: Json, values: Values) -> bool:
        """True inside the bounds."""
        return _is_whole(value) and self.least <= value and (self.most is None or value <= self.most)

    def __str__(self) -> str:
        return f"{self.least} or more, whole" if self.most is None else f"{self.least} to {self.most}, whole"


@dataclass(frozen=True)
class AtLeast:
    """A number from a bound on: a number, or the name of another setting."""

    least: float | str

    def allows(self, value: Json, values: Values) -> bool:
        """True at the bound or above."""
        return bool(value >= (values[self.least] if isinstance(self.least, str) else self.least))

    def __str__(self) -> str:
        return f"{shown(self.least)} or more"


@dataclass(frozen=True)
class AtMost:
    """A number up to this one."""

    most: float

    def allows(self, value: Json, values: Values) -> bool:
        """True up to the bound."""
        return bool(value <= self.most)

    def __str__(self) -> str:
        return f"{shown(self.most)} or less"


@dataclass(frozen=True)
class Above:
    """A number above this one."""

    least: float

    def allows(self, value: Json, values: Values) -> bool:
        """True above the bound."""
        return bool(value > self.least)

    def __str__(self) -> str:
        return f"above {shown(self.least)}"


@dataclass(frozen=True)
class Below:
    """A number below all of these: numbers, or names of other values; null is no bound."""

    bounds: tuple[float | str, ...]

    def allows(self, value: Json, values: Values) -> bool:
        """True below every bound."""
        limits = [values[bound] if isinstance(bound, str) else bound for bound in self.bounds]
        return all(value < bound for bound in limits if bound is not None)

    def __str__(self) -> str:
        return "below " + " and ".join(_WORDS.get(str(bound), shown(bound)) for bound in self.bounds)


@dataclass(frozen=True)
class Multiple:
    """`of` times 1, 2, 3, …"""

    of: float

    def allows(self, value: Json, values: Values) -> bool:
        """True for a whole multiple of at least 1."""
        quotient = float(value) / self.of
        return quotient > 0.5 and _is_whole(quotient)

    def __str__(self) -> str:
        return f"{shown(self.of)} · k"


@dataclass(frozen=True)
class PowerOfTwo:
    """`of` times 2^N for any whole N."""

    of: float

    def allows(self, value: Json, values: Values) -> bool:
        """True for these; never for 0."""
        return value > 0 and _is_whole(math.log2(value / self.of))

    def __str__(self) -> str:
        return f"{shown(self.of)} · 2^N"


@dataclass(frozen=True)
class PerBatch:
    """What a reference computes from the global batch: `rate` for every `batch` samples."""

    rate: float
    batch: int

    def allows(self, value: Json, values: Values) -> bool:
        """True for that rate, but for rounding."""
        return math.isclose(value, self.rate * values["batch_size_global"] / self.batch, rel_tol=TOLERANCE)

    def __str__(self) -> str:
        return f"{shown(self.rate)} · global batch / {self.batch}"


@dataclass(frozen=True)
class PerDevice:
    """`of` for every sample that a device has in a step."""

    of: float

    def allows(self, value: Json, values: Values) -> bool:
        """True for `of` times the global batch over the devices, but for rounding."""
        return math.isclose(value, self.of * values["batch_size_global"] / values["devices"], rel_tol=TOLERANCE)

    def __str__(self) -> str:
        return f"{shown(self.of)} · global batch / devices"


@dataclass(frozen=True)
class LessHalvings:
    """1 less a number of halvings: 0, 1/2, 3/4, …"""

    def allows(self, value: Json, values: Values) -> bool:
        """True for 1 - 2^-k of a whole k of at least 0."""
        return 0 <= value < 1 and _is_whole(math.log2(1 - value))

    def __str__(self) -> str:
        return "1 - 2^-k, k ≥ 0"


@dataclass(frozen=True)
class Stretched:
    """A schedule stretched in time: each boundary times 1 + k/10, for one whole k of at least `least`."""

    boundaries: tuple[float, ...]
    least: int | None = None
    """None: k may be negative too, as long as the boundaries stay positive."""

    def allows(self, value: Json, values: Values) -> bool:
        """True if one factor fits all boundaries."""
        if len(value) != len(self.boundaries):
            return False
        factors = [given / own for given, own in zip(value, self.boundaries, strict=True)]
        k = 10 * (factors[0] - 1)
        alike = all(math.isclose(factor, factors[0], rel_tol=TOLERANCE) for factor in factors)
        return alike and factors[0] > 0 and _is_whole(k) and (self.least is None or round(k) >= self.least)

    def __str__(self) -> str:
        bound = "" if self.least is None else f", k ≥ {self.least}"
        return f"{shown(self.boundaries)} · (1 + k/10){bound}"


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
        return all(allowed.allows(values[name], values) for name, allowed in self.when.items())


@dataclass(frozen=True)
class Round:
    """A round as it is for one workload: when the clock starts, how its logs count, and what its closed rules allow."""

    name: str
    """As `rules=` names it: `v0.5`."""
    setup_is_timed: bool
    """Whether the clock starts before the model is built, or after up to 20 minutes of set-up."""
    first_epoch: int
    """Number of the first epoch in logs."""
    bleu_point: float
    """What a point of BLEU is in targets and logs: 24 points are 24.0, or 0.24."""
    ruleset: str
    """Of mlperf-logging, by which logs are checked: `0.7.0`; empty: it has none, and the suite has a rule file of its own."""
    rows: tuple[Rule, ...] = ()
    """Its closed rules; none: the round does not have the workload, and every run is open."""
    sets: Mapping[str, str] = field(default_factory=dict)
    """Profile to its hyperparameter set."""
    sets_of_frameworks: Mapping[str, str] = field(default_factory=dict)
    """Framework to its set of `profile=reference`, where that is another one."""
    listed_optimizers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Optimizer to the frameworks for which the round lists an implementation; others must be shown to be equivalent, which
    packages say. Empty: the round has no such list."""
    not_built: str = ""
    """What of the round's reference the workload does not compute: every run under it is open for this reason."""

    @property
    def clock(self) -> str:
        """What logs and tables call its clock: the first round that had it."""
        return "v0.5" if self.setup_is_timed else "v0.7"

    @property
    def targets(self) -> Mapping[str, float]:
        """Metric to target, as the row of the targets has them; empty where there is none."""
        return next((row.allowed.least for row in self.rows if isinstance(row.allowed, Targets)), {})

    @property
    def dataset(self) -> str:
        """The data set that its row names; empty where there is none."""
        named = (
            row.allowed.values[0] for row in self.rows if "dataset" in row.names and isinstance(row.allowed, OneOf)
        )
        return str(next(named, ""))

    def defaults(self, profile: str, model: Mapping[str, Json]) -> Defaults:
        """What a profile of the round means for a workload whose model this is."""
        of_frameworks = self.sets_of_frameworks if profile == "reference" else {}
        return Defaults(self.dataset, self.sets[profile], model, self.targets, sets_of_frameworks=of_frameworks)


ROUND_V05 = Round("v0.5", setup_is_timed=True, first_epoch=0, bleu_point=1.0, ruleset="")
"""What is the same for every workload. Run Results: the clock starts before any benchmark-specific work, model creation
included; Epoch numbering: "always be numbered from 0"."""
ROUND_V07 = Round("v0.7", setup_is_timed=False, first_epoch=1, bleu_point=0.01, ruleset="0.7.0")
"""Run Results: the clock starts after at most 20 minutes of initialization, before the data are touched."""
ROUNDS: Mapping[str, Round] = {found.name: found for found in (ROUND_V05, ROUND_V07)}
"""The rounds that the suite has; of workloads that no round has, their clock and their numbers alone."""


def deviations(rows: Sequence[Rule], values: Values, judged: Iterable[str]) -> list[str]:
    """A phrase for each setting of `judged` that no row allows: `max_samples 3, not 1 or 50`.

    `values`: all that rows may look at, the judged ones among them.
    """
    phrases = []
    for name in judged:
        applying = [row for row in rows if name in row.names and row.applies(values)]
        if not any(row.allowed.allows(values[name], values) for row in applying):
            phrases.append(_phrase(name, values[name], [row.allowed for row in applying]))
    return phrases


def _phrase(name: str, value: Json, allowed: Sequence[Allowed]) -> str:
    """What was set, and what would have been closed."""
    words = _WORDS.get(name, name)
    if not allowed:
        return f"{words} {shown(value)}, which no rule allows"
    text = " or ".join(dict.fromkeys(str(item) for item in allowed))
    if isinstance(allowed[0], Reference):
        return f"{words} with other {', '.join(allowed[0].others(value))} than {text}"
    return f"{words} {shown(value)}, not {text}"


def shown(value: Json) -> str:
    """A value in a phrase or a table."""
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


def _plain(value: Json) -> Json:
    """Tuples as lists, as JSON gives them back."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _is_whole(value: float) -> bool:
    return math.isfinite(value) and abs(value - round(value)) < TOLERANCE
