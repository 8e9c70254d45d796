"""Clears the caches of another machine: `python -m suite.control.hosts.clearing JSON`, asked for by the controller.

`JSON`: what `clear` takes. Prints JSON: `cleared`, and the lines that were `said`. Exit code 1 where what was asked for does
not work.
"""

from __future__ import annotations

import io
import json
import sys

from rich.console import Console

from suite.control.caches import clear_files


def main() -> int:
    """As the module says."""
    asked = json.loads(sys.argv[1])
    console = Console(file=io.StringIO(), width=1000)
    try:
        cleared = clear_files(asked["system"], asked["dataset"], asked["data_dir"], console)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    assert isinstance(console.file, io.StringIO)
    print(json.dumps({"cleared": cleared, "said": console.file.getvalue().strip()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
