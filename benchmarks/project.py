"""Where the project lies; who imports this finds `testing`, which lies there, from whatever folder the script is started."""

import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))
