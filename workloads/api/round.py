"""Properties of a benchmark round that workloads and workers use.

`suite.catalog.rounds` reads the rounds from YAML files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workloads.api.settings import Defaults
from workloads.api.values import Json

_FIGURES = ("name", "setup_is_timed", "first_epoch", "bleu_scale", "ruleset", "evaluations")


@dataclass(frozen=True)
class Round:
    """Properties of a benchmark round for a workload.

    The properties are the start of the clock, log conventions, data set, targets, and
    hyperparameter sets.
    """

    name: str
    """Value of `rules=`, such as `v0.5`."""
    setup_is_timed: bool
    """True if the clock starts before the model is built.

    If False, the clock starts after the setup, which may take up to 20 minutes.
    """
    first_epoch: int
    """Number of the first epoch in logs."""
    bleu_scale: float
    """BLEU value in targets and logs that corresponds to one percentage point: 1.0 or 0.01."""
    ruleset: str
    """Version of the mlperf-logging ruleset that checks the logs, such as `0.7.0`.

    If the string is empty, the logs are checked with a ruleset that the suite generates.
    """
    sets: Mapping[str, str] = field(default_factory=dict)
    """Name of the hyperparameter set of each profile."""
    default_set_by_framework: Mapping[str, str] = field(default_factory=dict)
    """Name of the hyperparameter set by framework for `profile=reference`. The mapping contains
    only frameworks whose set differs from `sets`.
    """
    evaluations: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Evaluation times that the round prescribes, by their unit.

    If the mapping is empty, the hyperparameter set defines the evaluation times.
    """
    dataset: str = ""
    """Data set of the closed division. The string is empty if the round does not include the
    workload.
    """
    targets: Mapping[str, float] = field(default_factory=dict)
    """Target of each metric in the closed division.

    The mapping is empty if the round does not include the workload.
    """

    @property
    def figures(self) -> dict[str, Json]:
        """Return the properties of the round that runs and logs depend on.

        The keys are keyword arguments of `Round`. `Settings.round` contains the mapping.
        """
        return {name: getattr(self, name) for name in _FIGURES}

    @property
    def clock(self) -> str:
        """Return the name of the clock in logs and tables.

        A clock is named after the first round that used the clock.
        """
        return "v0.5" if self.setup_is_timed else "v0.7"

    def defaults(
        self, workload: str, profile: str, model: Mapping[str, Json], demo: Defaults
    ) -> Defaults:
        """Return the defaults of a profile in this round.

        Args:
            workload: Name of the workload, for the error message.
            profile: `reference`, `synthetic`, or `demo`.
            model: Parameters of the model for the profiles `reference` and `synthetic`.
            demo: Defaults for the profile `demo`.

        Raises:
            ValueError: The profile is invalid.
        """
        if profile == "demo":
            return demo
        if profile not in ("reference", "synthetic"):
            raise ValueError(f"profile={profile}: {workload} has reference, demo, synthetic")
        of_frameworks = self.default_set_by_framework if profile == "reference" else {}
        return Defaults(
            self.dataset,
            self.sets[profile],
            model,
            self.targets,
            default_set_by_framework=of_frameworks,
        )
