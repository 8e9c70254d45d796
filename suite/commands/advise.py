"""`suite advise DIR…`: on how many devices to run a job, from measured times to target."""

from __future__ import annotations

import argparse

from suite.commands.arguments import add_measured, add_price


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite advise`."""
    add_measured(parser)
    parser.add_argument(
        "--devices", type=_count, metavar="N", help="devices of the machine (default: the most measured)"
    )
    parser.add_argument("--deadline", metavar="TIME", help="2h, 90m, 3600s: the cheapest device count that meets it")
    add_price(parser)
    parser.add_argument("--format", choices=("text", "csv", "json"), default="text", help="text (default), csv or json")


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:12]) < 10**9:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: give a whole number of devices, 1 or more")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Print the advice; 0. Raises ValueError if there are no measurements."""
    from suite.results.advise.advise import advise, parse_deadline
    from suite.results.advise.render import advice_csv, advice_json, advice_text
    from suite.results.published.other_logs import measurements_of
    from suite.results.score.price import parse_prices

    prices = None if args.price_per_device_hour is None else parse_prices(args.price_per_device_hour)
    deadline = None if args.deadline is None else parse_deadline(args.deadline)
    items = measurements_of(args.paths, args.published, "advise", args.workload)
    if prices is not None:
        prices.refuse_unknown_names(items)
    advice = advise(items, args.devices, deadline, prices)
    print({"text": advice_text, "csv": advice_csv, "json": advice_json}[args.format](advice), end="")
    return 0
