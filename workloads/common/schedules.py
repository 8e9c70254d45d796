"""Learning-rate schedules: pure functions that return the learning rate of a step.

The first step is step 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def warmup(step: int, steps: int, base: float) -> float | None:
    """Return a learning rate that increases linearly from 0 (step 0) to `base`.

    The rate reaches `base` at step `steps`. Returns None after the warm-up.
    """
    return base * step / steps if step < steps else None


def warm_up_from(step: int, steps: int, base: float, factor: int) -> float | None:
    """Return a rate that increases linearly to `base` from base · (1 - 2^-factor).

    The rate starts at step 0 and reaches `base` at step `steps`. Returns None after the warm-up.
    SSD uses this warm-up (reference utils.py): base - (steps - step) · base / (steps · 2^factor).
    With factor 0, the learning rate starts at 0.
    """
    return base - (steps - step) * base / (steps * 2**factor) if step < steps else None


def exponential_warm_up(step: int, steps: int, base: float, start: float) -> float | None:
    """Return a rate that increases by equal factors from base · start (step 0) to `base`.

    The rate reaches `base` at step `steps`. Returns None after that step.
    """
    return float(base * start ** ((steps - step) / steps)) if step <= steps > 0 else None


def inverse_root(step: int, steps: int, base: float) -> float:
    """Return a rate that increases linearly from 0 (step 0) to `base`, then decreases.

    The rate reaches `base` at step `steps`. After the warm-up, the rate is base · √(steps / step).
    Without warm-up steps, the rate is `base` until step 1.
    """
    warming = warmup(step, steps, base)
    return base * math.sqrt(max(steps, 1) / max(step, 1)) if warming is None else warming


def step_decay(step: int, boundaries: Sequence[int], base: float, factor: float) -> float:
    """Return `base` multiplied by `factor` once for every boundary step that is reached."""
    return float(base * factor ** sum(step >= boundary for boundary in boundaries))


def cosine_decay(step: int, first: int, steps: int, base: float) -> float:
    """Return a rate that decreases from `base` to 0 along half a cosine.

    The rate is `base` at step `first` and 0 from step `first + steps` on.
    """
    passed = min(max((step - first) / max(steps, 1), 0.0), 1.0)
    return float(base * 0.5 * (1.0 + math.cos(math.pi * passed)))


def polynomial_decay(
    step: int, first: int, steps: int, base: float, end: float, power: float
) -> float:
    """Return a rate that decreases from `base` to `end` along a power function.

    The rate is `base` at step `first` and `end` from step `first + steps` on. Between these steps,
    the rate is end + (base - end) · (1 - (step - first) / steps)^power.
    """
    passed = min(max((step - first) / max(steps, 1), 0.0), 1.0)
    return float(end + (base - end) * (1.0 - passed) ** power)
