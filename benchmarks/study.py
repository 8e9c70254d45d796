"""Run a study, and print its table and the load of the machine as JSON.

    python -m benchmarks.study NAME [KEY=VALUE …] [--figures FOLDER] [--name NAME] [--runs FOLDER]

The script runs `python run_suite.py study=NAME KEY=VALUE …`. The JSON output contains the numbers
of the `suite report` table, two shares per job, and the time and CPU time of the whole command. The
first share, `others_share`, is the share of the job's cores that unrelated processes used. The
second share, `cpu_share`, is the CPU time that the job received divided by the CPU time that it
requested. A rate divided by `cpu_share` estimates the rate on an idle machine.

`--figures` writes the figures study_NAME.svg or study_NAME_NUMBER.svg. `--name` replaces the name
of the study in the names of the SVG files. `--runs` keeps the runs in a folder, and resumes
unfinished runs in the folder.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from benchmarks.measuring import parser_with, run_suite, show, suite_command
from suite.results.columns import Run
from suite.results.render.text_table import text_table
from suite.results.table import read_runs
from suite.results.views.study_view import studies, study_section


def conditions(runs: list[Run]) -> dict[str, dict[str, float]]:
    """Map each job folder to the load of the machine during the job.

    The load consists of two shares. `others_share` is the share of the job's cores that unrelated
    processes used. `cpu_share` is the CPU time that the job received divided by the CPU time that
    it requested.
    """
    found = {}
    for run in runs:
        if run.condition is not None:
            shares = {
                name: run.condition.figures.get(name) for name in ("others_share", "cpu_share")
            }
            found[Path(run.path).parent.parent.name] = {
                name: round(value, 3) for name, value in shares.items() if value is not None
            }
    return found


def draw(runs: Path, folder: Path, name: str) -> list[str]:
    """Write the study's figures as SVG files to `folder`, and return the file names."""
    with tempfile.TemporaryDirectory() as scratch:
        figures, page = Path(scratch) / "figures", Path(scratch) / "page.html"
        suite_command("report", runs, "--html", page, "--figures", figures)
        folder.mkdir(parents=True, exist_ok=True)
        pictures = sorted(figures.glob("study-*.svg"))
        numbers = (
            [""] if len(pictures) == 1 else [f"_{number}" for number in range(1, len(pictures) + 1)]
        )
        written = [folder / f"study_{name}{number}.svg" for number in numbers]
        for picture, target in zip(pictures, written, strict=True):
            shutil.copyfile(picture, target)
    return [target.name for target in written]


def main() -> None:
    """Run the study, draw its figures, and print the results."""
    parser = parser_with(__doc__)
    parser.add_argument("study", metavar="NAME")
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--figures", type=Path, metavar="FOLDER")
    parser.add_argument("--name", help="of the files (default: the study's)")
    parser.add_argument("--runs", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    words = [f"study={arguments.study}", *arguments.words]
    with tempfile.TemporaryDirectory() as scratch:
        output = arguments.runs or Path(scratch) / "runs"
        spent = run_suite([*words, *(["resume=true"] if output.exists() else [])], output)
        runs = read_runs(output)
        (result,) = studies(runs)
        section = study_section(result)
        assert section.table is not None
        printed = text_table(section.table, section.keys)
        pictures = (
            draw(output, arguments.figures, arguments.name or arguments.study)
            if arguments.figures
            else []
        )
        found = {
            "study": arguments.study, "settings": words, "command": spent.figures(),
            "notes": section.above, "header": printed.header, "body": printed.body,
            "footer": (*section.below, *printed.footnotes),
            "jobs": conditions(runs), "figures": pictures,
        }  # fmt: skip
    show("study", **found)


if __name__ == "__main__":
    main()
