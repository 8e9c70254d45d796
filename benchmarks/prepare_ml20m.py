"""Time and memory to prepare a generated ratings.csv with ML-20M's counts; prints JSON.

    python benchmarks/prepare_ml20m.py [--rows 20000263]

Peak memory is the largest resident set of the preparing process. Needs about 1.5 GB of disk in $TMPDIR.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workloads.common.randomness import Permutation, bits, integers, stream

PROJECT = Path(__file__).resolve().parent.parent
USERS, ITEMS, ROWS = 138_493, 26_744, 20_000_263
LARGEST_ITEM_ID = 131_262
"""Of ML-20M's movieId: ids have gaps."""
SECONDS_LIMIT, BYTES_LIMIT = 90.0, 4e9


def write_ratings(path: Path, rows: int) -> None:
    """A ratings.csv with about equal users; every (user, item) once, time stamps in random order with some ties."""
    per_user = np.full(USERS, rows // USERS)
    per_user[: rows - int(per_user.sum())] += 1
    item_ids = np.sort(Permutation(stream(0, "ids"), LARGEST_ITEM_ID)(np.arange(ITEMS))) + 1
    with path.open("w", encoding="ascii") as file:
        file.write("userId,movieId,rating,timestamp\n")
        for user in range(USERS):
            at = np.arange(per_user[user])
            first = int(integers(bits(stream(0, "first item", user)), ITEMS))
            items = item_ids[(first + at * 157) % ITEMS].tolist()  # 157 and ITEMS share no factor: no repeats
            times = (integers(bits(stream(0, "time", user), at), 1 << 29) + 800_000_000).tolist()
            file.writelines(f"{user + 1},{i},3.5,{t}\n" for i, t in zip(items, times, strict=True))


def main() -> None:
    """Generate, prepare in a process of its own, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=ROWS)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        source, destination = Path(folder) / "ratings.csv", Path(folder) / "ml-20m"
        write_ratings(source, rows)
        code = (
            "import sys; from pathlib import Path; from workloads.ncf.dataset import ML20M; "
            "print('\\n'.join(ML20M().prepare(Path(sys.argv[1]), Path(sys.argv[2]))))"
        )
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code, str(source), str(destination)],
            cwd=PROJECT, check=True, capture_output=True, text=True,
        )  # fmt: skip
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        size = source.stat().st_size
    print(
        json.dumps(
            {
                "rows": rows,
                "source_bytes": size,
                "prepare_seconds": round(seconds, 2),
                "memory_peak_bytes": peak,
                "printed": done.stdout.splitlines(),
                "seconds_limit": SECONDS_LIMIT,
                "bytes_limit": BYTES_LIMIT,
                "met": seconds <= SECONDS_LIMIT and peak <= BYTES_LIMIT,
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
