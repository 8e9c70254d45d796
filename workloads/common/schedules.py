"""Learning-rate schedules: pure functions that return the learning rate of a step.

Steps count from 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def warmup(step: int, steps: int, base: float) -> float | None:
    """Increase linearly from 0 (step 0) to `base` (at step `steps`).

    Returns None after the warm-up.
    """
    return base * step / steps if step < steps else None


def warm_up_from(step: int, steps: int, base: float, factor: int) -> float | None:
    """Increase linearly from base · (1 - 2^-factor) (step 0) to `base`.

    Returns None after the warm-up. This is the warm-up of SSD (reference utils.py): base - (steps -
    step) · base / (steps · 2^factor). With factor 0 it starts at 0.
    """
    return base - (steps - step) * base / (steps * 2**factor) if step < steps else None


def exponential_warm_up(step: int, steps: int, base: float, start: float) -> float | None:
    """Increase by equal factors from base · start (step 0) to `base` (step `steps`).

    Returns None after that step.
    """
    return float(base * start ** ((steps - step) / steps)) if step <= steps > 0 else None


def inverse_root(step: int, steps: int, base: float) -> float:
    """Increase linearly from 0 (step 0) to `base` (step `steps`), then decrease.

    After the warm-up the rate is base · √(steps / step). Without warm-up steps, the rate is `base`
    until step 1.
    """
    warming = warmup(step, steps, base)
    return base * math.sqrt(max(steps, 1) / max(step, 1)) if warming is None else warming


def step_decay(step: int, boundaries: Sequence[int], base: float, factor: float) -> float:
    """Multiply `base` by `factor` for every boundary (a step) that is reached."""
    return float(base * factor ** sum(step >= boundary for boundary in boundaries))


def cosine_decay(step: int, first: int, steps: int, base: float) -> float:
    """Decrease from `base` at step `first` to 0 at step `first + steps`, and stay at 0.

    The curve is half a cosine.
    """
    passed = min(max((step - first) / max(steps, 1), 0.0), 1.0)
    return float(base * 0.5 * (1.0 + math.cos(math.pi * passed)))


def polynomial_decay(
    step: int, first: int, steps: int, base: float, end: float, power: float
) -> float:
    """Decrease from `base` at step `first` to `end` at step `first + steps`, and stay at `end`.

    end + (base - end) · (1 - (step - first) / steps)^power
    """
    passed = min(max((step - first) / max(steps, 1), 0.0), 1.0)
    return float(end + (base - end) * (1.0 - passed) ** power)
