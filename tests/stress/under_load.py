"""Run a command repeatedly next to busy processes, to find tests that need an idle machine.

    python -m tests.stress.under_load [--times 10] [--busy 2] -- COMMAND …

The script prints a line with the exit code and seconds per run. Its exit code is 1 if a run failed.
An example of a command is `.venv/bin/python -m pytest -q tests/suite/control`.
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
