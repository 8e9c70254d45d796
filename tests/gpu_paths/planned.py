"""Plan runs on the null device without starting them, and write their run.json.

`python -m tests.gpu_paths.planned FOLDER OVERRIDES …`: the overrides of each run are one argument,
and its file is FOLDER/N/run.json.
"""

import shlex
import sys
from pathlib import Path

from suite.config.compose import compose
from suite.plan.jobs import plan


def main():
    folder, *commands = sys.argv[1:]
    for number, overrides in enumerate(commands):
        (composed,) = compose(shlex.split(overrides)).jobs
        planned = plan(composed.config, output=Path(folder))
        if planned.findings:
            raise planned.findings[0]
        (Path(folder) / str(number)).mkdir()
        planned.job.run(0, cache_cleared=False).write(Path(folder) / str(number) / "run.json")


if __name__ == "__main__":
    main()
