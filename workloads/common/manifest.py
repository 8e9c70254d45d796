"""The manifest of a prepared data set: what was made from what, and the digest of every file.

    {"schema": 1, "dataset": …, "source": {"name", "bytes", "sha256"}, "options": {…}, "counts": {…}, "notes": […],
     "matches_published": true | false | null, "compared": …, "files": {name: {"bytes", "sha256", "blocks"}}, "fingerprint": …}

A folder with a manifest is a finished preparation; the manifest is always the last file to appear. `manifest_schema` has the
types of its values.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from workloads.api import Dataset, fingerprints
from workloads.common import manifest_schema
from workloads.common.data import published
from workloads.files import open_stream, printable, read_json
from workloads.held_folder import held_folder, remove_left

SCHEMA = 1
NAME = "manifest.json"
DIGESTED_BYTES = 1 << 30
"""Up to so much in all is read before every run: 0.8 to 1.4 s for 1 GiB in memory (EPYC, busy)."""
BLOCK_BYTES = 16 << 20
"""Of what is larger in all, each block's digest is recorded."""
SAMPLED_BLOCKS = 16
"""So many of them, drawn anew, are read before every run: 256 MiB."""


@dataclass(frozen=True)
class Manifest:
    """What `manifest.json` holds; `files` and `fingerprint` are filled in by `publish`."""

    dataset: str
    source: Mapping[str, Any]
    """Name, bytes and sha256 of what was prepared."""
    options: Mapping[str, Any]
    """What else decides the result."""
    counts: Mapping[str, int]
    notes: Sequence[str] = ()
    """What a reader of a result on this data must know."""
    matches_published: bool | None = None
    """Whether it is the published data set, as far as can be told; None: there is none."""
    compared: str = ""
    """What of the content, beside its counts, was found to be the published one's; empty: nothing."""
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fingerprint: str = ""
    schema: int = SCHEMA

    @property
    def notices(self) -> list[str]:
        """A line for each note, or for a fingerprint that is not verified."""
        unverified = (
            [] if self.notes else [f"{note}, so runs are open (docs/rules.md)" for note in unverified_notes(self)]
        )
        return [f"notice: {note}" for note in (*self.notes, *unverified)]

    def same_origin(self, other: Manifest) -> bool:
        """True if both come from the same bytes with the same options."""
        mine, theirs = self.source.get("sha256"), other.source.get("sha256")
        return (self.dataset, mine, dict(self.options)) == (other.dataset, theirs, dict(other.options))


def block_digests(path: Path) -> list[str]:
    """SHA-256 of each BLOCK_BYTES of a file; the last block may be shorter."""
    with open_stream(path) as file:
        return [hashlib.sha256(block).hexdigest() for block in iter(lambda: file.read(BLOCK_BYTES), b"")]


