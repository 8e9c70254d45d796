"""A command beside two busy processes, some times over: no test may need a quiet machine.

    python -m tests.stress.beside_load [--times 10] [--busy 2] -- .venv/bin/python -m pytest -q tests/suite/control

A line a time with its exit code and seconds; the exit code is 1 if one failed.
"""

import argparse
import contextlib
import subprocess
import sys
import time

from tests.helpers import BURN, python


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("command", nargs="+")
    arguments, codes = parser.parse_args(), []
    with contextlib.ExitStack() as stack:
        for _ in range(arguments.busy):
            stack.enter_context(python(BURN))
        for number in range(arguments.times):
            begin = time.monotonic()
            codes.append(subprocess.run(arguments.command, check=False).returncode)
            print(
                f"{number + 1}: exit code {codes[-1]}, {time.monotonic() - begin:.0f} s", flush=True
            )
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
