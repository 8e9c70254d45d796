"""Normal quantile function and logarithm with bit-identical results on every machine.

Both functions use only operations that IEEE 754 rounds correctly (+ − × ÷, square root, frexp).
Each operation is a separate NumPy call. The results therefore do not depend on the mathematical
library, the vector unit, or fused multiply-add instructions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Float64s

LOG_2 = 0.6931471805599453
ROOT_HALF = 0.7071067811865476

# Coefficients of routine PPND16 in P. J. Wichura, "Algorithm AS 241: The percentage points of the
# normal distribution", Applied Statistics 37 (1988). The relative accuracy is about 1e-16. The
# coefficient of the highest power is first.
_CENTRE = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4,
    4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2,
     3.3871328727963666080e0),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4,
    2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
)  # fmt: skip
_MIDDLE = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
    1.27045825245236838258e0,
     3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0,
     1.42343711074968357734e0),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
    1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0),
)  # fmt: skip
_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
    2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0,
     6.65790464350110377720e0),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
    7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)  # fmt: skip
_CENTRE_HALF_WIDTH, _CENTRE_CONSTANT, _SPLIT, _MIDDLE_SHIFT = 0.425, 0.180625, 5.0, 1.6
_LOG_SERIES = tuple(1.0 / power for power in range(23, 2, -2))
"""Coefficients of the power series of artanh(s)/s − 1 in s². The coefficient of the highest
power is first.

For |s| ≤ 0.1716, the truncation error of the series is below 1e-19.
"""


def _horner(coefficients: tuple[float, ...], x: Float64s) -> Float64s:
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        np.multiply(value, x, out=value)
        np.add(value, coefficient, out=value)
    return value


def _ratio(polynomials: tuple[tuple[float, ...], tuple[float, ...]], x: Float64s) -> Float64s:
    return np.divide(_horner(polynomials[0], x), _horner(polynomials[1], x))


def log(x: npt.ArrayLike) -> Float64s:
    """Return the natural logarithm of positive finite numbers in float64.

    The relative error is about 1e-15.
    """
    mantissa, exponent = np.frexp(np.asarray(x, np.float64))
    small = mantissa < ROOT_HALF
    mantissa = np.where(small, mantissa * 2.0, mantissa)
    power = (exponent - small).astype(np.float64)
    s = np.divide(mantissa - 1.0, mantissa + 1.0)
    square = s * s
    series = _horner(_LOG_SERIES, square) * square
    return np.asarray(power * LOG_2 + (2.0 * s + 2.0 * s * series))


def inverse_normal(probability: Float64s) -> Float64s:
    """Return the standard normal quantiles of 1-D probabilities in (0, 1)."""
    q = probability - 0.5
    out = np.empty_like(q)
    centre = np.abs(q) <= _CENTRE_HALF_WIDTH
    inner = q[centre]
    out[centre] = inner * _ratio(_CENTRE, _CENTRE_CONSTANT - inner * inner)
    outer_at = np.flatnonzero(~centre)
    if outer_at.size:
        outer = q[outer_at]
        r = np.sqrt(-log(np.where(outer < 0.0, probability[outer_at], 1.0 - probability[outer_at])))
        size = _ratio(_MIDDLE, r - _MIDDLE_SHIFT)
        tail = r > _SPLIT
        if tail.any():
            size[tail] = _ratio(_TAIL, r[tail] - _SPLIT)
        out[outer_at] = np.where(outer < 0.0, -size, size)
    return out
