"""`run_suite.py`: compose, refuse what cannot be right, run job after job, and end with a table."""

from __future__ import annotations

import contextlib
import datetime
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from suite.common.job_name import named
from suite.common.output_lock import claimed
from suite.common.paths import PROJECT, data_root, log_root
from suite.common.registry import WORKLOADS, load_dataset, names
from suite.common.typed import as_typed
from suite.config.compose import Composed, Request, compose
from suite.control import caches
from suite.control.cells import Cells
from suite.control.interrupts import WholeLines, held, listen, resuming_command
from suite.control.machines.choose import Elsewhere, fleet_of, submits
from suite.control.machines.fleet import Fleet
from suite.control.machines.submit import submitted
from suite.control.messages import said_once
from suite.control.progress import Progress
from suite.control.supervise import Supervisor
from suite.control.watch import Status
from suite.environments import environment
from suite.launch.hosts import Node
from suite.plan.jobs import Job, JobDraft, check_trainers, choose, make_job
from suite.plan.resume import finished_status, set_aside
from suite.preflight import doctor
from suite.preflight.obstacles import explained


@dataclass(frozen=True)
class Ended:
    """One run that is over."""

    job: Job
    index: int
    status: Status

    @property
    def name(self) -> str:
        """`job/run_N`."""
        return f"{self.job.name}/run_{self.index}"


