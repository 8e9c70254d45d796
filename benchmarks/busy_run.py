"""A demo's run as a suite would start it: what busy_machine.py measures, also of an earlier checkout (PYTHONPATH).

    python busy_run.py WORKLOAD FRAMEWORK CORES FOLDER [KEY=VALUE …]

Writes into FOLDER `run.json`, and `variables.json` with what the launcher would set. Makes the demo's data if they are missing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console

from suite.common import registry
from suite.config.compose import compose
from suite.control.controller import checked_jobs
from suite.launch.base import meet
from suite.launch.hosts import hosts_of


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind in {"workload": str, "framework": str, "cores": int, "folder": Path}.items():
        parser.add_argument(name, type=kind)
    parser.add_argument("more", nargs="*")
    given = parser.parse_args()
    folder = given.folder
    words = [f"workload={given.workload}", f"framework={given.framework}", "profile=demo", "device=cpu", "seed=1"]
    request = compose([*words, *given.more, f"cpu.cores_per_device={given.cores}", f"output={folder / 'unused'}"])
    (job,), _ = checked_jobs(request, folder / "unused", Console(stderr=True), None)
    run = job.run(0, False)
    run.write(folder / "run.json")
    cluster = meet(hosts_of(run))
    (command,) = registry.load_framework(given.framework).commands(run, "run.json", cluster, cluster.hosts[0])
    (folder / "variables.json").write_text(json.dumps(dict(command.variables)))


if __name__ == "__main__":
    main()
