"""`python -m suite.agent --lease SECONDS`: serves the controller that holds its standard input and output."""

from __future__ import annotations

import argparse
import os
import sys

from suite.agent.agent import Agent
from suite.agent.message_stream import MessageStream


def main() -> int:
    """Exit code 0 once the controller is gone and nothing is left."""
    parser = argparse.ArgumentParser(prog="python -m suite.agent")
    parser.add_argument(
        "--lease", type=float, required=True, help="seconds of silence after which everything here is ended"
    )
    given = parser.parse_args()
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not cut into messages
    Agent(MessageStream(sys.stdin.buffer, output), given.lease).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
