"""`suite scaling`: predicts time on more devices than were measured, and validates its law on published rows."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from suite.commands.arguments import add_measured, add_price

if TYPE_CHECKING:
    from suite.results.predict.points import Forecast, Wanted

_MOST_DEVICES = 1_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite scaling`."""
    add_measured(parser)
    parser.add_argument("--devices", type=_counts, metavar="N,N,…", help="device counts to predict: 16,64,512")
    batch = parser.add_mutually_exclusive_group()
    batch.add_argument(
        "--batch-per-device",
        type=_positive,
        metavar="B",
        help="samples a device (default: as on the nearest measured count)",
    )
    batch.add_argument(
        "--batch-global", type=_positive, metavar="B", help="samples of all devices, whatever their number"
    )
    parser.add_argument(
        "--system",
        metavar="NAME|FILE",
        help="predict from the parts of a step on dgx1, dgx2, dgxa100, pcie or a system of your own, not by the law of "
        "published rows; needs runs of two batches on one device",
    )
    parser.add_argument(
        "--gradient-mb", type=_positive, metavar="MB", help="gradients of a model that is not the reference's"
    )
    add_price(parser)
    parser.add_argument("--format", choices=("text", "csv"), default="text", help="text (default) or csv")
    parser.add_argument(
        "--validate",
        action="store_true",
        help="predict every published row without its own time and compare; exit code 1 if a bar is not met",
    )


def _counts(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isdecimal() and 0 < int(word[:12]) <= _MOST_DEVICES for word in words):
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: give whole numbers of devices, such as 16,64,512")
    return tuple(sorted({int(word) for word in words}))


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1e12:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: give a number above 0")
    return value


def run(args: argparse.Namespace) -> int:
    """Print predictions, 0; or the validation, 1 if a bar is not met. Raises ValueError (one line) for a user's mistake."""
    if args.validate:
        if args.paths or args.published or args.devices:
            raise ValueError(
                "--validate is about the shipped published rows: give no DIR, --published or --devices with it"
            )
        return _validate()
    if args.devices is None:
        raise ValueError("give the device counts to predict: --devices 16,64,512 (or --validate)")
    from suite.results.predict.forecast_text import forecasts_csv, forecasts_text

    forecasts = _forecasts(args)
    print({"text": forecasts_text, "csv": forecasts_csv}[args.format](forecasts), end="")
    return 0


def _validate() -> int:
    from suite.results.predict.validate import validate
    from suite.results.predict.validation_text import validation_text

    validation = validate()
    print(validation_text(validation), end="")
    return 0 if all(bar.met for bar in validation.bars) else 1


def _forecasts(args: argparse.Namespace) -> list[Forecast]:
    """A forecast for each group of comparable runs that one can be made for; raises the first reason if there is none."""
    from suite.results.predict.forecast import comparable, forecast
    from suite.results.published.other_logs import measurements_of

    items = measurements_of(args.paths, args.published, "scaling", args.workload)
    wanted = _wanted(args)
    if wanted.prices is not None:
        wanted.prices.refuse_unknown_names(items)
    made, reasons = [], []
    for group in comparable(items):
        try:
            made.append(forecast(group, wanted))
        except ValueError as error:
            reasons.append(str(error))
    if not made:
        more = f" (and {len(reasons) - 1} more groups of runs)" if len(reasons) > 1 else ""
        raise ValueError(reasons[0] + more)
    return made


def _wanted(args: argparse.Namespace) -> Wanted:
    from suite.results.predict.points import Wanted
    from suite.results.predict.step import Gradients
    from suite.results.predict.systems import find_system
    from suite.results.score.price import parse_prices

    return Wanted(
        devices=args.devices,
        batch_per_device=args.batch_per_device,
        batch_global=args.batch_global,
        system=None if args.system is None else find_system(args.system),
        prices=None if args.price_per_device_hour is None else parse_prices(args.price_per_device_hour),
        gradients=None if args.gradient_mb is None else Gradients(args.gradient_mb * 1e6),
    )
