"""Hydra's part of a command: from the words of one job to its settings, and the schema that Hydra is told for it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import hydra
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from suite.common import conf, registry
from suite.common.conf import CONF
from suite.common.run_config import RunConfig
from suite.config import overrides
from suite.config.keys import GROUPS
from suite.config.own_files import look_first
from workloads.api import OPTION_GROUPS, option_keys, untyped


class Composer:
    """Composes the jobs of one command.

    Hydra takes 70 ms a job, most of it for files. Jobs that choose the same ones and set the same keys, each to a plain value,
    differ in these values alone: they are set, as Hydra sets them, in what it made of the first of such jobs.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], DictConfig] = {}

    def compose(self, words: Sequence[str], workloads: Sequence[str]) -> dict[str, Any]:
        """The configuration of the job that `words` ask for. `workloads`: of the whole command."""
        added = [f"++{text}" if text.startswith("workload.target.") else text for text in words]
        alike = (*workloads, "", *(text.partition("=")[0] if _is_plain(text) else text for text in added))
        kept = self._kept.get(alike)
        if kept is None:
            kept = self._kept[alike] = _made(added, workloads)
        else:
            ConfigLoaderImpl._apply_overrides_to_config([overrides.parse(text) for text in added if _sets(text)], kept)
        plain = OmegaConf.to_container(kept, resolve=True, throw_on_missing=True)
        assert isinstance(plain, dict)
        return {str(key): value for key, value in plain.items()}


def _sets(text: str) -> bool:
    """Whether an override sets a value, and chooses no file."""
    key = overrides.parse(text).key_or_group
    return key not in GROUPS and "/" not in key and key.partition(".")[0] != "hydra"


def _is_plain(text: str) -> bool:
    """Whether it sets a value that takes the place of another: no list, no mapping, nothing to be replaced."""
    return _sets(text) and "${" not in text and not isinstance(overrides.parse(text).value(), (list, dict))


def _made(words: Sequence[str], workloads: Sequence[str]) -> DictConfig:
    """What Hydra makes of a job, before `${…}` is replaced."""
    _store(workloads)
    look_first()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        config = hydra.compose("config", list(words))
    OmegaConf.set_struct(config, False)
    return config


def _store(workloads: Sequence[str]) -> None:
    """Tell Hydra the schema, the workloads, and the frameworks of installed packages that have no file below conf/."""
    without_file = [
        (group, name)
        for group, points in (("workload", registry.WORKLOADS), ("framework", registry.FRAMEWORKS))
        for name in sorted({*registry.names(points)} - {*conf.files(group)})
    ]
    nodes = tuple((group, name, _options(name) if group == "workload" else None) for group, name in without_file)
    _tell(tuple(_options(name) for name in workloads), nodes)


def _options(workload: str) -> type:
    return registry.load_workload(workload).Options


@functools.lru_cache(maxsize=1)  # Hydra keeps what it was told last
def _tell(kinds: tuple[type, ...], nodes: tuple[tuple[str, str, type | None], ...]) -> None:
    """Store RunConfig with the keys that these `Options` have outside `workload` (null: the default of each), and `nodes`:
    group, name, and a workload's own `Options`."""
    schema: DictConfig = OmegaConf.structured(RunConfig)
    for kind in kinds:
        for key, item in option_keys(kind).items():
            if key.partition(".")[0] in OPTION_GROUPS:
                default = item.default if len(kinds) == 1 else None  # of several, not all may have it
                OmegaConf.update(schema, key, default, force_add=True)
    store = ConfigStore.instance()
    store.store(name="suite_config", node=schema)
    for group, name, own in nodes:
        store.store(group=group, name=name, node={**_defaults(own), "name": name})


def _defaults(kind: type | None) -> dict[str, Any]:
    """`workload.*` of a workload where nothing is typed."""
    if kind is None:
        return {}
    values = untyped(kind)
    return {item.name: values[item.name] for key, item in option_keys(kind).items() if key.startswith("workload.")}
