"""`suite advise DIR…`: recommend a number of devices for a job.

The recommendation is based on measured times to target.
"""

from __future__ import annotations

import argparse

from suite.commands.arguments import (
    add,
    add_format,
    add_measured,
    add_price,
    check_logs,
    prices,
    resolve_output,
    write,
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite advise`."""
    add_measured(parser)
    add(parser, "--devices N", "devices of the machine (default: the most measured)", type=_count)
    add(parser, "--deadline TIME", "2h, 90m, 3600s: the cheapest device count that meets it")
    add_price(parser)
    add_format(parser)


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:12]) < 10**9:
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r}: expected a number of devices of at least 1"
        )
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Print the recommendation and return 0.

    Raises:
        ValueError: No result has a time to target, or an argument is invalid.
    """
    from suite.results.scores import measured
    from suite.results.views.advise_view import advise, parse_deadline

    resolve_output(args)
    price_list = prices(args)
    deadline = None if args.deadline is None else parse_deadline(args.deadline)
    check_logs(args.paths)
    results = measured(args.paths, args.published, args.workload, "advise")
    write(advise(results, args.devices, deadline, price_list), args)
    return 0
