"""Starts and stops virtual machines from the command line.

python -m testing.machines up DIR 2 --ssh --slurm
python -m testing.machines run DIR node1 hostname
python -m testing.machines down DIR
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path

import psutil

from testing.machines import Machines, needs
from testing.machines.fixtures import serve


def main() -> int:
    """Run the requested command and return its exit code."""
    arguments = _parsed()
    if arguments.word == "up":
        groups = [
            group
            for group, wanted in ((needs.SSH, arguments.ssh), (needs.SLURM, arguments.slurm))
            if wanted
        ]
        if reason := needs.missing(*groups):
            sys.exit(reason)
        arguments.folder.mkdir(parents=True, exist_ok=True)
        started = Machines.make(arguments.folder, arguments.count, arguments.rate)
        serve(started, ssh=arguments.ssh, slurm=arguments.slurm)
        print(*(f"{machine.name} {machine.address}" for machine in started.all), sep="\n")
        return 0
    machines = Machines.load(arguments.folder)
    if arguments.word == "run":
        command = machines[arguments.machine].command(arguments.command, Path.cwd(), arguments.user)
        os.execvp(command[0], command)
    if arguments.word == "down":
        machines.down()
    elif arguments.word == "processes":
        for name, processes in machines.processes().items():
            for process in processes:
                with contextlib.suppress(psutil.Error):
                    print(name, process.pid, " ".join(process.cmdline())[:150])
    else:
        getattr(machines, arguments.word)(machines[arguments.machine])
    return 0


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m testing.machines", description=__doc__)
    words = parser.add_subparsers(dest="word", required=True)
    texts = {
        "up": "start a hub and N nodes",
        "run": "run a command on a machine",
        "down": "stop all machines",
    }
    texts |= {"unplug": "disconnect a node from the network", "plug": "connect it again"}
    texts["processes"] = "list the processes of all machines, by their ids on the host"
    parsers = {word: words.add_parser(word, help=text) for word, text in texts.items()}
    for subparser in parsers.values():
        subparser.add_argument("folder", type=Path, metavar="DIR")
    parsers["up"].add_argument("count", type=int, metavar="N")
    parsers["up"].add_argument("--rate", help="maximum rate of a node's output, as in tc: 200mbit")
    parsers["up"].add_argument("--ssh", action="store_true", help="start sshd on each machine")
    parsers["up"].add_argument(
        "--slurm", action="store_true", help="start slurmd on each node, slurmctld on the hub"
    )
    for word in ("run", "unplug", "plug"):
        parsers[word].add_argument("machine", help="hub, node1, …")
    parsers["run"].add_argument(
        "--user", default="", help="user of the command (goes before the machine's name)"
    )
    parsers["run"].add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
