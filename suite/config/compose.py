"""Runs Hydra once, in the controller: command line to a list of composed configurations, one per job of a sweep."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from suite import __version__
from suite.common import registry
from suite.common.study import Cell
from suite.common.typed import as_typed
from suite.config import overrides, studies
from suite.config.help import help_text
from suite.config.options import SuiteConfig
from suite.config.overrides import CONF
from suite.config.sweeps import default_gpus, divides, left_out
from suite.environments.plugins import Plugin, activate
from workloads.api import OPTION_GROUPS, option_keys, untyped


@dataclass(frozen=True)
class Composed:
    """One job as Hydra composed it."""

    config: dict[str, Any]
    overrides: tuple[str, ...]
    """What the command line set, `key=value` each."""
    cell: Cell | None = None
    """Which cell of a study it is; None outside of studies."""


@dataclass(frozen=True)
class Request:
    """Everything that one command line asks for."""

    jobs: tuple[Composed, ...]
    sweep: bool
    plugins: tuple[Plugin, ...] = ()
    notes: tuple[str, ...] = ()
    """What acts without having been typed, in one line each."""


class _Flags(argparse.ArgumentParser):
    """Hydra's flags, which this module must tell from overrides; Hydra itself obeys them.

    Its `--experimental-rerun` is left out: it unpickles a file.
    """

    def __init__(self) -> None:
        super().__init__(add_help=False)
        self.add_argument("overrides", nargs="*")
        switches = (
            ("--multirun", "-m"),
            ("--run", "-r"),
            ("--resolve",),
            ("--help", "-h"),
            ("--hydra-help",),
            ("--version",),
        )
        for names in (*switches, ("--shell-completion", "-sc")):
            self.add_argument(*names, action="store_true")
        for names in (("--package", "-p"), ("--config-dir", "-cd"), ("--config-path", "-cp"), ("--config-name", "-cn")):
            self.add_argument(*names)
        self.add_argument("--cfg", "-c", choices=("job", "hydra", "all"))
        topics = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
        self.add_argument("--info", "-i", nargs="?", const="all", choices=topics)

    def error(self, message: str) -> NoReturn:
        """Raises ValueError, where argparse would print its usage and exit."""
        raise ValueError(f"{message}; type --help for what can be set, --hydra-help for Hydra's flags")


def compose(arguments: Sequence[str]) -> Request:
    """Check and compose. Raises ValueError with one line. Hydra's own flags (`--cfg job`, `--help`) print and give no jobs."""
    try:
        return _compose(arguments)
    except (HydraException, OmegaConfBaseException) as error:
        raise ValueError(" ".join(str(error).split())) from None


def _compose(arguments: Sequence[str]) -> Request:
    overrides.check_form(arguments)
    arguments = [overrides.quoted(argument) for argument in _overrides_first(arguments)]
    flags = _Flags().parse_args(arguments)
    plugin_names = _plugins(flags.overrides)
    plugins = activate(plugin_names)
    if flags.help:
        print(as_typed(help_text(overrides.words(flags.overrides))))
        return Request((), False)
    if flags.version:
        print(f"suite {__version__} (Hydra {hydra.__version__})")
        return Request((), False)
    if studies.named(flags.overrides):
        return _study(flags.overrides, [text for text in arguments if text not in flags.overrides], plugins)
    if not (flags.hydra_help or flags.info or flags.shell_completion):
        overrides.check(flags.overrides, multirun=flags.multirun)
    added, note = default_gpus(overrides.words(flags.overrides)) if flags.multirun else ("", "")
    arguments = [*([added] if added else []), *arguments]
    _store(overrides.chosen_workloads(flags.overrides))
    flagged = len(arguments) > len(flags.overrides)
    of_hydra = any(text.lstrip("+~").startswith("hydra") for text in arguments)  # such as hydra.mode
    jobs = _as_hydra_does(arguments) if flagged or of_hydra else [_one_job(arguments)]
    if any(_texts(job.config["plugins"]) != plugin_names for job in jobs):
        raise ValueError(
            "plugins: set in a file that is read too late; type plugins=[…] here or set it in conf/config.yaml"
        )
    notes = [note]
    if flags.multirun:
        notes.append(left_out([job.config for job in jobs]) if jobs else "")
        jobs = [job for job in jobs if divides(job.config)]
    return Request(tuple(jobs), bool(flags.multirun), plugins, tuple(note for note in notes if note))


