"""`suite scaling`: predict the training time on more devices than were measured.

The command can also validate the scaling model on published results.
"""

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
    text = "samples per device; default: as on the nearest measured device count"
    add(batch, "--batch-per-device B", text, type=_positive)
    add(
        batch,
        "--batch-global B",
        "samples of all devices, the same on each device count",
        type=_positive,
    )
    text = (
        "predict from the parts of a step on dgx1, dgx2, dgxa100, pcie, or a system in a file, not"
        " with the scaling model. "
    )
    text += (
        "Needs runs with two batch sizes on one device. Measured all-reduces among the runs replace"
        " links of the system"
    )
    add(parser, "--system NAME|FILE", text)
    add(
        parser,
        "--gradient-mb MB",
        "size of the gradients, for models other than the reference model",
        type=_positive,
    )
    add_price(parser)
    add_format(parser)
    text = "time and efficiency over devices as SVG and PNG in a new folder"
    add(parser, "--figures FOLDER", text, type=Path)
    text = (
        "predict each published result without its time and compare; exit status 1 if a limit is"
        " not met"
    )
    add(parser, "--validate", text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1e12:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text[:40]!r}")
    return value


def run(args: argparse.Namespace) -> int:
    """Print predictions, or the validation of the scaling model.

    Returns:
        1 if the validation exceeds an error limit, otherwise 0.

    Raises:
        ValueError: An argument is invalid, or no prediction is possible.
    """
    resolve_output(args)
    if args.validate:
        if args.paths or args.published or args.devices:
            raise ValueError(
                "--validate uses the shipped published results. Omit DIR, --published, and"
                " --devices"
            )
        return _validate(args)
    if args.devices is None:
        raise ValueError("no device counts to predict. Set --devices 16,64,512, or set --validate")
    from suite.results.predict.predictions import PredictionRequest, predictions
    from suite.results.predict.systems import find_system, measured_links
    from suite.results.scores import measured
    from suite.results.views.scaling_view import scaling_view
    from workloads.api import GradientAllReduceInfo

    system = None if args.system is None else find_system(args.system)
    gradients = None if args.gradient_mb is None else GradientAllReduceInfo(args.gradient_mb * 1e6)
    check_logs(args.paths)
    results = measured(args.paths, args.published, args.workload, "scaling")
    price_list = prices(args)
    price_notes = () if price_list is None else price_list.unused_notes(results)
    request = PredictionRequest(
        args.devices,
        args.batch_per_device,
        args.batch_global,
        system,
        gradients,
        price_list,
        tuple(measured_links(results)),
    )
    found = predictions(results, request)
    if args.figures is not None:
        from suite.results.render.html.scaling_charts import prediction_charts

        # vl-convert, which the module imports, is needed only for figures
        from suite.results.render.html.vega import write_figures

        write_figures(
            [chart for prediction in found for chart in prediction_charts(prediction)], args.figures
        )
    write(replace(scaling_view(found), notes=price_notes), args)
    return 0


def _validate(args: argparse.Namespace) -> int:
    from suite.results.predict.validate import validate
    from suite.results.views.scaling_view import validation_view

    validation_result = validate()
    write(validation_view(validation_result), args)
    return 0 if validation_result.bars["met"].all() else 1
