"""Learning-rate schedules: pure functions of a step number, which counts from 0; the rate is the one that this step uses."""

from __future__ import annotations

import math
from collections.abc import Sequence


def warmup(step: int, steps: int, base: float) -> float | None:
    """Linear from 0 (step 0) towards `base` (reached at step `steps`); None after the warm-up."""
    return base * step / steps if step < steps else None


def warm_up_from(step: int, steps: int, base: float, factor: int) -> float | None:
    """Linear from base · (1 - 2^-factor) (step 0) towards `base`; None after the warm-up.

    base - (steps - step) · base / (steps · 2^factor): SSD's warm-up (reference utils.py); with factor 0 it starts at 0.
    """
    return base - (steps - step) * base / (steps * 2**factor) if step < steps else None


def exponential_warm_up(step: int, steps: int, base: float, start: float) -> float | None:
    """From base · start (step 0) to `base` (step `steps`) by equal factors; None after it."""
    return float(base * start ** ((steps - step) / steps)) if step <= steps > 0 else None


def inverse_root(step: int, steps: int, base: float) -> float:
    """Linear from 0 (step 0) to `base` (step `steps`), then base · √(steps / step). No warm-up: `base` until step 1."""
    warming = warmup(step, steps, base)
    return base * math.sqrt(max(steps, 1) / max(step, 1)) if warming is None else warming


def step_decay(step: int, boundaries: Sequence[int], base: float, factor: float) -> float:
    """`base` times `factor` for every boundary (a step) that is reached."""
    return float(base * factor ** sum(step >= boundary for boundary in boundaries))


def cosine_decay(step: int, first: int, steps: int, base: float) -> float:
    """From `base` at step `first` to 0 at step `first + steps`, along half a cosine, and 0 from there on."""
    passed = min(max((step - first) / max(steps, 1), 0.0), 1.0)
    return float(base * 0.5 * (1.0 + math.cos(math.pi * passed)))


def polynomial_decay(step: int, first: int, steps: int, base: float, end: float, power: float) -> float:
    """From `base` at step `first` to `end` at step `first + steps`, and `end` from there on.

    end + (base - end) · (1 - (step - first) / steps)^power
    """
    passed = min(max((step - first) / max(steps, 1), 0.0), 1.0)
    return float(end + (base - end) * (1.0 - passed) ** power)
