"""Random numbers from a hash of integer coordinates.

The module has no generator objects. A random number is a pure function of a key and of integer
coordinates (epoch, sample, attempt, …). The number does not depend on threads, processes, chunk
sizes, or the NumPy version, and any device can compute the same bits.

The hash is the output function of SplitMix64, applied once per coordinate. Sources: Steele, Lea,
Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014. The constants are variant 13
by D. Stafford.

    h₀ = key,   hᵢ₊₁ = mix(hᵢ + (cᵢ + 1)·γ)   modulo 2⁶⁴

Along one coordinate, the hashes are exactly a SplitMix64 sequence with seed hᵢ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from workloads.common.arrays import Float64s, Int64s, Integers
from workloads.common.quantiles import inverse_normal

UInt64s = npt.NDArray[np.uint64]

GAMMA = 0x9E3779B97F4A7C15
"""Increment of SplitMix64: the odd integer that is closest to 2⁶⁴ divided by the golden ratio."""
MULTIPLIER_1 = 0xBF58476D1CE4E5B9
MULTIPLIER_2 = 0x94D049BB133111EB
MASK = 0xFFFFFFFFFFFFFFFF

CHUNK = 32768
"""Number of elements that are hashed at a time.

The temporary arrays have 256 KiB each and fit into the L2 cache of a core. In a measurement, this
chunk size was 5 % faster than a chunk size of 16,384.
"""
BLOCK = 64
"""Number of random numbers that `Draws` computes in advance."""

_GAMMA, _M1, _M2 = np.uint64(GAMMA), np.uint64(MULTIPLIER_1), np.uint64(MULTIPLIER_2)
_S11, _S27, _S30, _S31, _S32 = (np.uint64(bits) for bits in (11, 27, 30, 31, 32))


def fold(key: int | np.uint64, *coordinates: int) -> np.uint64:
    """Hash scalar coordinates into a new key.

    `bits(key, *a, *b)` equals `bits(fold(key, *a), *b)`.
    """
    state = int(key)
    for coordinate in coordinates:
        state = (state + (int(coordinate) + 1) * GAMMA) & MASK
        state = ((state ^ (state >> 30)) * MULTIPLIER_1) & MASK
        state = ((state ^ (state >> 27)) * MULTIPLIER_2) & MASK
        state ^= state >> 31
    return np.uint64(state)


def stream(seed: int, label: str, *coordinates: int) -> np.uint64:
    """Return the key of an independent random stream.

    The key is the SHA-256 of `seed` and `label`, folded with the coordinates (for example, the
    epoch).
    """
    digest = hashlib.sha256(f"{int(seed)}:{label}".encode()).digest()
    return fold(int.from_bytes(digest[:8], "little"), *coordinates)


def bits(key: int | np.uint64, *coordinates: npt.ArrayLike) -> UInt64s:
    """Return 64 random bits for each combination of coordinates.

    The result is a uint64 array of the broadcast shape.

    Args:
        key: Key of the random stream.
        coordinates: Integers ≥ 0 that are broadcast against each other. Pass scalars before arrays,
            because leading scalars take almost no time.
    """
    state: UInt64s = np.full((), key, np.uint64)
    for coordinate in coordinates:
        array = np.asarray(coordinate)
        if array.dtype.kind not in "iu":
            raise ValueError(f"coordinates: expected integers, got {array.dtype}")
        if state.ndim == 0 and array.ndim == 0:
            state = np.full((), fold(int(state), int(array)), np.uint64)
        else:
            state = _hash_step(state, array)
    return state


def _hash_step(state: UInt64s, coordinate: Integers) -> UInt64s:
    """Return mix(state + (coordinate + 1)·γ) in the broadcast shape.

    The hashes are computed in chunks that fit into the cache.
    """
    shape = np.broadcast_shapes(state.shape, coordinate.shape)
    out = np.empty(shape, np.uint64)
    states, coordinates = np.broadcast_to(state, shape), np.broadcast_to(coordinate, shape)
    scratch = np.empty(min(out.size, CHUNK) if out.ndim == 1 else 0, np.uint64)
    for rows in _chunks(shape):
        block = out[rows]
        np.multiply(coordinates[rows], _GAMMA, out=block, dtype=np.uint64, casting="unsafe")
        np.add(block, _GAMMA, out=block)
        np.add(block, states[rows], out=block)
        mix(block, scratch[: block.size] if out.ndim == 1 else np.empty_like(block))
    return out


def _chunks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Yield slices of the first axis that have about CHUNK elements each."""
    inner = int(np.prod(shape[1:], dtype=np.int64))
    step = max(1, CHUNK // max(1, inner))
    for first in range(0, shape[0], step):
        yield slice(first, min(first + step, shape[0]))


def mix(state: UInt64s, scratch: UInt64s) -> None:
    """Apply the finalizer of SplitMix64 to `state` in place.

    `scratch` is a temporary array with the shape of `state`.
    """
    for shift, multiplier in ((_S30, _M1), (_S27, _M2)):
        np.right_shift(state, shift, out=scratch)
        np.bitwise_xor(state, scratch, out=state)
        np.multiply(state, multiplier, out=state)
    np.right_shift(state, _S31, out=scratch)
    np.bitwise_xor(state, scratch, out=state)


def integers(random: UInt64s, n: int) -> Int64s:
    """Return integers in [0, n), computed as (upper 32 bits · n) >> 32.

    n must be at most 2³². The bias of the returned integers is below n / 2³².
    """
    if not 1 <= n <= 1 << 32:
        raise ValueError(f"n: expected 1 … 2**32, got {n}")
    out = np.right_shift(random, _S32)
    out = np.asarray(out)
    np.multiply(out, np.uint64(n), out=out)
    np.right_shift(out, _S32, out=out)
    return out.view(np.int64)


def uniform(random: UInt64s) -> Float64s:
    """Return float64 numbers in [0, 1), computed exactly from the upper 53 bits."""
    upper = np.asarray(np.right_shift(random, _S11)).view(np.int64)
    return np.asarray(upper * 2.0**-53)


def normal(random: UInt64s, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[np.floating]:
    """Return standard normal numbers in the shape of `random`, one per 64 random bits.

    The absolute value of a number is at most about 8.2.
    """
    flat = np.asarray(random).reshape(-1)
    out = np.empty(flat.size, dtype)
    for first in range(0, flat.size, CHUNK):
        upper = np.right_shift(flat[first : first + CHUNK], np.uint64(12)).view(np.int64)
        # The probability is the center of one of 2⁵² equal intervals of [0, 1]. The probability is
        # therefore never 0 or 1, and all probabilities are exactly symmetric about 1/2.
        out[first : first + CHUNK] = inverse_normal(
            np.asarray((upper + 0.5) * 2.0**-52, np.float64)
        )
    return out.reshape(np.shape(random))


class Draws:
    """Sequence of random numbers. Number i of the sequence is the hash of (key, i)."""

    def __init__(self, key: int | np.uint64) -> None:
        self.key = int(key)
        self.used = 0
        self._block: list[float] = []

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """Return a random number in [low, high)."""
        at = self.used % BLOCK
        if at == 0:
            self._block = uniform(bits(self.key, np.arange(self.used, self.used + BLOCK))).tolist()
        self.used += 1
        return low + (high - low) * self._block[at]

    def integer(self, low: int, high: int) -> int:
        """Return a random integer from `low` to `high`, both included."""
        return low + int(self.uniform() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.uniform() < probability

    def part(self, *coordinates: int) -> Draws:
        """Return an independent random sequence, for example for a component of a scene.

        Drawing from the returned sequence does not change the sequences of other components.
        """
        return Draws(fold(self.key, *coordinates))


class Permutation:
    """Random permutation of 0 … size - 1 that is evaluated only at requested positions.

    A permutation stores about √size numbers. A position x is split into two digits: x = left·b +
    right, with a·b slightly above `size`. Six rounds of an unbalanced Feistel network alternately
    change the left and the right digit, with tables of hashed values. A permuted position that is
    not below `size` is permuted again (cycle walking).
    """

    ROUNDS = 6
    """Number of Feistel rounds. Luby and Rackoff (1988) need four rounds of random functions.

    This class uses two more rounds because the digits are short.
    """

    def __init__(self, key: int | np.uint64, size: int) -> None:
        if not 1 <= size <= 1 << 48:
            raise ValueError(f"size of a permutation: expected 1 … 2**48, got {size}")
        self.size = size
        self.left_size = _ceiling_root(size)
        self.right_size = -(-size // self.left_size)
        self.tables: list[Int64s] = []
        """Tables of hashed values, one per Feistel round.

        For even i, the right digit is the index into table i, and the hashed value is added to the
        left digit. For odd i, the left digit is the index, and the hashed value is added to the
        right digit.
        """
        for number in range(self.ROUNDS):
            domain, target = self.right_size, self.left_size
            if number % 2:
                domain, target = target, domain
            self.tables.append(integers(bits(key, number, np.arange(domain)), target))

    def __call__(self, positions: npt.ArrayLike) -> Int64s:
        """Return the permuted values of `positions` as int64.

        Positions are integers in 0 … size - 1 of any shape.
        """
        indices = np.asarray(positions, np.int64)
        flat = indices.reshape(-1)
        if flat.size and (int(flat.min()) < 0 or int(flat.max()) >= self.size):
            raise ValueError(
                f"positions: expected 0 … {self.size - 1}, got {int(flat.min())} …"
                f" {int(flat.max())}"
            )
        out = np.empty(flat.size, np.int64)
        for rows in _chunks((flat.size,)):
            block = out[rows]
            self._encrypt(flat[rows], block)
            beyond = np.flatnonzero(block >= self.size)
            while beyond.size:
                walked = np.empty(beyond.size, np.int64)
                self._encrypt(block[beyond], walked)
                block[beyond] = walked
                beyond = beyond[walked >= self.size]
        return out.reshape(indices.shape)

    def _encrypt(self, positions: Int64s, out: Int64s) -> None:
        """Write the permutation of 0 … left_size·right_size - 1 at `positions` to `out`."""
        left = positions // self.right_size
        right = np.multiply(left, self.right_size, out=out)
        right = np.subtract(positions, right)
        scratch = np.empty_like(left)
        for number, table in enumerate(self.tables):
            changed, index, modulus = (
                (right, left, self.right_size) if number % 2 else (left, right, self.left_size)
            )
            np.add(changed, table[index], out=changed)
            np.subtract(changed, modulus, out=scratch)
            # Subtract the modulus unless the result would be negative. As an unsigned number, a
            # negative difference is larger than the original number. The minimum of the difference
            # and the original number is therefore the correct result.
            unsigned = changed.view(np.uint64)
            np.minimum(unsigned, scratch.view(np.uint64), out=unsigned)
        np.multiply(left, self.right_size, out=out)
        np.add(out, right, out=out)


def _ceiling_root(size: int) -> int:
    """Return the smallest r with r·r ≥ size."""
    root = int(size**0.5)
    while root * root < size:
        root += 1
    while (root - 1) * (root - 1) >= size:
        root -= 1
    return root
