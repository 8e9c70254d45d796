"""Runs Hydra in the controller: command line to a list of composed configurations, one per job of a sweep."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.resources
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.errors import HydraException
from omegaconf.errors import ConfigKeyError, OmegaConfBaseException

from suite import __version__
from suite.common import conf, registry
from suite.common.conf import CONF
from suite.common.paths import expand_user
from suite.common.run_config import RunConfig
from suite.common.study import StudyCell
from suite.common.terminal import clean_lines
from suite.common.typed import as_typed
from suite.config import overrides, studies
from suite.config.composer import Composer
from suite.config.help import help_text
from suite.config.keys import group_choices, meant, suite_keys
from suite.config.sweeps import default_gpus, divides, left_out
from suite.environments.plugins import Plugin, activate
from workloads.api.yaml_files import read_yaml


@dataclass(frozen=True)
class Composed:
    """One job as Hydra composed it."""

    config: RunConfig
    typed: tuple[str, ...]
    """What the command line set, `key=value` each, and where own files are."""
    cell: StudyCell | None = None
    """Which cell of a study it is; None outside of studies."""

    @property
    def overrides(self) -> tuple[str, ...]:
        """`typed` without where own files are."""
        return tuple(text for text in self.typed if not text.startswith("hydra."))


@dataclass(frozen=True)
class Request:
    """Everything that one command line asks for."""

    jobs: tuple[Composed, ...]
    plugins: tuple[Plugin, ...] = ()
    notes: tuple[str, ...] = ()
    """What acts without having been typed, in one line each."""
    arguments: tuple[str, ...] = ()
    """The command line with the sweep that acts by default: what a resumed or submitted command is made of."""
    shown: str | None = None
    """The part of the settings that `--cfg job` is to print (empty: all) in place of running; None: they are to run."""


_LOOK = "type --cfg job for the settings, dry_run=full for all that is known of a job"
INSTEAD_OF_FLAGS = {
    "--experimental-rerun": "a run is repeated by the command that suite report prints below a row",
    **dict.fromkeys(("--config-path", "-cp", "--config-name", "-cn"), "type --config-dir DIR for files of your own"),
    **dict.fromkeys(("--info", "-i", "--hydra-help", "--resolve"), _LOOK),
}
"""Flags of Hydra's that are not offered, and what there is instead."""


def compose(arguments: Sequence[str]) -> Request:
    """Check and compose. Raises ValueError with one line. Flags that print (`--help`) print and give no jobs."""
    try:
        return _compose(arguments)
    except (HydraException, OmegaConfBaseException) as error:
        raise ValueError(_in_one_line(error)) from None


def _in_one_line(error: Exception) -> str:
    """What Hydra says; of a key of the user's own file that there is not, in our words."""
    reason = error.__cause__ or error.__context__
    key = reason.full_key if isinstance(reason, ConfigKeyError) else None
    if key is None:
        return " ".join(str(error).split())
    file = re.match(r"In ('[^']*': )", str(error))
    return f"{file[1] if file else ''}{key}: there is no such key{meant(key, '…', suite_keys())}"


def _compose(arguments: Sequence[str]) -> Request:
    overrides.check_form(arguments)
    typed = [text for text in arguments if "=" in text and not text.startswith("-")]
    flags = _flags([text for text in arguments if text not in typed])
    words = [overrides.in_full(text) for text in [*typed, *flags.overrides]]
    words = _search(words, flags.config_dir) + (["dry_run=true"] if flags.dry_run else [])
    if flags.version:
        print(f"suite {__version__} (Hydra {hydra.__version__})")
        return Request(())
    overrides.check_values(typed)
    overrides.check_count(overrides.counts(words), words)
    plugin_names = _plugins(words)
    plugins = activate(plugin_names, installs=not _is_dry(words))
    if flags.help:
        print(clean_lines(as_typed(help_text(dict(_swept(words))))))
        return Request(())
    composer, added, notes = Composer(), list[str](), list[str]()
    if studies.named(words):
        jobs = [
            dataclasses.replace(_job(list(one.words), plugin_names, composer), cell=one.cell)
            for one in studies.cells(words)
        ]
    elif flags.multirun:
        added, jobs, notes = _sweep(words, plugin_names, composer)
    else:
        jobs = [_job(words, plugin_names, composer)]
    shown = (flags.package or "") if flags.cfg else None
    return Request(tuple(jobs), plugins, tuple(notes), (*arguments, *added), shown)


def _is_dry(words: Sequence[str]) -> bool:
    """Whether `dry_run=` says so, by its last value; one of a file is read later."""
    typed = [text.partition("=")[2].lower() for text in words if text.startswith("dry_run=")]
    return bool(typed) and typed[-1] != "false"


