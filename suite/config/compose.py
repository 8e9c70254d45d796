"""Compose the configurations of the jobs that a command line starts.

The module checks overrides, reads files with Hydra, and expands sweeps and studies.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import hydra
from hydra.errors import HydraException
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from suite import __version__
from suite.common import registry
from suite.common.command_text import localize_commands
from suite.common.run_config import RunConfig
from suite.common.study_file import StudyCell
from suite.common.terminal import clean_lines
from suite.config import overrides, studies
from suite.config.command_line import Flags, as_texts, parse_flags, plugins_of, search_folders
from suite.config.composer import Composer, print_by_hydra
from suite.config.help import help_text
from suite.config.key_suggestions import group_choices, meant, suite_keys
from suite.config.sweeps import default_gpus, divides, left_out

if TYPE_CHECKING:
    from suite.environments.plugins import Plugin


@dataclass(frozen=True)
class Composed:
    """The composed configuration of one job."""

    config: RunConfig
    all_overrides: tuple[str, ...]
    """Command-line overrides as `key=value`, including the override that sets the user's
    folders.
    """
    cell: StudyCell | None = None
    """Cell of a study, or None if the job does not belong to a study."""

    @property
    def overrides(self) -> tuple[str, ...]:
        """Return `all_overrides` without overrides of Hydra's settings."""
        return tuple(text for text in self.all_overrides if not text.startswith("hydra."))


@dataclass(frozen=True)
class Request:
    """The jobs, plugins, and notes that result from a command line."""

    jobs: tuple[Composed, ...]
    plugins: tuple[Plugin, ...] = ()
    notes: tuple[str, ...] = ()
    """Notes for the user about defaults that the command uses. Each note is a sentence."""
    arguments: tuple[str, ...] = ()
    """Arguments of the command line, including the overrides of the default sweep.

    The commands that resume or submit the jobs are built from these arguments.
    """
    shown: str | None = None
    """Key or group of settings that `--cfg job` prints.

    An empty string means all settings. None means that the jobs are run and no settings are
    printed.
    """


def compose(arguments: Sequence[str]) -> Request:
    """Compose the jobs of a command line.

    For a flag such as `--help`, the function prints the requested text and returns no jobs.

    Args:
        arguments: Arguments of the command line: flags and overrides.

    Raises:
        ValueError: An override, a flag, or a file is invalid. The error message is a single line.
    """
    try:
        return _compose(arguments)
    except (HydraException, OmegaConfBaseException) as error:
        raise ValueError(_in_one_line(error)) from None


def _in_one_line(error: Exception) -> str:
    """Format an error message of Hydra as a single line.

    If a user's file contains an unknown key, Hydra's message is replaced by a message of the suite.
    """
    reason = error.__cause__ or error.__context__
    key = reason.full_key if isinstance(reason, ConfigKeyError) else None
    if key is None:
        return " ".join(str(error).split())
    file = re.match(r"In ('[^']*': )", str(error))
    return f"{file[1] if file else ''}{key}: unknown key{meant(key, '…', suite_keys())}"


def _compose(arguments: Sequence[str]) -> Request:
    overrides.check_form(arguments)
    assignments = [text for text in arguments if "=" in text and not text.startswith("-")]
    flags = parse_flags([text for text in arguments if text not in assignments])
    expanded = itertools.chain.from_iterable(
        map(overrides.sweeper_params, [*assignments, *flags.overrides])
    )
    override_list = [overrides.in_full(text) for text in expanded]
    override_list = search_folders(override_list, flags.config_dir) + (
        ["dry_run=true"] if flags.dry_run else []
    )
    override_list = [overrides.experiment_or_study(text) for text in override_list]
    if flags.version:
        print(f"suite {__version__} (Hydra {hydra.__version__})")
        return Request(())
    overrides.check_values(assignments)
    overrides.check_count(overrides.counts(override_list), override_list)
    plugin_names = plugins_of(override_list)
    plugins = _activate(plugin_names, override_list)
    if flags.help:
        print(clean_lines(localize_commands(help_text(dict(_swept(override_list))))))
        return Request(())
    composer, added, notes = Composer(), list[str](), list[str]()
    if flags.by_hydra:
        print_by_hydra(
            flags.by_hydra, override_list, _workloads_to_print(override_list, flags, composer)
        )
        return Request(())
    if studies.named(override_list):
        jobs = [
            dataclasses.replace(
                _job(list(study_cell.overrides), plugin_names, composer), cell=study_cell.cell
            )
            for study_cell in studies.cells(override_list)
        ]
    elif flags.multirun:
        added, jobs, notes = _sweep(override_list, plugin_names, composer)
    else:
        jobs = [_job(override_list, plugin_names, composer)]
    shown = (flags.package or "") if flags.cfg else None
    return Request(tuple(jobs), plugins, tuple(notes), (*arguments, *added), shown)


def _activate(plugin_names: Sequence[str], override_list: Sequence[str]) -> tuple[Plugin, ...]:
    """Make the plugins importable.

    The module that installs plugins is only imported if `plugin_names` is not empty.
    """
    if not plugin_names:
        return ()
    from suite.environments.plugins import activate

    return activate(plugin_names, installs=not _is_dry(override_list))


def _is_dry(override_list: Sequence[str]) -> bool:
    """Check whether the last `dry_run=` override enables a dry run."""
    values = [
        text.partition("=")[2].lower() for text in override_list if text.startswith("dry_run=")
    ]
    return bool(values) and values[-1] != "false"


