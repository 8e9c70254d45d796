"""Arguments that several subcommands have."""

from __future__ import annotations

import argparse
from pathlib import Path

_MOST_DEVICES = 1_000_000


def add_measured(parser: argparse.ArgumentParser) -> None:
    """What is looked at: folders and logs, published results, one workload."""
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="DIR", help="folder with runs (searched below), or a log"
    )
    parser.add_argument(
        "--published",
        action="append",
        default=[],
        metavar="ROUND/SUBMITTER/SYSTEM",
        help="a published result, or dgx1-article; ROUND or ROUND/SUBMITTER name all below (may be repeated)",
    )
    parser.add_argument("--workload", metavar="W", help="only this workload: ncf, resnet50, …")


def add_price(parser: argparse.ArgumentParser) -> None:
    """`--price-per-device-hour`, which `suite.results.score.price.parse_prices` reads."""
    parser.add_argument(
        "--price-per-device-hour",
        metavar="PRICE",
        help="cost of each result: 2.5 for every device, or v100=2.48,a100=4.10 by part of the device's name",
    )


def counts(text: str) -> tuple[int, ...]:
    """Numbers of devices, rising. Raises ArgumentTypeError for anything else."""
    words = text.split(",")
    if not all(word.isdecimal() and 0 < int(word[:12]) <= _MOST_DEVICES for word in words):
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: give whole numbers of devices, such as 16,64,512")
    return tuple(sorted({int(word) for word in words}))
