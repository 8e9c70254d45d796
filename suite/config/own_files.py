"""The files that Hydra composes from, looked at before it parses them: most are the user's own."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

from hydra._internal.core_plugins import file_config_source
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from suite.common import conf
from workloads.api.yaml_files import parse_yaml, read_text

DEEPEST = 10
"""Files that take in one another."""
_TAKEN_IN = re.compile(r"(?:optional +)?(/?)([^@ ]+)(?:@.*)?")
"""`/system`, `optional db@there` of a defaults list: from the top or not, and the group; not `override /system`."""


class FileConfigSource(file_config_source.FileConfigSource):
    """Hydra's, of the same name, by which it knows that its own has a substitute."""

    def load_config(self, config_path: str) -> ConfigResult:
        """A file's content. Raises ValueError, in one line, for what is no YAML, no mapping, or leads back to itself."""
        path = Path(self.path, self._normalize_file_name(config_path)).resolve()
        text = read_text(path)
        content = parse_yaml(text, path)
        if not isinstance(content, dict | None):
            raise ValueError(f"{path}: lines of the form KEY: VALUE are needed")
        if Path(self.path) != conf.CONF:
            _refuse_circles(config_path.removesuffix(".yaml"), path, content, ())
        try:
            header, config = self._get_header_dict(text[:512]), OmegaConf.load(io.StringIO(text))
        except (ValueError, OmegaConfBaseException) as error:  # `# @package a b`, `${`
            raise ValueError(f"{path}: {' '.join(str(error).split())}") from None
        return ConfigResult(config=config, path=f"{self.scheme()}://{self.path}", provider=self.provider, header=header)


def look_first() -> None:
    """From now on Hydra reads files as above."""
    Plugins.instance()  # which registers Hydra's own
    SourcesRegistry.instance().types[FileConfigSource.scheme()] = FileConfigSource


def _refuse_circles(name: str, path: Path, content: object, above: tuple[str, ...]) -> None:
    """Raise ValueError if the defaults of the file `name`, `group/choice`, lead to one of those `above`, which lead to it."""
    chain = (*above, name)
    for below in _taken_in(name, path, content):
        group, _, choice = below.rpartition("/")
        found = conf.files(group).get(choice)
        if found is None:
            continue
        if below in chain:
            raise ValueError(f"{found}: its defaults lead back to it: {' > '.join([*chain, below])}; leave one out")
        if len(chain) == DEEPEST:
            raise ValueError(f"{found}: {DEEPEST} files take in one another before this one; leave some out")
        _refuse_circles(below, found, parse_yaml(read_text(found), found), chain)


def _taken_in(name: str, path: Path, content: object) -> Iterator[str]:
    """`group/choice` of every file that a file takes in. Raises ValueError unless its defaults are `NAME` or
    `GROUP: NAME` each, with a name, a list of names, or null."""
    own_group = name.rpartition("/")[0]
    entries = content.get("defaults", []) if isinstance(content, dict) else []
    for entry in entries if isinstance(entries, list) else [{}]:
        key, chosen = next(iter(entry.items()), (0, None)) if isinstance(entry, dict) else (None, [entry])
        choices = chosen if isinstance(chosen, list) else [chosen]
        many = isinstance(entry, dict) and len(entry) > 1
        if many or not isinstance(key, str | None) or not all(isinstance(one, str | None) for one in choices):
            raise ValueError(f"{path}: defaults: a list of NAME or GROUP: NAME is needed")
        form = _TAKEN_IN.fullmatch(str(key if key is not None else entry))
        for choice in choices:
            if form is not None and choice is not None and choice != "_self_":
                below = form[2] if key is None else f"{form[2]}/{choice}"
                yield (below if form[1] or not own_group else f"{own_group}/{below}").removesuffix(".yaml")
