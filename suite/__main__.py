"""Entry point of `python -m suite`, which runs the `suite` command."""

import sys

from suite.cli import main

sys.exit(main())