def main(arguments: Sequence[str]) -> int:
    """Exit code: 0 all runs succeeded, 1 some did not, 2 the command line is wrong, 130 interrupted."""
    console = WholeLines(highlight=False)
    listen()
    ended: list[Ended] = []
    output: Path | None = None
    try:
        if not names(WORKLOADS):
            raise ValueError(
                f"the suite is not installed for {sys.executable}; type: pip install --no-deps -e {PROJECT}"
            )
        request = compose(arguments)
        if not request.jobs:
            return 0
        for note in request.notes:
            console.print(escape(note), soft_wrap=True)
        output = _output(request.jobs[0])
        configs = [composed.config for composed in request.jobs]
        if submits(configs):
            for line in submitted(arguments, configs, output):
                console.print(escape(line), soft_wrap=True)
            return 0
        cells = Cells()
        with _opened(fleet_of(configs)) as fleet:
            jobs = _planned(request, output, console, cells, fleet)
            with claimed(output):
                check_folders(jobs, resume=bool(request.jobs[0].config["resume"]))
                cells.write(output)
                code = 0 if run_jobs(jobs, console, ended, fleet) else 1
    except Elsewhere:
        return 0
    except (ValueError, OSError) as error:
        print(f"run_suite.py: {as_typed(one_line(error))}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        console.print(escape(_interrupted(arguments, output)), soft_wrap=True)
        code = 130
    return closed(ended, console, code) if ended else code


def one_line(error: ValueError | OSError) -> str:
    """What went wrong, without a traceback."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _interrupted(arguments: Sequence[str], output: Path | None) -> str:
    if output is None or not output.exists():
        return "interrupted before anything was run"
    typed = resuming_command(arguments, output)
    return f"interrupted; what was written is kept. To go on with what is missing, type:\n  {typed}"


@contextlib.contextmanager
def _opened(fleet: Fleet | None) -> Iterator[Fleet | None]:
    """Machines that are let go in the end."""
    try:
        yield fleet
    finally:
        if fleet is not None:
            with held():
                fleet.close()


def _planned(request: Request, output: Path, console: Console, cells: Cells, fleet: Fleet | None) -> list[Job]:
    """`plan`; raises ValueError with everything that is missing at once, in several lines if it is much."""
    try:
        with said_once(environment.__name__):
            jobs = plan(request, output, console, cells, fleet.nodes if fleet is not None else ())
    except ValueError as error:
        raise (explained(error, request) if fleet is None else error) from None
    if fleet is not None:
        fleet.check(jobs)
    return jobs


def plan(request: Request, output: Path, console: Console, cells: Cells, nodes: Sequence[Node] = ()) -> list[Job]:
    """All jobs of the command, every one checked before the first starts; prepares demo data sets that are missing.

    `nodes`: the machines of the command, if it is not this one. What cannot run in a study goes into `cells`; if that is
    everything, ValueError is raised.
    """
    first = request.jobs[0].config
    if first["resume"] and first["output"] is None:
        raise ValueError("resume=true: which sweep? type output=FOLDER with the folder of the sweep to finish")
    choices: list[tuple[Composed, JobDraft]] = []
    for composed in request.jobs:
        draft = cells.attempt(composed, job_name(composed), partial(choose, composed.config, request.plugins, nodes))
        choices += [(composed, draft)] if draft is not None else []
    check_trainers([draft for _, draft in choices], request.plugins)
    for dataset in sorted({draft.settings.dataset for _, draft in choices if draft.settings.profile == "demo"}):
        recipe, folder = load_dataset(dataset), data_root() / dataset
        if recipe.generated and not recipe.is_prepared(folder):
            for line in recipe.make_demo(folder):
                console.print(escape(line), soft_wrap=True)
    jobs = []
    for composed, draft in choices:
        name = job_name(composed)
        job = cells.attempt(composed, name, partial(make_job, draft, composed.config, name, output, composed.cell))
        jobs += [job] if job is not None else []
    if not jobs:
        raise cells.reason
    for line in cells.lines:
        console.print(escape(line), soft_wrap=True)
    _refuse_equal(jobs)
    return jobs


def _refuse_equal(jobs: Sequence[Job]) -> None:
    seen: set[str] = set()
    for job in jobs:
        if job.name in seen:
            raise ValueError(f"{job.name}: two jobs of this sweep have the same settings; leave one out")
        seen.add(job.name)


def check_folders(jobs: Sequence[Job], resume: bool) -> None:
    """Refuse folders that hold results, or, when resuming, results of other settings. Called with the folder claimed."""
    for job in jobs:
        if resume:
            for index in range(job.run_count):
                finished_status(job.folder / f"run_{index}", job.run(index, cache_cleared=False))
        elif job.folder.exists():
            raise ValueError(
                f"{job.folder} holds results already and is never overwritten; type another output=FOLDER, "
                f"or resume=true to run what is missing there"
            )


def _output(composed: Composed) -> Path:
    given = composed.config["output"]
    if given is not None:
        if not str(given).strip():
            raise ValueError("output= names no folder; type output=FOLDER, or leave it out: a new folder below logs/")
        return Path(str(given)).expanduser().absolute()
    stamp = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    folder, again = log_root() / stamp, 1
    while folder.exists():
        again += 1
        folder = log_root() / f"{stamp}-{again}"
    return folder


def job_name(composed: Composed) -> str:
    """Folder name: workload, framework, profile, devices, then what else the command line sets, or tells cells apart."""
    config = composed.config
    words = composed.overrides if composed.cell is None else composed.cell.texts
    kinds = (config["workload"]["name"], config["framework"]["name"], config["profile"]["name"])
    return named(*kinds, config["gpus"], config["device"], words)


def run_jobs(jobs: Sequence[Job], console: Console, ended: list[Ended], fleet: Fleet | None = None) -> bool:
    """Run all jobs in order; True if every run succeeded. Appends to `ended` as runs end.

    Raises KeyboardInterrupt where a scheduler ends one, since it ends what would follow too.
    """
    count = sum(job.run_count for job in jobs)
    labels = sorted({label for job in jobs for label in job.template.labels})
    marked = f" ({', '.join(labels)})" if labels else ""
    console.print(escape(f"{count} run(s) into {jobs[0].folder.parent}{marked}"), soft_wrap=True)
    warned: set[str] = set()
    for job in jobs:
        of_job = doctor.preflight(doctor.need_of(job)) if fleet is None else doctor.preflight_of_logs(job.folder)
        for line in of_job:
            if line not in warned:
                console.print(f"[yellow]warning[/]: {escape(as_typed(line))}", soft_wrap=True)
            warned.add(line)
        for index in range(job.run_count):
            ended.append(Ended(job, index, _run(job, index, console, fleet)))
            console.print(_status_line(ended[-1]), soft_wrap=True)
            if ended[-1].status.status == "interrupted":
                raise KeyboardInterrupt
    return all(_as_wanted(run) for run in ended)


def _as_wanted(run: Ended) -> bool:
    """True for a success, and in a study for a run that did not fit the memory: that is a cell of its table."""
    status = run.status.status
    return status == "success" or (status == "oom" and bool(run.job.template.study))


def _run(job: Job, index: int, console: Console, fleet: Fleet | None) -> Status:
    """One run to its end; a finished one that a resumed sweep finds is left as it is."""
    folder = job.folder / f"run_{index}"
    if folder.exists():
        earlier = finished_status(folder, job.run(index, cache_cleared=False))
        if earlier:
            return Status(earlier, "finished earlier")
        console.print(escape(f"unfinished attempt kept in {set_aside(folder)}"), soft_wrap=True)
    if fleet is not None:
        fleet.ready()
        cleared, said = fleet.clear(job)
        for line in said:
            console.print(escape(line), soft_wrap=True)
    else:
        cleared = caches.clear(job.cache_clear, job.template.settings, console)
    run = job.run(index, cleared)
    title = f"{job.name}/run_{index}"
    if not console.is_terminal:
        console.print(escape(title), soft_wrap=True)
    with Progress(run, title, console) as progress:
        links = fleet.links if fleet is not None else {}
        supervisor = Supervisor(run, job.framework, job.environment, progress, links)
        status = supervisor.run()
    if supervisor.busy:
        console.print(f"[yellow]busy machine[/]: {escape(', '.join(supervisor.busy))}", soft_wrap=True)
    return status


def _status_line(run: Ended) -> str:
    good = run.status.status == "success"
    colour = "green" if good else "red"
    reason = f": {escape(run.status.reason)}" if run.status.reason else ""
    log = run.job.folder / f"run_{run.index}" / f"result_{run.index}.txt"
    where = f"  {escape(str(log))}" if log.exists() else f"  {escape(str(log.parent))}"
    return f"[{colour}]{run.status.status}[/]  {escape(run.name)}{reason}{where}"


def closed(ended: Sequence[Ended], console: Console, code: int) -> int:
    """The exit code after the summary of these runs, which stand whatever becomes of it: then one line says how to get it."""
    command = f"suite report {shlex.quote(str(ended[0].job.folder.parent))}"
    try:
        summarise(ended, console)
    except KeyboardInterrupt:
        text = as_typed(f"interrupted after the runs, which are kept; for their table type: {command}")
        console.print(escape(text), soft_wrap=True)
        return 130
    except (ValueError, OSError) as error:
        text = as_typed(f"no table: {one_line(error)}; the runs are kept; for their table type: {command}")
        print(f"run_suite.py: {text}", file=sys.stderr)
    return code


def summarise(ended: Sequence[Ended], console: Console) -> None:
    """The speedup table of these runs with the failures below it, and the paths of the logs, also where there is no table."""
    try:
        from suite.results.render.document import markdown
        from suite.results.table import table
        from suite.results.views.report import report

        folders = list(dict.fromkeys(run.job.folder for run in ended))
        console.print()
        console.print(markdown(report(table(folders))), soft_wrap=True, markup=False)
    finally:
        with held():
            console.print("Logs:")
            for run in ended:
                console.print(f"  {run.job.folder / f'run_{run.index}'}", soft_wrap=True, markup=False)
