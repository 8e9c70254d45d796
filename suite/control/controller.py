"""`run_suite.py`: compose, refuse what cannot be right, run job after job, and end with a table."""

from __future__ import annotations

import contextlib
import datetime
import functools
import itertools
import os
import shlex
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from suite.common import process
from suite.common.checkpoints import WEIGHTS
from suite.common.job_name import named
from suite.common.output_lock import output_locked, refuse_link_to_nothing
from suite.common.paths import PROJECT, data_root, expand_user, folds_names, in_utf8, log_root
from suite.common.plugin_errors import describe_plugin_error
from suite.common.registry import WORKLOADS, load_dataset, names
from suite.common.relative_path import relative_path
from suite.common.study import StudyCell
from suite.common.terminal import clean_lines
from suite.common.typed import as_typed, program
from suite.config.compose import Composed, Request, compose
from suite.control import caches, dry_run
from suite.control.cells import impossible, write_study
from suite.control.hosts import kubernetes
from suite.control.hosts.agents import Agents
from suite.control.hosts.choose import Elsewhere, agents_of, submits
from suite.control.hosts.submit import needs_gpus, submit
from suite.control.interrupts import WholeLines, listen, resuming_command, signals_held
from suite.control.progress import Progress
from suite.control.supervise import Supervisor
from suite.control.watch import RunStatus
from suite.environments import environment
from suite.launch.scratch import scratch_above
from suite.plan.capacity import TooLarge
from suite.plan.jobs import Job, Plan, check_trainers, plan
from suite.plan.resume import FINISHED, check_unmatched, finished_status, going_on, restore_status, set_aside
from suite.plan.settings import Impossible, Missing
from suite.plan.shown import settings_text
from suite.plan.sweep_commands import commands_to_resume, is_recorded, record_command
from suite.preflight import doctor
from suite.preflight.obstacles import explained
from workloads.api import Deviation, DeviationCode


@dataclass(frozen=True)
class Ended:
    """One run that is over."""

    job: Job
    index: int
    status: RunStatus

    @property
    def log(self) -> Path:
        """Where its log is, unless it ended before there was one."""
        return self.job.folder / f"run_{self.index}" / f"result_{self.index}.txt"

    @property
    def is_lost(self) -> bool:
        """Whether somebody deleted a log that there was."""
        return self.status.status in FINISHED and not self.log.is_file()


def main(arguments: Sequence[str]) -> int:
    """Exit code: 0 all runs succeeded, 1 some did not, 2 the command line is wrong, 130 interrupted.

    `resume=true output=FOLDER` without a workload runs every command that wrote into the folder, one after another.
    """
    try:
        resumed = commands_to_resume(arguments)
    except ValueError as error:
        print(f"{program()}: {as_typed(str(error))}", file=sys.stderr)
        return 2
    if not resumed:
        return _run_command(arguments)
    code = 0
    for command in resumed:
        print(
            f"settings from the folder: {as_typed('python run_suite.py')} {shlex.join(command.arguments)}", flush=True
        )
        with _working_directory(command.folder):
            code = max(code, _run_command(command.arguments))
        if code == 130:
            break
    return code


