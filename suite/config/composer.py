"""Compose the configuration of a job with Hydra.

The inputs are the overrides of the job and the files in conf/.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.utils import configure_log
from omegaconf import DictConfig, OmegaConf

from suite.catalog.yaml_files import read_yaml
from suite.common import conf, registry
from suite.common.conf import CONF
from suite.common.run_config import RunConfig
from suite.config import overrides
from suite.config.key_suggestions import FILE_GROUPS
from suite.config.user_files import check_files
from workloads.api import OPTION_GROUPS, default_values, option_keys


@dataclass(frozen=True)
class _Files:
    """Configuration that Hydra composed from the selected files."""

    config: DictConfig
    hydra: DictConfig
    """Hydra's internal settings."""


class Composer:
    """Composes the configurations of a command's jobs.

    A call of `hydra.compose` takes 70 ms, mostly to read files. The composer therefore calls
    `hydra.compose` only once for each selection of files. The settings of a job are then set in a
    copy of the composed configuration with `OmegaConf.update`, as in Hydra.
    """

    def __init__(self) -> None:
        self._composed: dict[tuple[str, ...], _Files] = {}

    def compose(self, override_list: Sequence[str], workloads: Sequence[str]) -> dict[str, Any]:
        """Return the configuration of a job, with interpolations resolved.

        Args:
            override_list: Overrides of the job, each with a single value.
            workloads: All workloads of the command. Their options are keys of the configuration.

        Raises:
            ValueError: A file is invalid.
            HydraException, OmegaConfBaseException: The selected files cannot be combined, or a
                value has a wrong type.
        """
        config = copy.deepcopy(self._composed_files(override_list, workloads).config)
        for text in override_list:
            override = overrides.parse(text)
            key = override.key_or_group
            if not _chooses_file(text) and key.partition(".")[0] != "hydra":
                OmegaConf.update(
                    config, key, override.value(), force_add=key.startswith("workload.target.")
                )
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        assert isinstance(plain, dict)
        return {str(key): value for key, value in plain.items()}

    def sweep_params(
        self, override_list: Sequence[str], workloads: Sequence[str]
    ) -> dict[str, str]:
        """Return `hydra.sweeper.params` from the selected files.

        The returned dictionary maps a key to the values of a sweep, such as `{"seed": "1,2"}`.
        """
        params = self._composed_files(override_list, workloads).hydra.sweeper.params
        return {str(key): str(value) for key, value in (params or {}).items()}

    def configure_logging(self, override_list: Sequence[str], workloads: Sequence[str]) -> None:
        """Show debug messages if `hydra.verbose` is set.

        `hydra.verbose` is a boolean, the name of a logger, or a list of logger names.
        """
        settings = self._composed_files(override_list, workloads).hydra
        if settings.verbose:
            configure_log(settings.hydra_logging, settings.verbose)

    def _composed_files(self, override_list: Sequence[str], workloads: Sequence[str]) -> _Files:
        """Return the configuration from the selected files, with unresolved interpolations."""
        choices = [
            text for text in override_list if _chooses_file(text) or text.startswith("hydra.")
        ]
        key = (*workloads, "", *choices)
        if key not in self._composed:
            self._composed[key] = _compose(choices, workloads)
        return self._composed[key]


def print_by_hydra(
    argv: Sequence[str], override_list: Sequence[str], workloads: Sequence[str]
) -> None:
    """Run Hydra with a flag such as `--info`, `--hydra-help`, or `--cfg hydra`.

    With such a flag, Hydra prints the requested information and exits.

    Args:
        argv: The flags.
        override_list: Overrides that select files and set values.
        workloads: Workloads of the command.
    """
    store_schema(workloads)
    main = hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(
        _never_called
    )
    needs_files = "--hydra-help" not in argv
    earlier = sys.argv
    sys.argv = [earlier[0], *argv, *(_for_hydra(text) for text in override_list if needs_files)]
    try:
        main()
    finally:
        sys.argv = earlier


def store_schema(workloads: Sequence[str]) -> None:
    """Store the schema of the configuration in Hydra.

    The schema also includes workloads and frameworks of installed packages that have no file in
    conf/.
    """
    without_file = [
        (group, name)
        for group, points in (("workload", registry.WORKLOADS), ("framework", registry.FRAMEWORKS))
        for name in sorted({*registry.names(points)} - {*conf.files(group)})
    ]
    nodes = tuple(
        (group, name, _options(name) if group == "workload" else None)
        for group, name in without_file
    )
    _store(tuple(_options(name) for name in workloads), nodes)


def _compose(override_list: Sequence[str], workloads: Sequence[str]) -> _Files:
    """Compose the configuration files with Hydra, without resolving interpolations."""
    store_schema(workloads)
    chosen = dict(text.lstrip("+").partition("=")[::2] for text in override_list)
    check_files({**_default_choices(), **chosen})
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        config = hydra.compose(
            "config", [_for_hydra(text) for text in override_list], return_hydra_config=True
        )
    OmegaConf.set_struct(config, False)
    hydra_settings = config.pop("hydra")
    return _Files(config, hydra_settings)


def _default_choices() -> dict[str, str]:
    """Return the default choice for each configuration group from conf/config.yaml."""
    entries = read_yaml(CONF / "config.yaml")["defaults"]
    return {
        group: choice
        for entry in entries
        if isinstance(entry, dict)
        for group, choice in entry.items()
    }


def _chooses_file(text: str) -> bool:
    """Check whether an override selects a file instead of setting a value."""
    key = overrides.parse(text).key_or_group
    return key in FILE_GROUPS or "/" in key


def _for_hydra(text: str) -> str:
    """Convert an override to the form that Hydra requires.

    Overrides of keys that are not in the schema get the prefix `+` or `++`.
    """
    if text.startswith("experiment="):
        return f"+{text}"
    return f"++{text}" if text.startswith("workload.target.") else text


def _never_called(config: DictConfig) -> None:
    """Serve as the main function that Hydra requires.

    Hydra never calls this function, because the flags make Hydra print information and exit.
    """
    raise AssertionError(config)


def _options(workload: str) -> type:
    return registry.load_workload(workload).Options


@functools.lru_cache(maxsize=1)  # Hydra keeps only the last stored schema
def _store(kinds: tuple[type, ...], nodes: tuple[tuple[str, str, type | None], ...]) -> None:
    """Store `nodes` and an extended RunConfig in Hydra.

    The stored RunConfig also contains the workloads' option keys that are not below `workload`.

    Args:
        kinds: `Options` classes of the command's workloads. The default of an option key is the
            workload's default for a single workload, and null for several workloads.
        nodes: Group and name of each node, and the `Options` class of a workload or None.
    """
    schema: DictConfig = OmegaConf.structured(RunConfig)
    for kind in kinds:
        for key, item in option_keys(kind).items():
            if key.partition(".")[0] in OPTION_GROUPS:
                default = item.default if len(kinds) == 1 else None
                OmegaConf.update(schema, key, default, force_add=True)
    store = ConfigStore.instance()
    store.store(name="suite_config", node=schema)
    for group, name, options in nodes:
        store.store(group=group, name=name, node={**_defaults(options), "name": name})


def _defaults(options: type | None) -> dict[str, Any]:
    """Return the default values of `workload.*` for a workload that has no file in conf/."""
    if options is None:
        return {}
    values = default_values(options)
    return {
        item.name: values[item.name]
        for key, item in option_keys(options).items()
        if key.startswith("workload.")
    }