def _flags(words: Sequence[str]) -> argparse.Namespace:
    """Of Hydra's flags those that do something here, and `--dry-run`. Raises ValueError, where argparse would print."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("overrides", nargs="*")
    for names in (("-h", "--help"), ("-V", "--version"), ("-m", "--multirun"), ("--dry-run",)):
        parser.add_argument(*names, action="store_true")
    parser.add_argument("-c", "--cfg", choices=("job",))
    parser.add_argument("-p", "--package")
    parser.add_argument("-cd", "--config-dir")

    def error(message: str) -> NoReturn:
        raise ValueError(f"{message}; type --help for what can be set")

    parser.error = error  # type: ignore[method-assign]
    for word in words:
        if instead := INSTEAD_OF_FLAGS.get(word.partition("=")[0]):
            raise ValueError(f"{word}: {instead}")
    flags = parser.parse_intermixed_args(words)
    if flags.package is not None and not flags.cfg:
        raise ValueError("--package: a part of what --cfg prints; type --cfg job with it")
    return flags


def _search(words: list[str], config_dir: str | None) -> list[str]:
    """`words` with the user's own folders as Hydra takes them, which are looked into from now on."""
    typed = [text for text in words if text.startswith("hydra.searchpath=")]
    given = [*([config_dir] if config_dir else []), *(_texts(overrides.parse(typed[-1]).value()) if typed else [])]
    folders = []
    for text in given:
        package, _, below = text.removeprefix("pkg://").partition("/")
        try:
            path = (
                Path(str(importlib.resources.files(package)), below)
                if "pkg://" in text
                else expand_user(text.removeprefix("file://"))
            )
        except ModuleNotFoundError:
            raise ValueError(f"hydra.searchpath={text}: there is no such package") from None
        folders.append(path.absolute())
    conf.search(folders)
    return [*(text for text in words if text not in typed), *conf.search_words()]


def _sweep(
    words: list[str], plugin_names: list[str], composer: Composer
) -> tuple[list[str], list[Composed], list[str]]:
    """(words that act by default, the jobs of all combinations, what is to be said). The last key is the fastest."""
    workloads = _prepare(words, True, composer)
    swept = _gpus_first(_swept(words))
    config = composer.compose([f"{key}={values[0]}" for key, values in swept], workloads)
    added, note = default_gpus(dict(swept), RunConfig.from_mapping(config))
    swept = _gpus_first([*_swept(added), *swept])
    grid = map(list, itertools.product(*([f"{key}={value}" for value in values] for key, values in swept)))
    jobs = [_job(one, plugin_names, composer, workloads) for one in grid]
    notes = [note, left_out([job.config for job in jobs])]
    return added, [job for job in jobs if divides(job.config)], [line for line in notes if line]


def _swept(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Each key with its values, as typed."""
    return [(text.partition("=")[0], overrides.texts(text)) for text in words]


def _gpus_first(swept: Sequence[tuple[str, list[str]]]) -> list[tuple[str, list[str]]]:
    """Devices are the slowest key of a grid, wherever they are typed."""
    return sorted(swept, key=lambda pair: pair[0] != "gpus")


def _prepare(words: Sequence[str], multirun: bool, composer: Composer) -> list[str]:
    """Check what was typed, and tell Hydra the schema; returns the workloads. Raises ValueError in one line."""
    chosen = [text for text in words if text.partition("=")[0] in ("workload", "hydra.searchpath")]
    workloads = dict(_swept(chosen)).get("workload", [])
    if not workloads:
        for key in (text.partition("=")[0] for text in words):
            overrides.check_root(key)
        raise ValueError(
            f"no workload given: type workload=NAME with NAME one of {', '.join(group_choices('workload'))}, "
            f"for example: python run_suite.py workload=ncf profile=demo"
        )
    overrides.check(chosen, (), multirun)
    every = registry.names(registry.WORKLOADS)
    if not set(workloads) <= set(every):  # files of the user's own
        grid = itertools.product(*([f"{key}={value}" for value in values] for key, values in _swept(chosen)))
        named = [str(composer.compose(one, every)["workload"]["name"]) for one in grid]
        workloads = list(dict.fromkeys(named))
    overrides.check(words, workloads, multirun)
    return workloads


def _job(words: list[str], plugin_names: list[str], composer: Composer, workloads: Sequence[str] = ()) -> Composed:
    """One job. Raises ValueError for a value of a file that is not allowed, as for one that is typed."""
    plain = composer.compose(words, workloads or _prepare(words, False, composer))
    config = RunConfig.from_mapping(plain)
    if config.sweep.limit != overrides.limit(words):
        raise ValueError("sweep.limit: set in a file, which is read too late; type sweep.limit=N")
    if _texts(config.plugins) != plugin_names:
        raise ValueError(
            "plugins: set in a file that is read too late; type plugins=[…] here or set it in conf/config.yaml"
        )
    name = config.workload_name
    registry.load_workload(name)
    for key, value in _leaves(plain):
        if value is not None and not key.endswith(".name"):
            overrides.check_key(key, value, [name])
    return Composed(config, tuple(words))


def _leaves(config: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """`key.below` to value, of all that are not groups; what a workload and a dictionary hold included."""
    leaves: list[tuple[str, Any]] = []
    for name, value in config.items():
        key = f"{prefix}{name}"
        below = isinstance(value, Mapping) and key not in ("environment.path_map",)
        leaves += _leaves(value, f"{key}.") if below else [(key, value)]
    return leaves


def _plugins(words: Sequence[str]) -> list[str]:
    """What `plugins=` says, else conf/config.yaml: needed before names can be checked and Hydra composes."""
    typed = [text for text in words if text.startswith("plugins=")]
    if typed:
        override = overrides.parse(typed[-1])
        if override.is_sweep_override():
            raise ValueError(
                f"{typed[-1]}: one list for the whole command; type plugins=[{typed[-1].partition('=')[2]}]"
            )
        return _texts(override.value())
    return _texts(read_yaml(CONF / "config.yaml").get("plugins"))


def _texts(value: object) -> list[str]:
    """A text, a list of texts, or nothing, as a list."""
    values = value if isinstance(value, list) else [] if value in (None, "") else [value]
    return [str(getattr(item, "text", item)) for item in values]
