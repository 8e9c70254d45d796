"""`suite scaling`: predicts time on more devices than were measured, and validates its law on published rows."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from suite.commands.arguments import add_measured, add_price, counts

if TYPE_CHECKING:
    from suite.results.predict.points import Forecast, Wanted


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite scaling`."""
    add_measured(parser)
    parser.add_argument("--devices", type=counts, metavar="N,N,…", help="device counts to predict: 16,64,512")
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
        "published rows; needs runs of two batches on one device. All-reduces among the runs take the place of its links",
    )
    parser.add_argument(
        "--gradient-mb", type=_positive, metavar="MB", help="gradients of a model that is not the reference's"
    )
    add_price(parser)
    parser.add_argument("--format", choices=("text", "csv"), default="text", help="text (default) or csv")
    parser.add_argument(
        "--figures", type=Path, metavar="FOLDER", help="time and efficiency over devices as SVG and PNG in a new folder"
    )
    parser.add_argument(
        "--validate",
        action="store_true",
        help="predict every published row without its own time and compare; exit code 1 if a bar is not met",
    )


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

    made = _forecasts(args)
    if args.figures is not None:
        from suite.results.html.scaling_curves import write_forecast_figures  # matplotlib: only here

        write_forecast_figures(made, args.figures)
    print({"text": forecasts_text, "csv": forecasts_csv}[args.format](made), end="")
    return 0


def _validate() -> int:
    from suite.results.predict.validate import validate
    from suite.results.predict.validation_text import validation_text

    validation = validate()
    print(validation_text(validation), end="")
    return 0 if all(bar.met for bar in validation.bars) else 1


def _forecasts(args: argparse.Namespace) -> list[Forecast]:
    """What is asked for, of all runs and published results that are given."""
    from suite.results.predict.forecast import forecasts
    from suite.results.predict.links import measured_links
    from suite.results.published.other_logs import measurements_of, rows_below

    table = rows_below(args.paths) if args.paths else []
    items = measurements_of(args.paths, args.published, "scaling", args.workload, table)
    wanted = replace(_wanted(args), links=tuple(measured_links(table)))
    if wanted.prices is not None:
        wanted.prices.refuse_unknown_names(items)
    return forecasts(items, wanted)


def _wanted(args: argparse.Namespace) -> Wanted:
    from suite.results.predict.points import Wanted
    from suite.results.predict.systems import find_system
    from suite.results.score.price import parse_prices
    from workloads.api import GradientTraffic

    return Wanted(
        devices=args.devices,
        batch_per_device=args.batch_per_device,
        batch_global=args.batch_global,
        system=None if args.system is None else find_system(args.system),
        prices=None if args.price_per_device_hour is None else parse_prices(args.price_per_device_hour),
        gradients=None if args.gradient_mb is None else GradientTraffic(args.gradient_mb * 1e6),
    )