def sha256(path: Path, algorithm: str = "sha256") -> str:
    """Hex digest of a file; `algorithm`: as a publisher names it, `md5`."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with open_stream(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def notes(manifest: Manifest, is_compared: bool = True) -> tuple[str, ...]:
    """Return what a reader of a result must know; each note keeps the result open.

    A data set with a public data set's name is not known to be that one if its counts differ, if its manifest does not say so
    (the manifest of another preparation with the name changed), if an earlier version prepared it without comparing the
    content, or if its fingerprint is not verified (a manifest that says so may be written by hand).

    Args:
        is_compared: Whether preparing data of this kind records which content was compared (`Manifest.compared`).
    """
    dataset = manifest.dataset
    if manifest.notes or dataset not in published.COUNTS:
        return tuple(manifest.notes)
    looked_at = "yes" if manifest.matches_published else ""
    found = unlike(dataset, manifest.counts, looked_at, "its manifest does not say so; prepare it again")
    if manifest.matches_published and is_compared and not manifest.compared:
        found.append(f"prepared before {dataset}'s content was compared")
    return tuple(found) or unverified_notes(manifest)


def unverified_notes(manifest: Manifest) -> tuple[str, ...]:
    """Return the note of a data set with a public data set's name whose fingerprint is not known to be that data set's."""
    is_verified = fingerprints.is_verified(manifest.dataset, manifest.fingerprint)
    return () if is_verified else (fingerprints.NOT_VERIFIED,)


def unlike(dataset: str, counts: Mapping[str, int], compared: str, how: str) -> list[str]:
    """The note of a data set that is not known to be the public one whose name it has, or none.

    `compared`: what of its content is the published one's. `how`: what would tell.
    """
    if dataset not in published.COUNTS:
        return []
    if wrong := published.differences(dataset, counts):
        return [f"counts differ from the published {dataset}: {wrong}"]
    return [] if compared else [f"content not known to be the published {dataset}'s: {how}"]


def fingerprint(files: Mapping[str, Mapping[str, Any]]) -> str:
    """One digest over names, sizes and digests of all files."""
    lines = [f"{name} {entry['bytes']} {entry['sha256']}\n" for name, entry in sorted(files.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def read(folder: Path) -> Manifest | None:
    """Return the manifest in `folder`, None if there is none. Raises ValueError naming the file if it is not a manifest.

    Control characters in its text, which terminals obey, are replaced by spaces.
    """
    path = folder / NAME
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; name another one with --to")
    try:
        content = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read ({error}); remove {folder} and prepare the data again") from None
    try:
        manifest_schema.check_manifest(content, NAME)
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']}, not {SCHEMA}")
        if fingerprint(content["files"]) != content["fingerprint"]:
            raise ValueError("the fingerprint does not match the list of files")
    except ValueError as error:
        raise ValueError(f"{path}: not a manifest ({error}); remove {folder} and prepare the data again") from None
    text = {name: printable(content[name]) for name in ("dataset", "compared") if name in content}
    return Manifest(**{**content, **text, "notes": [printable(note) for note in content.get("notes", ())]})


def verify(
    folder: Path, manifest: Manifest, how: str = "", digested: Callable[[Path], bool] = lambda path: True
) -> list[str]:
    """Compare every file with the manifest, its content where `digested` says so; returns a line each.

    Raises ValueError naming the first bad file. `how`: the command that prepares the data set.
    """
    lines, again = [], f"remove {folder} and prepare the data again" + (f": {how}" if how else "")
    for name, entry in sorted(manifest.files.items()):
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path}: missing; {again}")
        check_inside(folder, name)
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise ValueError(f"{path}: {size:,} bytes instead of {entry['bytes']:,}; {again}")
        if digested(path) and sha256(path) != entry["sha256"]:
            raise ValueError(f"{path}: content differs from the manifest; {again}")
        lines.append(f"{name}: {size:,} bytes, sha256 as recorded")
    return lines


def check_inside(folder: Path, name: str) -> None:
    """Raise ValueError if a file of a manifest is, or lies behind, a link that leaves the folder."""
    target = os.path.realpath(folder / name)
    if not Path(target).is_relative_to(os.path.realpath(folder)):
        raise ValueError(f"{folder / name}: a link to {target}, outside of {folder}; put the file itself there")


def verify_sample(folder: Path, manifest: Manifest, how: str) -> None:
    """Compare SAMPLED_BLOCKS random blocks of all files with the manifest, if it has their digests. Raises ValueError."""
    blocks = [(name, at) for name, entry in manifest.files.items() for at in range(len(entry.get("blocks", ())))]
    for name, at in random.sample(blocks, min(SAMPLED_BLOCKS, len(blocks))):
        with open_stream(folder / name) as file:
            file.seek(at * BLOCK_BYTES)
            found = hashlib.sha256(file.read(BLOCK_BYTES)).hexdigest()
        if found != manifest.files[name]["blocks"][at]:
            what = f"content differs from the manifest at byte {at * BLOCK_BYTES:,}"
            raise ValueError(f"{folder / name}: {what}; remove {folder} and prepare the data again: {how}")


def _last_change(path: Path) -> int:
    """Of content or of what the system says of it: the time of writing can be set back, that of the change cannot."""
    found = path.stat()
    return max(found.st_mtime_ns, found.st_ctime_ns)


class Prepared(Dataset):
    """A data set whose prepared form has a manifest."""

    @abstractmethod
    def how(self) -> str:
        """The command that prepares this data set."""

    def already(self, destination: Path, origin: Callable[[], Manifest]) -> list[str]:
        """A line where `destination` holds this data set of the same `origin`; empty where nothing is prepared.

        Raises ValueError where something else is.
        """
        present = read(destination)
        if present is None:
            return []
        if not present.same_origin(origin()):
            raise ValueError(
                f"{destination} holds {present.dataset} prepared from {present.source.get('name')} with other content or "
                f"options; name another folder with --to, or remove it"
            )
        return [f"{self.name}: already prepared in {destination}"]

    def verify(self, destination: Path) -> list[str]:
        """Compare the prepared form with its manifest by content; see `workloads.api.Dataset`."""
        manifest = read(destination)
        if manifest is None:
            raise ValueError(f"no prepared data in {destination}; type: {self.how()}")
        if manifest.dataset != self.name:
            raise ValueError(f"{destination} holds {manifest.dataset}, not {self.name}")
        files = verify(destination, manifest, self.how())
        with suppress(OSError):  # of somebody else, or read-only: the next run compares again
            os.utime(destination / NAME)  # the newest file, as after the preparation
        lines = self.verified(destination, manifest, files)
        return [*lines, f"{self.name}: sound, fingerprint {manifest.fingerprint}", *manifest.notices]

    def verified(self, destination: Path, manifest: Manifest, files: list[str]) -> list[str]:
        """What to tell of a preparation whose `files`, a line each, are the manifest's. Raises ValueError for bad content."""
        return files

    def check(self, destination: Path) -> None:
        """By size, and by content up to DIGESTED_BYTES in all; above, what was changed after the manifest, and random blocks.

        A copy is newer than its manifest until `suite data verify` has found it whole. Without what lies in folders below: a
        generated data set's images, which are looked at when they are read.
        """
        manifest = read(destination)
        if manifest is None:
            return
        for name in manifest.files:
            check_inside(destination, name)
        manifest = replace(manifest, files={name: files for name, files in manifest.files.items() if "/" not in name})
        written = _last_change(destination / NAME)
        few = sum(entry["bytes"] for entry in manifest.files.values()) <= DIGESTED_BYTES
        verify(destination, manifest, self.how(), lambda path: few or _last_change(path) > written)
        if not few:
            verify_sample(destination, manifest, self.how())


