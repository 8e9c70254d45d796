"""Named hyperparameter sets: a YAML file each, `hyperparameters/WORKLOAD/NAME.yaml` below `conf/` or a folder of the user's.

    sentence: NVIDIA's closed entry of v0.7 for a DGX-1
    source: "published: NVIDIA v0.7, config_DGX1.sh and logs"   # of every value that names none
    based_on: nvidia_v0.6_dgx1                                  # what is not said here is as there, with its sources
    learning_rate: 7.4
    lr_scaling: {value: none, source: "presumed: tuned for this batch"}
    weight_decay: {source: "published: …"}                      # the other set's value, with a source of its own

Keys are the hyperparameters of the workload's `Options`, `global_batch_size` and `lr_scaling`. `based_on_source` is the source
of all that the other set gives, where that is not the other's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, replace
from pathlib import Path
from typing import Any

from suite.catalog.yaml_files import as_number, read_yaml
from workloads.api import (
    Hyperparameter,
    Json,
    Workload,
    check_value,
    hyperparameter,
    hyperparameter_fields,
    kind_of,
    suggestion,
)

_ROOT = Path(__file__).resolve().parents[2]
_IN_WHEEL = _ROOT / "suite" / "shipped" / "conf"
SHIPPED = _IN_WHEEL if _IN_WHEEL.is_dir() else _ROOT / "conf"
"""Folder of the shipped configuration. In a wheel it is a copy made by setup.py."""
_own: list[Path] = []
_WORDS = ("sentence", "source", "based_on", "based_on_source")


def search(folders: Iterable[Path]) -> None:
    """Add folders of the user, which are searched for sets and rounds. Runs that use these are in the open division."""
    _own[:] = dict.fromkeys(folder.resolve() for folder in folders if folder.resolve() != SHIPPED)


def folders() -> tuple[Path, ...]:
    """Return the folders that are searched for sets and rounds: the shipped folder, then those of the user."""
    return (SHIPPED, *_own)


def named_sets(workload: type[Workload]) -> SetFiles:
    """Return the sets of a workload by name. Each file is read when its set is asked for.

    Raises:
        ValueError: Two sets have the same name.
    """
    return SetFiles(workload.name, workload.Options, workload.hyperparameter_sets())


class HyperparameterSet(dict[str, Hyperparameter]):
    """Name to value and source of one set."""

    def __init__(self, by_name: Mapping[str, Hyperparameter], sentence: str = "") -> None:
        super().__init__(by_name)
        self.sentence = sentence
        """Description for users."""

    @property
    def plain(self) -> dict[str, Json]:
        """Hyperparameters by name, without the settings of the run: `global_batch_size`, `lr_scaling`."""
        return {name: item.value for name, item in self.items() if name not in hyperparameter_fields(_EverySet)}


@dataclass(frozen=True)
class _EverySet:
    """What a set of any workload gives."""

    global_batch_size: int = hyperparameter("global batch size", minimum=1)
    lr_scaling: str = hyperparameter("learning rate with another batch", choices=("none", "linear", "sqrt"))


class SetFiles(Mapping[str, HyperparameterSet]):
    """Name to set of one workload, each read when it is asked for. Raises ValueError, one line with the file and the key."""

    def __init__(self, workload: str, options: type, given: Mapping[str, Mapping[str, Hyperparameter]]) -> None:
        """`given`: sets that are not files."""
        self._given, self._files, self._reading = given, dict[str, tuple[Path, bool]](), list[str]()
        self._read_before: dict[str, HyperparameterSet] = {}
        self._fields = hyperparameter_fields(_EverySet) | hyperparameter_fields(options)
        for folder in folders():
            for path in sorted((folder / "hyperparameters" / workload).glob("*.yaml")):
                if path.stem in self:
                    other = self._files.get(path.stem, ("the workload's code",))[0]
                    raise ValueError(
                        f"{path}: {workload} has a set {path.stem} already ({other}); name the file otherwise"
                    )
                self._files[path.stem] = path, folder != SHIPPED

    def __contains__(self, name: object) -> bool:
        return name in self._files or name in self._given

    def __iter__(self) -> Iterator[str]:
        return iter([*self._given, *self._files])

    def __len__(self) -> int:
        return len(self._given) + len(self._files)

    def __getitem__(self, name: str) -> HyperparameterSet:
        if name in self._given:
            return HyperparameterSet(self._given[name])
        if name in self._read_before:
            return self._read_before[name]
        path, own = self._files[name]
        if name in self._reading:
            raise ValueError(f"{path}: based_on={name}: {' > '.join([*self._reading, name])} never ends")
        self._reading.append(name)
        try:
            return self._read_before.setdefault(name, self._read(path, own))
        finally:
            self._reading.pop()

    def is_user_defined(self, name: str) -> bool:
        """Return True if the user added the set."""
        return self._files.get(name, (SHIPPED, False))[1]

    def _read(self, path: Path, own: bool) -> HyperparameterSet:
        content = content_of(path)
        words = {name: content.pop(name, None) for name in _WORDS}
        for word, text in words.items():
            if text is not None and not (isinstance(text, str) and text):
                raise ValueError(f"{path}: {word}: a text is needed, found {text!r}")
        settings = self._base(path, words["based_on"], words["based_on_source"])
        source = words["source"] or (f"user: {path.name}" if own else None)
        for name, entry in content.items():
            if name not in self._fields:
                allowed = ", ".join((*_WORDS, *self._fields))
                raise ValueError(
                    f"{path}: {name}: there is no such key; allowed: {allowed}{suggestion(str(name), self._fields)}"
                )
            settings[name] = self._value(path, name, entry, source, settings.get(name))
        missing = [name for name, item in self._fields.items() if item.default is None and name not in settings]
        if missing:
            raise ValueError(f"{path}: {missing[0]}: missing; write it, or based_on: NAME of a set that has it")
        return HyperparameterSet(
            {name: settings[name] for name in self._fields if name in settings}, words["sentence"] or ""
        )

    def _base(self, path: Path, name: str | None, source: str | None) -> dict[str, Hyperparameter]:
        """Return the values of the set that a set is based on."""
        if name is None:
            return {}
        if name not in self:
            raise ValueError(
                f"{path}: based_on: there is no set {name}; allowed: {', '.join(self)}{suggestion(name, self)}"
            )
        return {key: replace(item, source=source or item.source) for key, item in self[name].items()}

    def _value(
        self, path: Path, name: str, entry: Json, source: str | None, based_on: Hyperparameter | None
    ) -> Hyperparameter:
        """What stands behind a key: a value, or `{value: …, source: …}`."""
        parts = entry if isinstance(entry, dict) else {"value": entry}
        unknown = [part for part in parts if part not in ("value", "source")]
        if unknown or not parts:
            raise ValueError(f"{path}: {name}: write a value, or {{value: …, source: …}}; found {entry!r}")
        if "value" not in parts and based_on is None:
            raise ValueError(f"{path}: {name}: a source without a value; add value: …")
        value = parts["value"] if "value" in parts else getattr(based_on, "value", None)
        said = parts.get("source", source)
        if not isinstance(said, str):
            raise ValueError(
                f"{path}: {name}: no source; write {{value: {value}, source: …}}, or one source for all values"
            )
        return Hyperparameter(_checked(path, name, self._fields[name], value), said)


def content_of(path: Path) -> dict[str, Json]:
    """Return the keys and values of a file. Raises ValueError if the file is invalid."""
    try:
        content = read_yaml(path)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: lines of the form KEY: VALUE are needed, found {str(content)[:80]}")
    return content


def _checked(path: Path, name: str, item: Field[Any], value: Json) -> Json:
    """The value, if its type and its range are right; `1e-8`, a text in YAML 1.1, as the number that it is meant to be."""
    kind = kind_of(item)
    listed = re.match(r"tuple\[(\w+)", kind)
    if listed:
        if not isinstance(value, list):
            raise ValueError(f"{path}: {name}={value}: a list is needed: [30, 60]")
        return [_one(path, name, listed[1], item.metadata, one) for one in value]
    return _one(path, name, kind, item.metadata, value)


def _one(path: Path, name: str, kind: str, metadata: Mapping[str, Any], value: Json) -> Json:
    value = as_number(value) if kind == "float" else value
    if kind == "str" and not isinstance(value, str):
        raise ValueError(f"{path}: {name}={value}: a text is needed")
    try:
        check_value(name, kind, metadata, value)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return value
