"""Read hyperparameter sets from `hyperparameters/WORKLOAD/NAME.yaml` files.

The files are in `conf/` or in a user's folder. An example:

    sentence: NVIDIA's closed entry of v0.7 for a DGX-1
    # Source of every value without a source:
    source: "published: NVIDIA v0.7, config_DGX1.sh and logs"
    # Set that defines all other values, with their sources:
    based_on: nvidia_v0.6_dgx1
    learning_rate: 7.4
    lr_scaling: {value: none, source: "presumed: tuned for this batch"}
    # Value of based_on with a different source:
    weight_decay: {source: "published: …"}

The keys are `global_batch_size`, `lr_scaling`, and the hyperparameters of the workload's `Options`.
`based_on_source` replaces the sources of all values that are inherited from the `based_on` set.
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
    allowed_text,
    check_value,
    hyperparameter,
    hyperparameter_fields,
    kind_of,
)

_ROOT = Path(__file__).resolve().parents[2]
_IN_WHEEL = _ROOT / "suite" / "shipped" / "conf"
SHIPPED = _IN_WHEEL if _IN_WHEEL.is_dir() else _ROOT / "conf"
"""Folder of the configuration files that the suite ships. In a wheel, the folder is a copy that
setup.py makes.
"""
_user_folders: list[Path] = []
_TEXT_KEYS = ("sentence", "source", "based_on", "based_on_source")


def search(folders: Iterable[Path]) -> None:
    """Set the user's folders that are searched for hyperparameter sets and rounds.

    A run that uses a set or a round from a user's folder is in the open division.
    """
    _user_folders[:] = dict.fromkeys(
        folder.resolve() for folder in folders if folder.resolve() != SHIPPED
    )


def folders() -> tuple[Path, ...]:
    """Return the folders that are searched for hyperparameter sets and rounds.

    The suite's configuration folder comes first, followed by the user's folders.
    """
    return (SHIPPED, *_user_folders)


def named_sets(workload: type[Workload]) -> SetFiles:
    """Return the hyperparameter sets of a workload by name.

    The file of a hyperparameter set is read only when the set is accessed.

    Raises:
        ValueError: Two sets have the same name.
    """
    return SetFiles(workload.name, workload.Options, workload.hyperparameter_sets())


class HyperparameterSet(dict[str, Hyperparameter]):
    """Hyperparameter set: maps the name of each hyperparameter to its value and source."""

    def __init__(self, by_name: Mapping[str, Hyperparameter], sentence: str = "") -> None:
        super().__init__(by_name)
        self.sentence = sentence
        """Description of the hyperparameter set for users."""

    @property
    def plain(self) -> dict[str, Json]:
        """Return the hyperparameters by name, without `global_batch_size` and `lr_scaling`.

        `global_batch_size` and `lr_scaling` are excluded because they are settings of the run.
        """
        return {
            name: item.value
            for name, item in self.items()
            if name not in hyperparameter_fields(_EverySet)
        }


@dataclass(frozen=True)
class _EverySet:
    """Hyperparameters that the sets of all workloads contain."""

    global_batch_size: int = hyperparameter("global batch size", minimum=1)
    lr_scaling: str = hyperparameter(
        "learning rate with another batch", choices=("none", "linear", "sqrt")
    )


class SetFiles(Mapping[str, HyperparameterSet]):
    """Hyperparameter sets of a workload by name. A file is read when its set is accessed.

    Access to a set raises ValueError if the set's file is invalid. The message is a single line
    with the file and the key.
    """

    def __init__(
        self, workload: str, options: type, code_sets: Mapping[str, Mapping[str, Hyperparameter]]
    ) -> None:
        """Find the files of a workload's hyperparameter sets.

        `code_sets` are additional sets that are defined in code.
        """
        self._code_sets, self._files, self._reading = (
            code_sets,
            dict[str, tuple[Path, bool]](),
            list[str](),
        )
        self._read_before: dict[str, HyperparameterSet] = {}
        self._fields = hyperparameter_fields(_EverySet) | hyperparameter_fields(options)
        for folder in folders():
            for path in sorted((folder / "hyperparameters" / workload).glob("*.yaml")):
                if path.stem in self:
                    existing = self._files.get(path.stem, ("the workload's code",))[0]
                    raise ValueError(
                        f"{path}: {workload} has a set {path.stem} already ({existing}). Rename the"
                        " file"
                    )
                self._files[path.stem] = path, folder != SHIPPED

    def __contains__(self, name: object) -> bool:
        return name in self._files or name in self._code_sets

    def __iter__(self) -> Iterator[str]:
        return iter([*self._code_sets, *self._files])

    def __len__(self) -> int:
        return len(self._code_sets) + len(self._files)

    def __getitem__(self, name: str) -> HyperparameterSet:
        if name in self._code_sets:
            return HyperparameterSet(self._code_sets[name])
        if name in self._read_before:
            return self._read_before[name]
        path, is_user_defined = self._files[name]
        if name in self._reading:
            raise ValueError(
                f"{path}: based_on={name}: {' > '.join([*self._reading, name])} is a cycle"
            )
        self._reading.append(name)
        try:
            return self._read_before.setdefault(name, self._read(path, is_user_defined))
        finally:
            self._reading.pop()

    def is_user_defined(self, name: str) -> bool:
        """Return True if the hyperparameter set comes from a user's file."""
        return self._files.get(name, (SHIPPED, False))[1]

    def _read(self, path: Path, is_user_defined: bool) -> HyperparameterSet:
        content = content_of(path)
        texts = {name: content.pop(name, None) for name in _TEXT_KEYS}
        for key, text in texts.items():
            if text is not None and not (isinstance(text, str) and text):
                raise ValueError(f"{path}: {key}: expected a non-empty string, got {text!r}")
        settings = self._base(path, texts["based_on"], texts["based_on_source"])
        source = texts["source"] or (f"user: {path.name}" if is_user_defined else None)
        for name, entry in content.items():
            if name not in self._fields:
                allowed = allowed_text((*_TEXT_KEYS, *self._fields), name)
                raise ValueError(f"{path}: {name}: unknown key, {allowed}")
            settings[name] = self._value(path, name, entry, source, settings.get(name))
        missing = [
            name
            for name, item in self._fields.items()
            if item.default is None and name not in settings
        ]
        if missing:
            raise ValueError(
                f"{path}: {missing[0]}: missing. Add it, or add based_on: NAME of a set that has it"
            )
        return HyperparameterSet(
            {name: settings[name] for name in self._fields if name in settings},
            texts["sentence"] or "",
        )

    def _base(self, path: Path, name: str | None, source: str | None) -> dict[str, Hyperparameter]:
        """Return the values of the hyperparameter set that the key `based_on` names."""
        if name is None:
            return {}
        if name not in self:
            raise ValueError(f"{path}: based_on: unknown set {name}, {allowed_text(self, name)}")
        return {
            key: replace(item, source=source or item.source) for key, item in self[name].items()
        }

    def _value(
        self,
        path: Path,
        name: str,
        entry: Json,
        source: str | None,
        based_on: Hyperparameter | None,
    ) -> Hyperparameter:
        """Return the value and source of a hyperparameter.

        The YAML content `entry` is a value or `{value: …, source: …}`.
        """
        parts = entry if isinstance(entry, dict) else {"value": entry}
        unknown = [part for part in parts if part not in ("value", "source")]
        if unknown or not parts:
            raise ValueError(
                f"{path}: {name}: expected a value or {{value: …, source: …}}, got {entry!r}"
            )
        if "value" not in parts and based_on is None:
            raise ValueError(f"{path}: {name}: the value is missing. Add value: …")
        value = parts["value"] if "value" in parts else getattr(based_on, "value", None)
        value_source = parts.get("source", source)
        if not isinstance(value_source, str):
            raise ValueError(
                f"{path}: {name}: no source. Add {{value: {value}, source: …}}, or a source for all"
                " values"
            )
        return Hyperparameter(_checked(path, name, self._fields[name], value), value_source)


