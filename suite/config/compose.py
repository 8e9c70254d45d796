"""Runs Hydra once, in the controller: command line to a list of composed configurations, one per job of a sweep."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from suite.common import registry
from suite.config import overrides
from suite.config.help import help_text
from suite.config.options import SuiteConfig
from suite.config.overrides import CONF
from suite.environments.plugins import Plugin, activate
from workloads.api import OPTION_GROUPS, option_keys


@dataclass(frozen=True)
class Composed:
    """One job as Hydra composed it."""

    config: dict[str, Any]
    overrides: tuple[str, ...]
    """What the command line set, `key=value` each."""


@dataclass(frozen=True)
class Request:
    """Everything that one command line asks for."""

    jobs: tuple[Composed, ...]
    sweep: bool
    plugins: tuple[Plugin, ...] = ()


def compose(arguments: Sequence[str]) -> Request:
    """Check and compose. Raises ValueError with one line. Hydra's own flags (`--cfg job`, `--help`) print and give no jobs."""
    arguments = [overrides.quoted(argument) for argument in _overrides_first(arguments)]
    flags = get_args_parser().parse_args(list(arguments))
    wanted = _plugins(flags.overrides)
    plugins = activate(wanted)
    if flags.help:
        print(help_text())
        return Request((), False)
    if not (flags.hydra_help or flags.info or flags.shell_completion):
        overrides.check(flags.overrides, multirun=flags.multirun)
    _store(overrides.chosen_workloads(flags.overrides))
    jobs: list[Composed] = []

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
    def collect(config: DictConfig) -> None:
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        assert isinstance(plain, dict)
        jobs.append(Composed(plain, tuple(HydraConfig.get().overrides.task)))  # type: ignore[arg-type]

    given = sys.argv
    with tempfile.TemporaryDirectory(
        prefix="suite-"
    ) as scratch:  # Hydra leaves a multirun.yaml: run.json says it better
        sys.argv = [given[0], f"hydra.run.dir='{scratch}'", f"hydra.sweep.dir='{scratch}'", *arguments]
        try:
            collect()
        except HydraException as error:
            raise ValueError(" ".join(str(error).split())) from None
        finally:
            sys.argv = given
    if any(_texts(job.config["plugins"]) != wanted for job in jobs):
        raise ValueError(
            "plugins: set in a file that is read too late; type plugins=[…] here or set it in conf/config.yaml"
        )
    return Request(tuple(jobs), bool(flags.multirun), plugins)


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
    """What conf/workload/NAME.yaml would hold: the defaults of the workload's Options."""
    kind = registry.load_workload(workload).Options
    return {**dataclasses.asdict(kind()), "name": workload}


def _overrides_first(arguments: Sequence[str]) -> list[str]:
    """Flags may stand anywhere among the overrides: argparse wants the overrides in one piece."""
    flags = [argument for argument in arguments if "=" not in argument or argument.startswith("-")]
    return [argument for argument in arguments if argument not in flags] + flags


def _schema(workloads: Sequence[str]) -> DictConfig:
    """SuiteConfig with the keys that options of these workloads have outside `workload`; null: the option's own default."""
    schema: DictConfig = OmegaConf.structured(SuiteConfig)
    for workload in workloads:
        for key in option_keys(registry.load_workload(workload).Options):
            group, _, name = key.partition(".")
            if group in OPTION_GROUPS:
                OmegaConf.update(schema, f"{group}.{name}", None, force_add=True)
    return schema


def _store(workloads: Sequence[str]) -> None:
    """Tell Hydra the schema, and the workloads and frameworks of installed packages that have no file below conf/."""
    store = ConfigStore.instance()
    store.store(name="suite_config", node=_schema(workloads))
    for name in overrides.group_choices("workload"):
        if not (CONF / "workload" / f"{name}.yaml").exists():
            store.store(group="workload", name=name, node=_default_options(name))
    for name in registry.names(registry.FRAMEWORKS):
        if not (CONF / "framework" / f"{name}.yaml").exists():
            store.store(group="framework", name=name, node={"name": name})
