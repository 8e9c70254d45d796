"""`python -m suite.agent --lease SECONDS` executes requests from standard input.

The agent writes its answers to standard output. The controller is connected to the agent's standard
input and output.
"""

from __future__ import annotations

import argparse
import os
import sys

from suite.agent.agent import Agent
from suite.agent.message_stream import MessageStream


def main() -> int:
    """Run the agent until the controller disconnects and all processes have ended.

    Returns exit code 0.
    """
    parser = argparse.ArgumentParser(prog="python -m suite.agent")
    parser.add_argument(
        "--lease",
        type=float,
        required=True,
        help="end all processes after this many seconds without a message from the controller",
    )
    args = parser.parse_args()
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Redirect printed text to stderr, so that it cannot corrupt the messages on stdout.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    Agent(MessageStream(sys.stdin.buffer, output), args.lease).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
