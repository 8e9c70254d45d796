"""`suite doctor`: check whether this machine is ready for a run."""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from suite import __version__
from suite.commands.arguments import add, add_machines
from suite.common.terminal import clean_lines

if TYPE_CHECKING:
    from suite.preflight.check_machine import Resources
    from suite.preflight.findings import Finding


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite doctor`."""
    add(
        parser,
        "--device",
        "kind of devices; auto: GPUs if the machine has any (default: auto)",
        choices=("auto", "cpu", "cuda"),
        default="auto",
    )
    add(
        parser,
        "--gpus N",
        "number of devices of a run (default: all GPUs, or a single core)",
        type=int,
    )
    text = "framework whose build is compared with the GPUs (default: pytorch)"
    parser.add_argument("--framework", default="pytorch", help=text)
    add(
        parser,
        "--environment NAME",
        "environment to check (default: the environment of the framework)",
        default="auto",
    )
    add_machines(parser)
    add(
        parser,
        "--output DIR",
        "folder that logs will be written to (default: the log folder)",
        type=Path,
    )
    add(parser, "--json", "print versions and findings as JSON, for a bug report")


def run(args: argparse.Namespace) -> int:
    """Print a line per finding, or all findings as JSON.

    The exit code is 1 if the findings make a run impossible, otherwise 0.

    Raises:
        ValueError: An argument is invalid.
    """
    from suite.common.command_text import localize_commands
    from suite.preflight.check_machine import examine

    if args.gpus is not None and args.gpus < 1:
        raise ValueError(f"--gpus {args.gpus}: expected a positive integer. Set --gpus 1 or more")
    need, problems = _need(args)
    findings = [*problems, *examine(need)]
    if args.json:
        versions = {"suite_version": __version__, "python_version": platform.python_version()}
        print(
            json.dumps(
                {**versions, "findings": [dataclasses.asdict(finding) for finding in findings]},
                indent=1,
            )
        )
    else:
        print(
            *(
                clean_lines(f"{finding.level:<10}  {localize_commands(finding.line)}")
                for finding in findings
            ),
            sep="\n",
        )
    return 1 if any(finding.level == "impossible" for finding in findings) else 0


def _need(args: argparse.Namespace) -> tuple[Resources, list[Finding]]:
    """Return the resources that a run with the command's options needs.

    The second return value lists the problems that were found while planning such a run.
    """
    from suite.common import registry
    from suite.common.paths import log_root
    from suite.common.run_config import EnvironmentConfig, RunConfig
    from suite.environments import environment
    from suite.machine import devices
    from suite.plan.device_choice import auto_environment, decide_devices
    from suite.plan.unsupported import UnsupportedError
    from suite.preflight.check_machine import Resources
    from suite.preflight.findings import impossible, warning

    framework, lacking, env = (
        registry.load_framework(args.framework),
        list[UnsupportedError](),
        None,
    )
    problems: list[Finding] = []
    device, gpu_count = args.device, 0
    try:
        gpu_count = len(devices.gpus()) if device != "cpu" else 0
        device = device if device != "auto" else ("cuda" if gpu_count else "cpu")
        config = RunConfig(device=device, gpus=args.gpus or gpu_count or 1)
        device = decide_devices(config, "demo", framework, (), lacking.append).kind
    except ValueError:  # a GPU does not respond, and the findings of `examine` report this GPU
        device = "cuda"
    for error in lacking:
        problems.append(impossible("devices", error.problem, error.remedy))
    count = args.gpus or gpu_count or 1
    try:
        env = environment.resolve(
            EnvironmentConfig(name=args.environment), auto_environment(framework, device, (), count)
        )
    except ValueError as error:
        problems.append(
            warning(
                "environment",
                str(error),
                "runs in this environment are refused until this is fixed",
            )
        )
    allowed = devices.cpu_cores()
    cores = allowed[:count] if device == "cpu" else allowed
    folder = args.output or log_root()
    return Resources(
        device, count, framework.process_count(count, device), cores, folder, framework.name, env
    ), problems
