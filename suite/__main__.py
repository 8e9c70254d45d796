"""`python -m suite`: the `suite` command."""

import sys

from suite.cli import main

sys.exit(main())