@contextmanager
def workspace(destination: Path) -> Iterator[Path]:
    """Yield a folder for what becomes `destination`, next to it and removed at the end: nothing half done has the final name.

    What an earlier call left that was killed is removed.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with held_folder(destination.parent, _work_prefix(destination)) as held:
        folder = held / destination.name
        folder.mkdir()
        yield folder


def remove_unfinished(destination: Path) -> None:
    """Remove what killed calls left of their work on `destination`."""
    remove_left(destination.parent, _work_prefix(destination))


def _work_prefix(destination: Path) -> str:
    return f".{destination.name}."


def publish(folder: Path, destination: Path, manifest: Manifest) -> Manifest:
    """Complete the manifest with digests of the files in `folder`, and give `folder` its final name.

    A destination that exists without a manifest keeps its files and receives ours, the manifest last. If another
    process has finished the same preparation meanwhile, its result stands. Raises ValueError if that is another one, or if a
    file of one of our names, with other content, lies there.
    """
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    sizes = {name: (folder / name).stat().st_size for name in names}
    files: dict[str, dict[str, Any]] = {name: {"bytes": sizes[name], "sha256": sha256(folder / name)} for name in names}
    if sum(sizes.values()) > DIGESTED_BYTES:
        files = {name: {**entry, "blocks": block_digests(folder / name)} for name, entry in files.items()}
    complete = Manifest(**{**asdict(manifest), "files": files, "fingerprint": fingerprint(files)})
    (folder / NAME).write_text(json.dumps(asdict(complete), indent=1) + "\n", encoding="utf-8")
    folder.chmod(0o755)
    try:
        folder.rename(destination)
        return complete
    except OSError:
        if not destination.is_dir():
            raise
    present = read(destination)
    if present is not None:
        if present.fingerprint == complete.fingerprint and present.same_origin(complete):
            return present
        raise ValueError(f"{destination} holds another preparation; name another folder with --to, or remove it")
    for name in names:
        there = destination / name
        if os.path.lexists(there) and (not there.is_file() or sha256(there) != files[name]["sha256"]):
            raise ValueError(
                f"{there} is there already, with other content; name another folder with --to, or remove it"
            )
    for name in [*names, NAME]:
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder / name, destination / name)
    return complete