def content_of(path: Path) -> dict[str, Json]:
    """Return the keys and values of a YAML file. Raise ValueError if the file is invalid."""
    try:
        content = read_yaml(path)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected lines of the form KEY: VALUE, got {str(content)[:80]}")
    return content


def _checked(path: Path, name: str, item: Field[Any], value: Json) -> Json:
    """Check the value of a hyperparameter and return the value.

    A string such as `1e-8` is converted to a number, because YAML 1.1 reads `1e-8` as a string.

    Raises:
        ValueError: The value has a wrong type or is out of range.
    """
    kind = kind_of(item)
    listed = re.match(r"tuple\[(\w+)", kind)
    if listed:
        if not isinstance(value, list):
            raise ValueError(f"{path}: {name}={value}: expected a list such as [30, 60]")
        return [_checked_item(path, name, listed[1], item.metadata, element) for element in value]
    return _checked_item(path, name, kind, item.metadata, value)


def _checked_item(
    path: Path, name: str, kind: str, metadata: Mapping[str, Any], value: Json
) -> Json:
    value = as_number(value) if kind == "float" else value
    if kind == "str" and not isinstance(value, str):
        raise ValueError(f"{path}: {name}={value}: expected a string")
    try:
        check_value(name, kind, metadata, value)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return value
