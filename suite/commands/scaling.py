"""`suite scaling`: predicts time on more devices than were measured, and validates its law on published rows."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from suite.commands.arguments import (
    add,
    add_format,
    add_measured,
    add_price,
    check_logs,
    counts,
    prices,
    resolve_output,
    write,
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite scaling`."""
    add_measured(parser)
    add(parser, "--devices N,N,…", "device counts to predict: 16,64,512", type=counts)
    batch = parser.add_mutually_exclusive_group()
    text = "samples a device (default: as on the nearest measured count)"
    add(batch, "--batch-per-device B", text, type=_positive)
    add(batch, "--batch-global B", "samples of all devices, whatever their number", type=_positive)
    text = "predict from the parts of a step on dgx1, dgx2, dgxa100, pcie or a system of your own, not by the law of "
    text += "published rows; needs runs of two batches on one device. All-reduces among the runs take the place of its links"
    add(parser, "--system NAME|FILE", text)
    add(parser, "--gradient-mb MB", "gradients of a model that is not the reference's", type=_positive)
    add_price(parser)
    add_format(parser)
    text = "time and efficiency over devices as SVG and PNG in a new folder"
    add(parser, "--figures FOLDER", text, type=Path)
    text = "predict every published row without its own time and compare; exit code 1 if a bar is not met"
    add(parser, "--validate", text)


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
    resolve_output(args)
    if args.validate:
        if args.paths or args.published or args.devices:
            raise ValueError(
                "--validate is about the shipped published rows: give no DIR, --published or --devices with it"
            )
        return _validate(args)
    if args.devices is None:
        raise ValueError("give the device counts to predict: --devices 16,64,512 (or --validate)")
    from suite.results.predict.systems import find_system, measured_links
    from suite.results.scores import measured
    from suite.results.views.scaling import Wanted, forecasts, view
    from workloads.api import GradientTraffic

    system = None if args.system is None else find_system(args.system)
    gradients = None if args.gradient_mb is None else GradientTraffic(args.gradient_mb * 1e6)
    check_logs(args.paths)
    results = measured(args.paths, args.published, args.workload, "scaling")
    price_list = prices(args)
    price_notes = () if price_list is None else price_list.unused_notes(results)
    wanted = Wanted(
        args.devices,
        args.batch_per_device,
        args.batch_global,
        system,
        gradients,
        price_list,
        tuple(measured_links(results)),
    )
    found = forecasts(results, wanted)
    if args.figures is not None:
        from suite.results.render.html.scaling import forecast_charts
        from suite.results.render.html.vega import write_figures  # vl-convert: only here

        write_figures([chart for one in found for chart in forecast_charts(one)], args.figures)
    write(replace(view(found), notes=price_notes), args)
    return 0


def _validate(args: argparse.Namespace) -> int:
    from suite.results.predict.validate import validate
    from suite.results.views.scaling import validation

    validation_result = validate()
    write(validation(validation_result), args)
    return 0 if validation_result.bars["met"].all() else 1
