"""Prints the digests of a module beside this file as JSON: `python -m tests.golden randomness`,
images, detection or text.

The exit code is 1 if one differs from those in the JSON file of its name.
"""

import importlib
import json
import sys
from pathlib import Path


def main(name: str) -> int:
    found = importlib.import_module(f"tests.golden.{name}").digests()
    print(json.dumps(found, indent=1))
    expected = json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="ascii"))
    wrong = [one for one in {**found, **expected} if found.get(one) != expected.get(one)]
    print(f"differs: {', '.join(wrong) or 'nothing'}", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
