"""A command beside two busy processes, some times over: no test may need a quiet machine.

    python tests/stress/beside_load.py [--times 10] [--busy 2] -- .venv/bin/python -m pytest -q tests/suite/control

A line a time with its exit code and seconds; the exit code is 1 if one failed.
"""

import argparse
import contextlib
import subprocess
import sys
import time

BURN = "while True: pass"


@contextlib.contextmanager
def load(count):
    """So many processes that want a core each."""
    busy = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    codes = []
    with load(arguments.busy):
        for number in range(arguments.times):
            begin = time.monotonic()
            codes.append(subprocess.run(arguments.command, check=False).returncode)
            print(f"{number + 1}: exit code {codes[-1]}, {time.monotonic() - begin:.0f} s", flush=True)
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