@contextlib.contextmanager
def _working_directory(folder: str) -> Iterator[None]:
    """Work in the folder that a recorded command was typed in, where its relative paths start; here if it is gone."""
    before = os.getcwd()
    if not os.path.isdir(folder):
        folder = before
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _run_command(arguments: Sequence[str]) -> int:
    """Compose one command and run its jobs; returns the exit code."""
    process.prepare()
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
        if request.shown is not None:
            shown = "---\n".join(settings_text(composed.config, request.shown) for composed in request.jobs)
            print(clean_lines(shown), end="")
            return 0
        for note in request.notes:
            console.print(escape(note), soft_wrap=True)
        first, configs = request.jobs[0].config, [composed.config for composed in request.jobs]
        arguments, output = request.arguments, _output(request.jobs[0])
        if kubernetes.is_meant(request.jobs):
            return _said(kubernetes.hand_over(arguments, request.jobs, output), console)
        if submits(configs):
            if first.dry_run:
                return _dry_run(request, output, console, None, submitted=True)
            if (error := refused(request, plans_for_slurm(request, output), here=False)) is not None:
                raise error
            lines = submit(arguments, configs, output)
            record_command(output, arguments)
            return _said(lines, console)
        with contextlib.ExitStack() as machines:
            agents = agents_of(configs)
            if agents is not None:
                machines.callback(agents.close)
            if first.dry_run:
                return _dry_run(request, output, console, agents)
            jobs, cells = checked_jobs(request, output, console, agents)
            with output_locked(output) as check_output:
                check_folders(jobs, bool(first.resume), output, arguments)
                record_command(output, arguments)
                if cells:
                    write_study(output, cells)
                code = 0 if run_jobs(jobs, console, ended, check_output, agents) else 1
    except Elsewhere:
        return 0
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and output is not None:
            error.filename = error.filename or str(output)  # of a full disk the system says no name
        print(clean_lines(f"{program()}: {as_typed(one_line(error))}"), file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        console.print(escape(_interrupted(arguments, output)), soft_wrap=True)
        code = 130
    except Exception as error:
        if (text := describe_plugin_error(error)) is None:
            raise
        print(f"{program()}: {text}", file=sys.stderr)
        code = 2
    return print_summary(ended, console, code) if ended else code


def _said(lines: Sequence[str], console: Console) -> int:
    """0, once these lines are printed."""
    for line in lines:
        console.print(escape(line), soft_wrap=True)
    return 0


def one_line(error: ValueError | OSError) -> str:
    """What went wrong, without a traceback."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _interrupted(arguments: Sequence[str], output: Path | None) -> str:
    if output is None or not output.exists():
        return "interrupted before anything was run"
    typed = resuming_command(arguments, output)
    return f"interrupted; finished runs and checkpoints are kept. To run the missing runs, run:\n  {typed}"


def planned(request: Request, output: Path, agents: Agents | None, earlier: Sequence[Plan] = ()) -> list[Plan]:
    """A plan for each job of the command, for the machines of `agents`, or this one; what there is to say is said.

    `earlier`: plans of the same jobs, of which those are made again that had to wait for their data.
    """
    first, hosts = request.jobs[0].config, agents.hosts if agents is not None else ()
    if first.resume and first.output is None:
        raise ValueError("resume=true: which sweep? type output=FOLDER with the folder of the sweep to finish")
    versions = environment.Descriptions()
    plans = [
        known
        if known is not None and (known.job is not None or known.findings)
        else plan(one.config, job_name(one), output, request.plugins, hosts, one.cell, versions, one.typed)
        for one, known in itertools.zip_longest(request.jobs, earlier)
    ]
    printed = {note for earlier_plan in earlier for note in earlier_plan.notes}
    for note in dict.fromkeys(note for one in plans for note in one.notes if note not in printed):
        print(clean_lines(note), file=sys.stderr)
    return plans


def plans_for_slurm(request: Request, output: Path) -> list[Plan]:
    """Plans on a login node: what the machine itself lacks in devices and memory is in nobody's way."""
    jobs = [
        replace(one, config=replace(one.config, device="cuda")) if needs_gpus(one.config) else one
        for one in request.jobs
    ]
    plans = planned(replace(request, jobs=tuple(jobs)), output, None)
    elsewhere = (Missing, TooLarge)
    return [one._replace(findings=tuple(e for e in one.findings if not isinstance(e, elsewhere))) for one in plans]


def _dry_run(request: Request, output: Path, console: Console, agents: Agents | None, submitted: bool = False) -> int:
    """Say what would run. Raises ValueError with what is in the way."""
    plans = plans_for_slurm(request, output) if submitted else planned(request, output, agents)
    error = refused(request, plans, here=agents is None and not submitted)
    alone = error is not None and len(plans) == 1  # the error says all that is in its way
    shown_plans = [one._replace(findings=()) for one in plans] if alone else plans
    names = [job_name(one) for one in request.jobs]
    full = request.jobs[0].config.dry_run == dry_run.FULL
    for line in dry_run.lines(list(zip(names, shown_plans, strict=True)), output, submitted, full):
        console.print(escape(as_typed(line)), soft_wrap=True)
    if error is not None:
        raise error
    jobs = [one.job for one in plans if one.job is not None]
    _refuse_equal(jobs, output)
    check_folders(jobs, bool(request.jobs[0].config.resume), output, request.arguments)
    largest = max(jobs, key=lambda job: job.template.settings.devices, default=None)
    for line in _preflight(largest, agents) if largest and not submitted else ():
        _warn(console, as_typed(line))
    return 0


def _preflight(job: Job, agents: Agents | None) -> list[str]:
    """Warnings before a job, one line each."""
    return doctor.preflight(doctor.need_of(job)) if agents is None else doctor.preflight_of_logs(job.folder)


def refused(request: Request, plans: Sequence[Plan], here: bool) -> ValueError | None:
    """Why the command cannot run, with all that is in its way; None where it can. A study runs where one of its cells can.

    `here`: on this machine, of which it is then said which demo to type.
    """
    pairs = list(zip(request.jobs, plans, strict=True))
    wrong = [pair for pair in pairs if pair[1].findings and impossible(pair[1], pair[0].cell) is None]
    if not wrong and all(one.findings for one in plans):
        return plans[0].findings[0]
    return explained([composed for composed, _ in wrong], [one for _, one in wrong], here) if wrong else None


def checked_jobs(
    request: Request, output: Path, console: Console, agents: Agents | None
) -> tuple[list[Job], list[tuple[str, StudyCell, Impossible | None]]]:
    """(all jobs of the command, every one checked before the first starts; the cells of a study).

    Prepares demo data sets that are missing. Raises ValueError with everything that is in the way, in several lines if it is
    much.
    """
    plans = planned(request, output, agents)
    if (error := refused(request, plans, agents is None)) is not None:
        raise error
    drafts = [one.draft for one in plans if one.draft is not None and not one.findings]
    check_trainers(drafts, request.plugins)
    waiting = any(one.job is None and not one.findings for one in plans)  # another command may have made the data since
    missing = sorted({draft.generates for draft in drafts} - {""})
    for dataset in missing:
        place = data_root() / dataset
        try:
            for line in load_dataset(dataset).make_demo(Path(relative_path(place))):
                console.print(escape(line), soft_wrap=True)
        except OSError as full:
            full.filename = full.filename or str(place)
            raise
    if waiting:
        plans = planned(request, output, agents, plans)
        if (error := refused(request, plans, agents is None)) is not None:
            raise error
    cells = [
        (job_name(one), one.cell, impossible(made, one.cell))
        for one, made in zip(request.jobs, plans, strict=True)
        if one.cell is not None
    ]
    for name, _, reason in cells:
        if reason is not None:
            console.print(escape(f"{name}: {reason.shown}: {reason}"), soft_wrap=True)
    jobs = [one.job for one in plans if one.job is not None]
    _refuse_equal(jobs, output)
    if agents is not None:
        agents.check(jobs)
    return jobs, cells


def _refuse_equal(jobs: Sequence[Job], output: Path) -> None:
    """Raise ValueError for two jobs that would write into one folder, with what they differ in.

    Folder names that differ in upper and lower case, or in how a letter with an accent is encoded, are one name to some file
    systems.
    """
    seen: dict[str, Job] = {}
    folds = folds_names(output)
    for job in jobs:
        key = unicodedata.normalize("NFC", job.name).casefold() if folds else job.name
        first = seen.setdefault(key, job)
        if first is job:
            continue
        if first.name != job.name:
            raise ValueError(
                f"{first.name} and {job.name}: the file system of {output} takes these folders for the same; "
                f"set names that differ in more than case, or another output=FOLDER"
            )
        words = sorted(set(first.template.typed) ^ set(job.template.typed))
        keys = list(dict.fromkeys(word.partition("=")[0] for word in words))
        if not keys:
            raise ValueError(f"{job.name}: two jobs of this sweep have the same settings; leave one out")
        raise ValueError(
            f"{', '.join(words)}: two jobs of this sweep differ in {' and '.join(keys)} alone, which is not part of a job's "
            f"folder name ({job.name}); set one value, or run them as separate commands with another output=FOLDER each"
        )


def check_folders(jobs: Sequence[Job], resume: bool, output: Path, arguments: Sequence[str]) -> None:
    """Refuse folders that hold results, or, when resuming, results of other settings. Called with the folder claimed.

    A resumed command that the folder does not record must match the unfinished runs there, or it would train from scratch
    next to them.
    """
    for job in jobs:
        if resume:
            for index in range(job.run_count):
                finished_status(job.folder / f"run_{index}", job.run(index, cache_cleared=False))
        elif job.folder.exists():
            raise ValueError(
                f"{job.folder} holds results already and is never overwritten; type another output=FOLDER, "
                f"or resume=true to run what is missing there"
            )
    if resume and not is_recorded(output, arguments):
        templates = {job.name: job.template for job in jobs}
        check_unmatched(output, templates, {job.name: job.run_count for job in jobs})


def _output(composed: Composed) -> Path:
    """The folder of the command's runs. Raises ValueError for one that is none, or would end with another run."""
    given = composed.config.output
    if given is None:
        stamp, again = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S"), 1
        output = log_root() / stamp
        while output.exists():
            again += 1
            output = log_root() / f"{stamp}-{again}"
    elif not str(given).strip():
        raise ValueError("output= names no folder; type output=FOLDER, or leave it out: a new folder below logs/")
    else:
        output = in_utf8(expand_user(str(given)).absolute(), "output=")
    refuse_link_to_nothing(output)
    if (above := scratch_above(output)) is not None:
        raise ValueError(
            f"{output}: {above} holds a run's temporary files and ends with it; type another output=FOLDER"
        )
    return output


def job_name(composed: Composed) -> str:
    """Folder name: workload, framework, profile, devices, then what else the command line sets, or tells cells apart."""
    config = composed.config
    words = composed.overrides if composed.cell is None else composed.cell.texts
    kinds = (config.workload_name, config.framework.name, config.profile.name)
    return named(*kinds, config.gpus, config.device, words)


def run_jobs(
    jobs: Sequence[Job],
    console: Console,
    ended: list[Ended],
    check_output: Callable[[], None],
    agents: Agents | None = None,
) -> bool:
    """Run all jobs in order; True if every run succeeded. Appends to `ended` as runs end. `check_output`: before and after each
    run, raises OSError where the folder is gone.

    Raises KeyboardInterrupt where a scheduler ends one, since it ends what would follow too.
    """
    count = sum(job.run_count for job in jobs)
    labels = sorted({label.text for job in jobs for label in job.template.labels})
    labels_text = f" ({', '.join(labels)})" if labels else ""
    runs_text = f"{count:,} run{'' if count == 1 else 's'}{labels_text}"
    console.print(escape(f"{runs_text}, logs in {relative_path(jobs[0].folder.parent)}"), soft_wrap=True)
    warned: set[str] = set()
    for job in jobs:
        for line in _preflight(job, agents):
            if line not in warned:
                _warn(console, as_typed(line))
            warned.add(line)
        for index in range(job.run_count):
            check_output()
            status, warnings = _run(job, index, console, agents)
            ended.append(Ended(job, index, status))
            check_output()
            console.print(_end_text(ended[-1]), soft_wrap=True)
            for line in warnings:
                _warn(console, line)
            if ended[-1].status.status == "interrupted":
                raise KeyboardInterrupt
    return all(_as_wanted(run) for run in ended)


def _as_wanted(run: Ended) -> bool:
    """True for a success, and in a study for a run that did not fit the memory: that is a cell of its table."""
    status = run.status.status
    return (status == "success" and not run.is_lost) or (status == "oom" and bool(run.job.template.study))


def _run(job: Job, index: int, console: Console, agents: Agents | None) -> tuple[RunStatus, list[str]]:
    """Execute one run, unless it finished in an earlier command. Return how it ended, and warnings about its result."""
    folder = job.folder / f"run_{index}"
    if folder.exists():
        earlier = finished_status(folder, job.run(index, cache_cleared=False))
        if earlier:
            restore_status(folder, job.run(index, cache_cleared=False), earlier)
            without_weights = job.template.checkpoint_final and not (folder / WEIGHTS).is_file()
            lost = "; it was ended before its weights.npz was written" if without_weights else ""
            console.print(escape(f"{job.name}/run_{index}"), soft_wrap=True)
            return RunStatus(earlier, f"finished earlier{lost}"), []
        kept = relative_path(set_aside(folder))
        console.print(escape(f"unfinished attempt kept in {kept}"), soft_wrap=True)
    if agents is not None:
        agents.ready()
    goes_on = going_on(job.run(index, cache_cleared=False), folder, lambda line: _warn(console, line))
    if goes_on is not None:
        (run, checkpoint), states = goes_on, None
    else:
        is_cleared, states = _cleared(job, console, agents)
        run, checkpoint = job.run(index, is_cleared), None
    if checkpoint is not None:
        console.print(escape(f"resumed from {relative_path(checkpoint)}"), soft_wrap=True)
    with Progress(run, f"{job.name}/run_{index}", console) as progress:
        links = agents.links if agents is not None else {}
        reasons = functools.partial(_open_reasons, states)
        supervisor = Supervisor(run, job.framework, job.environment, progress, links, checkpoint, reasons)
        status = supervisor.run()
    warnings = [f"division open: {reason}" for reason in supervisor.open_reasons]
    if supervisor.busy:
        warnings.append(f"busy machine: {', '.join(supervisor.busy)}")
    return status, warnings


def _cleared(job: Job, console: Console, agents: Agents | None) -> tuple[bool, caches.DataStates | None]:
    """Clear the caches before a run that begins.

    Returns whether they are cleared, and the states of the data set's files. None on several machines, where the data are
    compared after the clearing only.
    """
    settings = job.template.settings
    states = None
    if agents is not None:
        cleared, lines = agents.clear(job)
    else:
        cleared, line, states = caches.clear_and_watch(job.system, settings.dataset, settings.data_dir)
        lines = [line] if line else []
    for line in lines:
        _warn(console, line)
    return cleared, states


def _open_reasons(states: caches.DataStates | None) -> list[Deviation]:
    """Return the reasons for division open that are known only when a run has ended."""
    changed = states.find_change() if states is not None else ""
    sentence = f"the data set changed during the run: {changed}"
    return [Deviation(DeviationCode.DATA_CHANGED, detail=sentence)] if changed else []


def _warn(console: Console, line: str) -> None:
    console.print(f"[yellow]warning[/]: {escape(line)}", soft_wrap=True)


def _end_text(run: Ended) -> str:
    """Return the line below a run's rows: how it ended and, unless it succeeded, why and the file to read."""
    status, reason = run.status.status, run.status.reason
    if status == "success" and not run.is_lost:
        is_reached = run.job.template.settings.stop == "target"
        return f"[green]{reason or ('target reached' if is_reached else 'finished')}[/]"
    text = f"{status}: {reason}" if reason else status
    if run.is_lost:
        text = f"{text}, but its log was deleted"
    return f"[red]{escape(text)}[/]  {escape(relative_path(_file_to_read(run)))}"


def _file_to_read(run: Ended) -> Path:
    """Return the file that says most about how a run ended: its log, or the traceback of the process that failed."""
    folder = run.log.parent
    if run.status.status in ("failed", "oom") and run.status.process is not None:
        text_log = folder / f"worker-{run.status.process}.log"
        if text_log.is_file() and text_log.stat().st_size:
            return text_log
    return run.log if run.log.exists() else folder


def print_summary(ended: Sequence[Ended], console: Console, code: int) -> int:
    """The exit code after the summary of these runs, which stand whatever becomes of it: then one line says how to get it."""
    command = f"suite report {shlex.quote(relative_path(ended[0].job.folder.parent))}"
    try:
        summarise(ended, console)
    except KeyboardInterrupt:
        text = as_typed(f"interrupted after the runs, which are kept; for their report, run: {command}")
        console.print(escape(text), soft_wrap=True)
        return 130
    except (ValueError, OSError) as error:
        there = all(run.job.folder.is_dir() for run in ended)
        kept = f"the runs are kept; for their report, run: {command}" if there else "their folder has been deleted"
        text = as_typed(f"no report: {one_line(error)}; {kept}")
        print(clean_lines(f"{program()}: {text}"), file=sys.stderr)
    return code


def summarise(ended: Sequence[Ended], console: Console) -> None:
    """Print the report of these runs, and below it, also if there is no report, their folder and the command for the page."""
    try:
        from suite.results.render.document import markdown
        from suite.results.table import read_runs
        from suite.results.views.report import report, with_single_title

        folders = list(dict.fromkeys(run.job.folder for run in ended))
        console.print()
        view = with_single_title(report(read_runs(folders), next_steps=False))
        console.print(markdown(view), soft_wrap=True, markup=False)
    finally:
        with signals_held():
            for run in ended:
                if run.is_lost:
                    name = f"{run.job.name}/run_{run.index}"
                    console.print(f"{name}: its log was deleted during the command", soft_wrap=True, markup=False)
            folder = relative_path(ended[0].job.folder.parent)
            console.print(f"Logs  {folder}", soft_wrap=True, markup=False)
            if any(run.status.status == "success" for run in ended):
                command = as_typed(f"suite report {shlex.quote(folder)} --html report.html")
                console.print(f"Next  {command}", soft_wrap=True, markup=False)
