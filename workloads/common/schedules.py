"""Learning-rate schedules: pure functions that return the learning rate of a step.

The first step is step 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def warmup(step: int, steps: int, base: float) -> float | None:
    """Return the linear warm-up from a learning rate of 0 (step 0) to `base`.

    The learning rate reaches `base` at step `steps`. The function returns None after the warm-up.
    """
    return base * step / steps if step < steps else None


def warm_up_from(step: int, steps: int, base: float, factor: int) -> float | None:
    """Return the linear warm-up from base · (1 - 2^-factor) to `base`.

    The warm-up starts at step 0, and the learning rate reaches `base` at step `steps`. The function
    returns None after the warm-up. SSD uses this warm-up (reference utils.py): base - (steps -
    step) · base / (steps · 2^factor). With factor 0, the learning rate starts at 0.
    """
    return base - (steps - step) * base / (steps * 2**factor) if step < steps else None


def exponential_warm_up(step: int, steps: int, base: float, start: float) -> float | None:
    """Return the exponential warm-up from base · start (step 0) to `base`.

    The learning rate grows by the same factor in each step and reaches `base` at step `steps`. The
    function returns None after that step.
    """
    return float(base * start ** ((steps - step) / steps)) if step <= steps > 0 else None


def inverse_root(step: int, steps: int, base: float) -> float:
    """Return the learning rate of a linear warm-up, followed by an inverse square root.

    The learning rate starts at 0 and reaches `base` at step `steps`. After the warm-up, the
    learning rate is base · √(steps / step). Without warm-up steps, the learning rate is `base`
    until step 1.
    """
    warming = warmup(step, steps, base)
    return base * math.sqrt(max(steps, 1) / max(step, 1)) if warming is None else warming


def step_decay(step: int, boundaries: Sequence[int], base: float, factor: float) -> float:
    """Return `base`, multiplied by `factor` once for each boundary that `step` has reached."""
    return float(base * factor ** sum(step >= boundary for boundary in boundaries))


def cosine_decay(step: int, first: int, steps: int, base: float) -> float:
    """Return a learning rate that decreases from `base` to 0 along half a cosine.

    The learning rate is `base` at step `first` and 0 from step `first + steps` on.
    """
    passed = min(max((step - first) / max(steps, 1), 0.0), 1.0)
    return float(base * 0.5 * (1.0 + math.cos(math.pi * passed)))


def polynomial_decay(
    step: int, first: int, steps: int, base: float, end: float, power: float
) -> float:
    """Return a learning rate that decreases from `base` to `end` along a power function.

    The learning rate is `base` at step `first` and `end` from step `first + steps` on. Between
    these steps, the learning rate is end + (base - end) · (1 - (step - first) / steps)^power.
    """
    passed = min(max((step - first) / max(steps, 1), 0.0), 1.0)
    return float(end + (base - end) * (1.0 - passed) ** power)
