"""The properties of a benchmark round that workloads and workers use.

`suite.catalog.rounds` reads rounds from YAML files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workloads.api.settings import Defaults
from workloads.api.values import Json

_FIGURES = ("name", "setup_is_timed", "first_epoch", "bleu_scale", "ruleset", "evaluations")


@dataclass(frozen=True)
class Round:
    """A round for one workload.

    It defines the start of the clock, conventions of logs, data set, targets, and hyperparameter
    sets.
    """

    name: str
    """Value of `rules=`, such as `v0.5`."""
    setup_is_timed: bool
    """True: the clock starts before the model is built.

    False: it starts after up to 20 minutes of setup.
    """
    first_epoch: int
    """Number of the first epoch in logs."""
    bleu_scale: float
    """Value of one BLEU point in targets and logs: 1.0 or 0.01."""
    ruleset: str
    """Ruleset of mlperf-logging that checks the logs, such as `0.7.0`.

    Empty: the suite's generated rules check them.
    """
    sets: Mapping[str, str] = field(default_factory=dict)
    """Maps a profile to its hyperparameter set."""
    default_set_by_framework: Mapping[str, str] = field(default_factory=dict)
    """Maps a framework to its set of `profile=reference`, if it differs from `sets`."""
    evaluations: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Evaluation times that the round prescribes, by the unit in which it counts.

    Empty: the hyperparameter set decides.
    """
    dataset: str = ""
    """Data set of the closed division. Empty: the round does not have the workload."""
    targets: Mapping[str, float] = field(default_factory=dict)
    """Maps a metric to the target of the closed division.

    Empty: the round does not have the workload.
    """

    @property
    def figures(self) -> dict[str, Json]:
        """Fields that runs and logs depend on.

        They are keyword arguments of this class (`Settings.round`).
        """
        return {name: getattr(self, name) for name in _FIGURES}

    @property
    def clock(self) -> str:
        """Name of the clock in logs and tables: the first round that used it."""
        return "v0.5" if self.setup_is_timed else "v0.7"

    def defaults(
        self, workload: str, profile: str, model: Mapping[str, Json], demo: Defaults
    ) -> Defaults:
        """Return the defaults of a profile of the round.

        Args:
            workload: Name of the workload, for the message.
            profile: `reference`, `synthetic` or `demo`.
            model: Parameters of the model under `reference` and `synthetic`.
            demo: Defaults under `demo`.

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
