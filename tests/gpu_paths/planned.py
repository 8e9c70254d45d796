"""Run where the null device is seen: the run.json of runs that are planned and not started.

python -m tests.gpu_paths.planned FOLDER WORDS …     (the words of each run as one argument; its
file is FOLDER/N/run.json)
"""

import shlex
import sys
from pathlib import Path

from suite.config.compose import compose
from suite.plan.jobs import plan


def main():
    folder, *commands = sys.argv[1:]
    for number, words in enumerate(commands):
        (composed,) = compose(shlex.split(words)).jobs
        made = plan(composed.config, output=Path(folder))
        if made.findings:
            raise made.findings[0]
        (Path(folder) / str(number)).mkdir()
        made.job.run(0, cache_cleared=False).write(Path(folder) / str(number) / "run.json")


if __name__ == "__main__":
    main()
