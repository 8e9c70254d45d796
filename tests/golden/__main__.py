"""Print the digests of a module in this folder as JSON: `python -m tests.golden randomness`.

The modules are randomness, images, detection and text. The exit code is 1 if a digest differs from
the digests in the JSON file of the same name.
"""

import importlib
import json
import sys
from pathlib import Path


def main(name: str) -> int:
    found = importlib.import_module(f"tests.golden.{name}").digests()
    print(json.dumps(found, indent=1))
    expected = json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="ascii"))
    wrong = [key for key in {**found, **expected} if found.get(key) != expected.get(key)]
    print(f"differs: {', '.join(wrong) or 'nothing'}", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
