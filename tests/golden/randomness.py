"""Digests of all random numbers of data pipelines, which must not depend on NumPy or the machine.

The module only needs NumPy, so that every framework's environment can run it.
"""

import hashlib
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from testing import synthetic_ncf as synthetic
from workloads.common.quantiles import inverse_normal, log
from workloads.common.randomness import Permutation, bits, fold, integers, normal, stream, uniform
from workloads.ncf.data import NCFData
from workloads.ncf.demo import generate, true_scores
from workloads.ncf.sampling import Positives, draw, evaluation_negatives, training_key


def digest(*arrays: npt.ArrayLike) -> str:
    """Return the SHA-256 of types, shapes and little-endian bytes of arrays."""
    value = hashlib.sha256()
    for item in arrays:
        array = np.ascontiguousarray(item)
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        value.update(f"{array.dtype.str}{array.shape}".encode())
        value.update(array.tobytes())
    return value.hexdigest()


def hashes() -> dict[str, str]:
    """Return the digests of the functions of workloads.common."""
    random = bits(stream(2024, "golden", 3), np.arange(200_003))
    fractions = (np.arange(99_999) + 0.5) / 99_999
    return {
        "stream": digest(
            np.array([stream(s, label) for s in (0, 1, 2**63) for label in ("a", "b")])
        ),
        "fold": digest(np.array([fold(1, a, b) for a in range(20) for b in (0, 7, 2**40)])),
        "bits": digest(random),
        "bits broadcast": digest(bits(5, 1, np.arange(300)[:, None], np.arange(211))),
        "integers": digest(integers(random, 26_744), integers(random, 1 << 32)),
        "uniform": digest(uniform(random)),
        "normal float32": digest(normal(random)),
        "normal float64": digest(normal(random, np.float64)),
        "log": digest(log(fractions * 1e3), log(np.ldexp(1.1, np.arange(-900, 900)))),
        "inverse_normal": digest(
            inverse_normal(fractions), inverse_normal(2.0 ** -np.arange(1.0, 200.0))
        ),
        "permutation": digest(
            Permutation(7, 99_308_850)(np.arange(200_003)), Permutation(8, 1000)(np.arange(1000))
        ),
    }


def ncf() -> dict[str, str]:
    """Return the digests of negatives and batches of NCF."""
    user, item = synthetic.pairs()
    users = np.arange(synthetic.USERS)
    positives = Positives(user, item, synthetic.USERS, synthetic.ITEMS)
    numbers = np.arange(4 * len(user))
    drawn, table = np.empty(numbers.size, np.int32), np.empty((users.size, 999), np.int32)
    draw(training_key(3, 1), numbers, user[numbers // 4], positives, drawn)
    evaluation_negatives(3, users, positives, table)
    with tempfile.TemporaryDirectory() as folder:
        facts = synthetic.write(Path(folder))
        data = NCFData(synthetic.settings(folder), facts, synthetic.place(0, range(2), 2), 11)
        train = [
            array
            for step in data.train(5, data.steps_per_epoch + 2)
            for b in step
            for array in b.arrays.values()
        ]
        evaluation = [
            array for step in data.evaluation() for b in step for array in b.arrays.values()
        ]
        data.close()
    return {
        "bitmap": digest(positives.bitmap),
        "training negatives": digest(drawn),
        "evaluation negatives": digest(table),
        "training batches": digest(*train),
        "evaluation batches": digest(*evaluation),
        "demo": digest(true_scores(), *generate()),
    }


def digests() -> dict[str, str]:
    """Return all digests by name."""
    return {**hashes(), **ncf()}
