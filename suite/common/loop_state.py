"""State of the training loop that a checkpoint holds in addition to the state of the trainer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workloads.api import Json


@dataclass
class Block:
    """Measurements of a block of steps that ends with an evaluation or at the end of the run."""

    number: int
    first_step: int
    stop_step: int
    train_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    data_wait_seconds: float = 0.0
    samples: int = 0
    data_bytes: int = 0
    """Size of the arrays that the devices of this process received."""
    counts: Counter[str] = field(default_factory=Counter)
    """Amounts of the training data in the further units of the workload, by unit."""
    loss: float = float("nan")
    """Mean over the last `loss_steps` steps."""
    loss_steps: int = 0
    """Steps of the block's newest epoch so far."""


@dataclass(frozen=True)
class LoopState:
    """State of the loop after a number of steps."""

    block: Block
    """The block that contains the last step."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Quality at the last evaluation, by metric."""
    train_seconds: float = 0.0
    """Time of all steps so far in seconds."""
    samples: int = 0
    """Samples that all steps have trained on."""
    contention: tuple[Mapping[str, Json], ...] = ()
    """Measurements of each worker's share of its machine so far, by rank."""

    def to_json(self) -> dict[str, Any]:
        """Return the state as a JSON object, which `from_json` reads."""
        return {
            "block": {**vars(self.block), "counts": dict(self.block.counts)},
            "scores": dict(self.scores),
            "train_seconds": self.train_seconds,
            "samples": self.samples,
            "contention": list(self.contention),
        }

    @classmethod
    def from_json(cls, value: Any) -> LoopState:
        """Return the state in a JSON object.

        Keys that an older version did not write have their defaults.

        Raises:
            ValueError: The value does not describe the state of a loop.
        """
        try:
            values = {item.name: value[item.name] for item in fields(cls) if item.name in value}
            block = {
                item.name: value["block"][item.name]
                for item in fields(Block)
                if item.name in value["block"]
            }
            block["counts"] = Counter(block.get("counts", {}))
            contention = tuple(values.pop("contention", ()))
            return cls(**{**values, "block": Block(**block), "contention": contention})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not the state of a loop: {error}") from None
