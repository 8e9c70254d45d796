"""`suite scaling`: predicts time on more devices, and validates its law on published rows."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite scaling`."""
    parser.add_argument(
        "--validate",
        action="store_true",
        help="predict every published row without its own time and compare; exit code 1 if a bar is not met",
    )


def run(args: argparse.Namespace) -> int:
    """Print the validation; 1 if a bar is not met, else 0."""
    from suite.results.predict.validate import validate
    from suite.results.predict.validation_text import validation_text

    validation = validate()
    print(validation_text(validation), end="")
    return 0 if all(bar.met for bar in validation.bars) else 1