def _study(typed: Sequence[str], flags: Sequence[str], plugins: tuple[Plugin, ...]) -> Request:
    """The jobs of a study. `-m` changes nothing; other flags of Hydra print the settings of each job."""
    printing = [flag for flag in flags if flag not in ("-m", "--multirun")]
    jobs: list[Composed] = []
    for one in studies.cells(typed):
        words = list(one.words)
        overrides.check(words, multirun=False)
        _store(overrides.chosen_workloads(words))
        if printing:
            _as_hydra_does([*words, *printing])
        else:
            jobs.append(dataclasses.replace(_one_job(words), cell=one.cell))
    return Request(tuple(jobs), len(jobs) > 1, plugins)


def _one_job(arguments: list[str]) -> Composed:
    """What `_as_hydra_does` gives without a flag, in a third of the time: Hydra's own start composes all of it twice."""
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        config = hydra.compose("config", arguments, return_hydra_config=True)
    HydraConfig.instance().set_config(config)  # what `${hydra:…}` in a file stands for
    with open_dict(config):
        del config["hydra"]
    return _job(config)


def _as_hydra_does(arguments: list[str]) -> list[Composed]:
    """The jobs of a sweep, or none where Hydra's flags print something."""
    jobs: list[Composed] = []

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    def collect(config: DictConfig) -> None:
        jobs.append(_job(config))

    given = sys.argv
    with tempfile.TemporaryDirectory(
        prefix="suite-"
    ) as scratch:  # Hydra leaves a multirun.yaml: run.json says it better
        sys.argv = [given[0], f"hydra.run.dir='{scratch}'", f"hydra.sweep.dir='{scratch}'", *arguments]
        try:
            collect()
        finally:
            sys.argv = given
    return jobs


def _job(config: DictConfig) -> Composed:
    plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(plain, dict)
    return Composed(plain, tuple(HydraConfig.get().overrides.task))  # type: ignore[arg-type]


def _plugins(arguments: Sequence[str]) -> list[str]:
    """What `plugins=` says, else conf/config.yaml: needed before names can be checked and Hydra composes."""
    typed = [text for text in arguments if text.startswith("plugins=")]
    if typed:
        return _texts(overrides.only_value(typed[-1]))
    in_file = OmegaConf.to_container(OmegaConf.load(CONF / "config.yaml"))
    assert isinstance(in_file, dict)
    return _texts(in_file.get("plugins"))


def _texts(value: object) -> list[str]:
    """A text, a list of texts, or nothing, as a list."""
    values = value if isinstance(value, list) else [] if value in (None, "") else [value]
    return [str(getattr(item, "text", item)) for item in values]


def _default_options(workload: str) -> dict[str, Any]:
    """`workload.*` where nothing is typed."""
    kind = registry.load_workload(workload).Options
    of_group = {item.name for key, item in option_keys(kind).items() if key == f"workload.{item.name}"}
    return {**{name: value for name, value in untyped(kind).items() if name in of_group}, "name": workload}


def _overrides_first(arguments: Sequence[str]) -> list[str]:
    """Flags may stand anywhere among the overrides: argparse wants the overrides in one piece."""
    flags = [argument for argument in arguments if "=" not in argument or argument.startswith("-")]
    return [argument for argument in arguments if argument not in flags] + flags


def _schema(workloads: Sequence[str]) -> DictConfig:
    """SuiteConfig with the keys that options of these workloads have outside `workload`.

    Null in a sweep over several workloads: the default of each.
    """
    schema: DictConfig = OmegaConf.structured(SuiteConfig)
    for workload in workloads:
        for key, item in option_keys(registry.load_workload(workload).Options).items():
            if key.partition(".")[0] in OPTION_GROUPS:
                default = item.default if len(workloads) == 1 else None  # of several, not all may have it
                OmegaConf.update(schema, key, default, force_add=True)
    return schema


def _store(workloads: Sequence[str]) -> None:
    """Tell Hydra the schema, the workloads, and the frameworks of installed packages that have no file below conf/."""
    store = ConfigStore.instance()
    store.store(name="suite_config", node=_schema(workloads))
    for name in overrides.group_choices("workload"):
        if not (CONF / "workload" / f"{name}.yaml").exists():
            store.store(group="workload", name=name, node=_default_options(name))
    for name in registry.names(registry.FRAMEWORKS):
        if not (CONF / "framework" / f"{name}.yaml").exists():
            store.store(group="framework", name=name, node={"name": name})