def _workloads_to_print(
    override_list: Sequence[str], flags: Flags, composer: Composer
) -> list[str]:
    """Return the workloads whose schema Hydra needs for printing.

    The list is empty if Hydra prints its help.
    """
    needed = [
        text
        for text in flags.by_hydra
        if text not in ("--hydra-help", "--info", "plugins", "searchpath")
    ]
    return (
        _prepare(override_list, flags.multirun, composer)
        if needed or "workload" in dict(_swept(override_list))
        else []
    )


def _sweep(
    override_list: list[str], plugin_names: list[str], composer: Composer
) -> tuple[list[str], list[Composed], list[str]]:
    """Expand a sweep to jobs.

    Returns:
        The overrides that a default sweep adds, a job for each combination of the swept values, and
        notes for the user. In the order of the jobs, the values of the last key change fastest.
    """
    workloads = _prepare(override_list, True, composer)
    first = [f"{key}={values[0]}" for key, values in _swept(override_list)]
    override_list = [*_sweeper_params(override_list, first, workloads, composer), *override_list]
    swept = _gpus_first(_swept(override_list))
    config = composer.compose([f"{key}={values[0]}" for key, values in swept], workloads)
    added, note = default_gpus(dict(swept), RunConfig.from_mapping(config))
    swept = _gpus_first([*_swept(added), *swept])
    grid = map(
        list, itertools.product(*([f"{key}={value}" for value in values] for key, values in swept))
    )
    jobs = [_job(combination, plugin_names, composer, workloads) for combination in grid]
    notes = [note, left_out([job.config for job in jobs])]
    return added, [job for job in jobs if divides(job.config)], [line for line in notes if line]


def _sweeper_params(
    override_list: Sequence[str], first: Sequence[str], workloads: list[str], composer: Composer
) -> list[str]:
    """Return the axes of a sweep from `hydra.sweeper.params` in the configuration files.

    Keys that are set on the command line are excluded.
    """
    set_keys = {text.partition("=")[0] for text in override_list}
    params = composer.sweep_params(first, workloads)
    axes = [overrides.in_full(f"{key}={values}") for key, values in params.items()]
    added = [word for word in axes if word.partition("=")[0] not in set_keys]
    overrides.check(added, workloads, True)
    overrides.check_count(overrides.counts([*override_list, *added]), [*override_list, *added])
    return added


def _swept(override_list: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return each swept key with its values as strings, in the order of the command line."""
    return [(text.partition("=")[0], overrides.texts(text)) for text in override_list]


def _gpus_first(swept: Sequence[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Move `gpus` to the front of the axes, so that the number of devices changes slowest."""
    return sorted(swept, key=lambda pair: pair[0] != "gpus")


def _prepare(override_list: Sequence[str], multirun: bool, composer: Composer) -> list[str]:
    """Check the overrides, and return the names of the command's workloads.

    Raises:
        ValueError: An override is invalid, or no workload is set. The error message is a single
            line.
    """
    chosen = [
        text
        for text in override_list
        if text.partition("=")[0] in ("workload", "experiment", "hydra.searchpath")
    ]
    values_by_key = dict(_swept(chosen))
    workloads = values_by_key.get("workload", [])
    if not workloads and "experiment" not in values_by_key:
        for key in (text.partition("=")[0] for text in override_list):
            overrides.check_root(key)
        raise ValueError(
            f"no workload given (allowed: {', '.join(group_choices('workload'))}). Set"
            " workload=NAME, for example: python run_suite.py workload=ncf profile=demo"
        )
    overrides.check(chosen, (), multirun)
    available = registry.names(registry.WORKLOADS)
    # If this condition is true, the workload is set in a user's file.
    if not workloads or not set(workloads) <= set(available):
        grid = itertools.product(
            *([f"{key}={value}" for value in values] for key, values in _swept(chosen))
        )
        names = [
            str(composer.compose(combination, available)["workload"]["name"])
            for combination in grid
        ]
        workloads = list(dict.fromkeys(names))
    overrides.check(override_list, workloads, multirun)
    return workloads


def _job(
    override_list: list[str],
    plugin_names: list[str],
    composer: Composer,
    workloads: Sequence[str] = (),
) -> Composed:
    """Compose the configuration of a job.

    Raises:
        ValueError: A value on the command line or in a file is not allowed.
    """
    workloads = workloads or _prepare(override_list, False, composer)
    plain = composer.compose(override_list, workloads)
    composer.configure_logging(override_list, workloads)
    config = RunConfig.from_mapping(plain)
    if config.sweep.limit != overrides.limit(override_list):
        raise ValueError(
            "sweep.limit: the key is set in a file, which is read too late. Set sweep.limit=N on"
            " the command line"
        )
    if as_texts(config.plugins) != plugin_names:
        raise ValueError(
            "plugins: the key is set in a file that is read too late. "
            "Set plugins=[…] on the command line or in conf/config.yaml"
        )
    name = config.workload_name
    registry.load_workload(name)
    for key, value in _leaves(plain):
        if value is not None and not key.endswith(".name"):
            overrides.check_key(key, value, [name])
    return Composed(config, tuple(override_list))


def _leaves(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each key with its full name, such as `cpu.cores_per_device`, and its value."""
    for name, value in config.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and key != "environment.path_map":
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value
