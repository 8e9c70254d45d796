"""State of the training loop, which checkpoints store alongside the trainer's state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workloads.api import Json


@dataclass
class Block:
    """Measurements of a block of steps, which ends at an evaluation or at the end of the run."""

    number: int
    first_step: int
    stop_step: int
    train_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    data_wait_seconds: float = 0.0
    samples: int = 0
    data_bytes: int = 0
    """Total size in bytes of the input arrays that the devices of this process received."""
    counts: Counter[str] = field(default_factory=Counter)
    """Amount of training data in the workload's additional units, such as tokens."""
    loss: float = float("nan")
    """Mean training loss over the last `loss_steps` steps."""
    loss_steps: int = 0
    """Number of completed steps in the newest epoch of this block."""


@dataclass(frozen=True)
class LoopState:
    """State of the training loop after a given number of steps."""

    block: Block
    """The block to which the last completed step belongs."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """Quality metrics of the most recent evaluation, by name."""
    train_seconds: float = 0.0
    """Total time of all completed training steps in seconds."""
    samples: int = 0
    """Total number of training samples in all completed steps."""
    contention: tuple[Mapping[str, Json], ...] = ()
    """CPU contention of each worker, by rank: measurements of the CPU share that the worker
    received on its machine.
    """

    def to_json(self) -> dict[str, Any]:
        """Return the state as a JSON object for `from_json`."""
        return {
            "block": {**vars(self.block), "counts": dict(self.block.counts)},
            "scores": dict(self.scores),
            "train_seconds": self.train_seconds,
            "samples": self.samples,
            "contention": list(self.contention),
        }

    @classmethod
    def from_json(cls, value: Any) -> LoopState:
        """Decode the state from a JSON object.

        Keys that an older version did not write get their default values.

        Raises:
            ValueError: The value is not a valid state of the training loop.
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
