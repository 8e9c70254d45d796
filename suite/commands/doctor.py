"""`suite doctor`: checks whether this machine is ready for a run."""

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
    from suite.preflight.doctor import Need
    from suite.preflight.findings import Finding


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `suite doctor`."""
    add(parser, "--device", "default: GPUs if there are any", choices=("auto", "cpu", "cuda"), default="auto")
    add(parser, "--gpus N", "devices of a run (default: all GPUs, or one core)", type=int)
    text = "whose build is held against the GPUs (default: pytorch)"
    parser.add_argument("--framework", default="pytorch", help=text)
    add(parser, "--environment NAME", "default: the framework's own", default="auto")
    add_machines(parser)
    add(parser, "--output DIR", "where logs will go (default: the log folder)", type=Path)
    add(parser, "--json", "for a report of a fault: versions and findings")


def run(args: argparse.Namespace) -> int:
    """Print a line for each thing looked at, or all as JSON; 1 if something makes a run impossible. Raises ValueError."""
    from suite.common.typed import as_typed
    from suite.preflight.doctor import examine

    if args.gpus is not None and args.gpus < 1:
        raise ValueError(f"--gpus {args.gpus}: type 1 or more")
    need, problems = _need(args)
    findings = [*problems, *examine(need)]
    if args.json:
        versions = {"suite_version": __version__, "python_version": platform.python_version()}
        print(json.dumps({**versions, "findings": [dataclasses.asdict(one) for one in findings]}, indent=1))
    else:
        print(*(clean_lines(f"{finding.level:<10}  {as_typed(finding.line)}") for finding in findings), sep="\n")
    return 1 if any(finding.level == "impossible" for finding in findings) else 0


def _need(args: argparse.Namespace) -> tuple[Need, list[Finding]]:
    """Return the resources that the command line requires, and the findings of planning, for a run with these `device=` and
    `gpus=`.
    """
    from suite.common import registry
    from suite.common.paths import log_root
    from suite.common.run_config import EnvironmentConfig, RunConfig
    from suite.environments import environment
    from suite.machine import devices
    from suite.plan.settings import Impossible, auto_environment, choose_device, cores_per_device
    from suite.preflight.doctor import Need
    from suite.preflight.findings import impossible, warning

    framework, lacking, env = registry.load_framework(args.framework), list[Impossible](), None
    problems: list[Finding] = []
    device, gpu_count = args.device, 0
    try:
        gpu_count = len(devices.gpus()) if device != "cpu" else 0
        device = device if device != "auto" else ("cuda" if gpu_count else "cpu")
        config = RunConfig(device=device, gpus=args.gpus or gpu_count or 1)
        device, fitting = choose_device(config, "demo", framework, (), lacking.append)
        cores_per_device(fitting, device, (), lacking.append)
    except ValueError:  # a GPU that does not answer: `examine` says which one
        device = "cuda"
    for error in lacking:
        text, _, do = str(error).partition("; ")
        problems.append(impossible("devices", text, do))
    count = args.gpus or gpu_count or 1
    try:
        env = environment.resolve(
            EnvironmentConfig(name=args.environment), auto_environment(framework, device, (), count)
        )
    except ValueError as error:
        problems.append(warning("environment", str(error), "runs in it are refused until then"))
    allowed = devices.cpu_cores()
    cores = allowed[:count] if device == "cpu" else allowed
    folder = args.output or log_root()
    return Need(device, count, framework.process_count(count, device), cores, folder, framework.name, env), problems
