"""Manifest of a prepared data set: origin, options, counts, and file digests.

    {"schema": 1, "dataset": …, "source": {"name", "bytes", "sha256"}, "options": {…},
     "counts": {…}, "notes": […], "matches_published": true | false | null, "compared": …,
     "files": {name: {"bytes", "sha256", "blocks"}}, "fingerprint": …}

The manifest is always written last. A folder with a manifest is therefore completely prepared.
`manifest_schema` defines the types of the manifest's values.
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
"""Maximum total size of a data set that every run reads completely before it starts.

Reading 1 GiB from the page cache takes 0.8 to 1.4 s (measured on a busy AMD EPYC).
"""
BLOCK_BYTES = 16 << 20
"""Block size in bytes. For data sets larger than `DIGESTED_BYTES`, the manifest contains the
digest of each block of a file.
"""
SAMPLED_BLOCKS = 16
"""Number of random blocks (256 MiB in total) that every run reads before it starts, for data sets
larger than `DIGESTED_BYTES`.
"""


@dataclass(frozen=True)
class Manifest:
    """Content of `manifest.json`. `publish` sets `files` and `fingerprint`."""

    dataset: str
    source: Mapping[str, Any]
    """Name, size in bytes, and SHA-256 of the input from which the data set was prepared."""
    options: Mapping[str, Any]
    """Options of the preparation that, together with the source, determine the prepared data."""
    counts: Mapping[str, int]
    notes: Sequence[str] = ()
    """Differences from the public data set. Results on data with notes are in the open division."""
    matches_published: bool | None = None
    """True if the data match the public data set in all checks.

    The value is None if no public data set has this name.
    """
    compared: str = ""
    """Description of the content that matches the public data set, in addition to the counts.

    The string is empty if no content was compared.
    """
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    fingerprint: str = ""
    schema: int = SCHEMA

    @property
    def notices(self) -> list[str]:
        """Return one line per note.

        If the manifest has no notes and its fingerprint is not verified, the property returns a
        line about the fingerprint.
        """
        unverified = (
            []
            if self.notes
            else [
                f"{note}, so runs are open (docs/explanation/open_and_closed_division.md)"
                for note in unverified_notes(self)
            ]
        )
        return [f"notice: {note}" for note in (*self.notes, *unverified)]

    def same_origin(self, manifest: Manifest) -> bool:
        """Return whether both manifests have the same data set, source bytes, and options."""
        mine, theirs = self.source.get("sha256"), manifest.source.get("sha256")
        return (self.dataset, mine, dict(self.options)) == (
            manifest.dataset,
            theirs,
            dict(manifest.options),
        )


def block_digests(path: Path) -> list[str]:
    """Return the SHA-256 of each block of a file.

    All blocks except the last block have BLOCK_BYTES bytes.
    """
    with open_stream(path) as file:
        return [
            hashlib.sha256(block).hexdigest() for block in iter(lambda: file.read(BLOCK_BYTES), b"")
        ]


def sha256(path: Path, algorithm: str = "sha256") -> str:
    """Return the hexadecimal digest of a file.

    `algorithm` is a name for `hashlib`, such as `md5`.
    """
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with open_stream(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def notes(manifest: Manifest, is_compared: bool = True) -> tuple[str, ...]:
    """Return the reasons why results on this data are in the open division.

    Data with the name of a public data set is not accepted as the public data set in these cases:

    - The manifest has notes.
    - The counts in the manifest differ from the counts of the public data set.
    - The manifest does not set `matches_published`. An example is a renamed manifest of a different
      data set.
    - An earlier version of the suite prepared the data without comparing the content.
    - The fingerprint is not verified, because a manifest can be written by hand.

    Args:
        manifest: Manifest of the prepared data.
        is_compared: True if the preparation of this type of data records which content was compared
            (`Manifest.compared`).
    """
    dataset = manifest.dataset
    if manifest.notes or dataset not in published.COUNTS:
        return tuple(manifest.notes)
    looked_at = "yes" if manifest.matches_published else ""
    reasons = unlike(
        dataset, manifest.counts, looked_at, "its manifest does not say so; prepare it again"
    )
    if manifest.matches_published and is_compared and not manifest.compared:
        reasons.append(f"prepared before {dataset}'s content was compared")
    return tuple(reasons) or unverified_notes(manifest)


def unverified_notes(manifest: Manifest) -> tuple[str, ...]:
    """Return a note if the fingerprint is not verified for the public data set.

    `manifest.dataset` is the name of the public data set.
    """
    is_verified = fingerprints.is_verified(manifest.dataset, manifest.fingerprint)
    return () if is_verified else (fingerprints.NOT_VERIFIED,)


def unlike(dataset: str, counts: Mapping[str, int], compared: str, how: str) -> list[str]:
    """Return notes on how data may differ from the public data set with the same name.

    Args:
        dataset: Name of the data set.
        counts: Counts of the data.
        compared: Description of the content that matches the public data set. Empty if no content
            was compared.
        how: Reason why the content was not compared, or the remedy.
    """
    if dataset not in published.COUNTS:
        return []
    if wrong := published.differences(dataset, counts):
        return [f"counts differ from the published {dataset}: {wrong}"]
    return [] if compared else [f"content not known to be the published {dataset}'s: {how}"]


def fingerprint(files: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a single digest of the names, sizes, and digests of all files."""
    lines = [
        f"{name} {entry['bytes']} {entry['sha256']}\n" for name, entry in sorted(files.items())
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def read(folder: Path) -> Manifest | None:
    """Return the manifest in `folder`, or None if the folder has no manifest.

    Control characters in the manifest's strings are replaced by spaces, because terminals interpret
    control characters.

    Raises:
        ValueError: The file cannot be read or is not a valid manifest. The message contains the
            path of the file.
    """
    path = folder / NAME
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is not a folder. Set a different folder with --to")
    try:
        content = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path}: cannot be read ({error}). Remove {folder} and prepare the data again"
        ) from None
    try:
        manifest_schema.check_manifest(content, NAME)
        if content["schema"] != SCHEMA:
            raise ValueError(f"expected schema {SCHEMA}, got {content['schema']}")
        if fingerprint(content["files"]) != content["fingerprint"]:
            raise ValueError("the fingerprint does not match the list of files")
    except ValueError as error:
        raise ValueError(
            f"{path}: not a manifest ({error}). Remove {folder} and prepare the data again"
        ) from None
    text = {name: printable(content[name]) for name in ("dataset", "compared") if name in content}
    return Manifest(
        **{**content, **text, "notes": [printable(note) for note in content.get("notes", ())]}
    )


def verify(
    folder: Path,
    manifest: Manifest,
    how: str = "",
    digested: Callable[[Path], bool] = lambda path: True,
) -> list[str]:
    """Compare the sizes of all files and the content of selected files with the manifest.

    Args:
        folder: Folder of the prepared data.
        manifest: Manifest in this folder.
        how: Command that prepares the data set.
        digested: Function that returns whether to compare the content of a file. By default, the
            content of all files is compared.

    Returns:
        One line per file.

    Raises:
        ValueError: A file is missing or differs from the manifest. The message contains the first
            such file.
    """
    lines, again = [], f"Remove {folder} and prepare the data again" + (f": {how}" if how else "")
    for name, entry in sorted(manifest.files.items()):
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path}: missing. {again}")
        check_inside(folder, name)
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise ValueError(f"{path}: {size:,} bytes instead of {entry['bytes']:,}. {again}")
        if digested(path) and sha256(path) != entry["sha256"]:
            raise ValueError(f"{path}: content differs from the manifest. {again}")
        lines.append(f"{name}: {size:,} bytes, sha256 as recorded")
    return lines


def check_inside(folder: Path, name: str) -> None:
    """Raise ValueError if symbolic links in the path of a file lead outside of the folder."""
    target = os.path.realpath(folder / name)
    if not Path(target).is_relative_to(os.path.realpath(folder)):
        raise ValueError(
            f"{folder / name}: a link to {target}, outside of {folder}. Replace the link by the"
            " file"
        )


def verify_sample(folder: Path, manifest: Manifest, how: str) -> None:
    """Compare SAMPLED_BLOCKS random blocks of all files with the manifest.

    Files whose block digests are missing in the manifest are skipped. The function raises
    ValueError if a block differs from the manifest.
    """
    blocks = [
        (name, at)
        for name, entry in manifest.files.items()
        for at in range(len(entry.get("blocks", ())))
    ]
    for name, at in random.sample(blocks, min(SAMPLED_BLOCKS, len(blocks))):
        with open_stream(folder / name) as file:
            file.seek(at * BLOCK_BYTES)
            digest = hashlib.sha256(file.read(BLOCK_BYTES)).hexdigest()
        if digest != manifest.files[name]["blocks"][at]:
            problem = f"content differs from the manifest at byte {at * BLOCK_BYTES:,}"
            raise ValueError(
                f"{folder / name}: {problem}. Remove {folder} and prepare the data again: {how}"
            )


def _last_change(path: Path) -> int:
    """Return the time of the last change of a file or its metadata, in nanoseconds.

    A user can set the modification time to an earlier time, but not the time of the metadata
    change.
    """
    status = path.stat()
    return max(status.st_mtime_ns, status.st_ctime_ns)


class Prepared(Dataset):
    """Data set whose prepared form has a manifest."""

    @abstractmethod
    def how(self) -> str:
        """Return the command that prepares this data set."""

    def already(self, destination: Path, origin: Callable[[], Manifest]) -> list[str]:
        """Return a line if this data set is already prepared, otherwise an empty list.

        Args:
            destination: Folder of the prepared data.
            origin: Function that returns a manifest. The data set, source, and options of this
                manifest are compared with the manifest in `destination`.

        Raises:
            ValueError: `destination` contains prepared data of a different origin.
        """
        present = read(destination)
        if present is None:
            return []
        if not present.same_origin(origin()):
            raise ValueError(
                f"{destination} holds {present.dataset} prepared from {present.source.get('name')}"
                " with different content or options. Set a different folder with --to, or remove"
                " this folder"
            )
        return [f"{self.name}: already prepared in {destination}"]

    def verify(self, destination: Path) -> list[str]:
        """Compare the content of the prepared data with the manifest.

        The method implements `workloads.api.Dataset`.
        """
        manifest = read(destination)
        if manifest is None:
            raise ValueError(f"no prepared data in {destination}. Run: {self.how()}")
        if manifest.dataset != self.name:
            raise ValueError(f"{destination} holds {manifest.dataset}, not {self.name}")
        files = verify(destination, manifest, self.how())
        # The change time of the manifest becomes the newest in the folder, as directly after the
        # preparation. The update fails if the manifest is read-only or belongs to a different user.
        # The next run then compares the content again.
        with suppress(OSError):
            os.utime(destination / NAME)
        lines = self.verified(destination, manifest, files)
        return [
            *lines,
            f"{self.name}: sound, fingerprint {manifest.fingerprint}",
            *manifest.notices,
        ]

    def verified(self, destination: Path, manifest: Manifest, files: list[str]) -> list[str]:
        """Check the content of prepared data, and return the lines to print.

        The caller has already compared the files with the manifest.

        Args:
            destination: Folder of the prepared data.
            manifest: Manifest in this folder.
            files: One line per file.

        Raises:
            ValueError: The content is invalid.
        """
        return files

    def check(self, destination: Path) -> None:
        """Compare the prepared data with the manifest before a run.

        The sizes of all files are compared. If all files have at most DIGESTED_BYTES in total, the
        content of all files is compared. In larger data sets, only some random blocks and the files
        that are newer than the manifest are compared. In a copied data set, the files may be newer
        than the manifest until `suite data verify` succeeds.

        Files in subfolders (images of a generated data set) are not compared here. The workers
        check these files when they read them.
        """
        manifest = read(destination)
        if manifest is None:
            return
        for name in manifest.files:
            check_inside(destination, name)
        manifest = replace(
            manifest,
            files={name: files for name, files in manifest.files.items() if "/" not in name},
        )
        written = _last_change(destination / NAME)
        few = sum(entry["bytes"] for entry in manifest.files.values()) <= DIGESTED_BYTES
        verify(destination, manifest, self.how(), lambda path: few or _last_change(path) > written)
        if not few:
            verify_sample(destination, manifest, self.how())


@contextmanager
def workspace(destination: Path) -> Iterator[Path]:
    """Yield a temporary folder next to `destination` for data that `publish` moves there.

    An incompletely prepared folder therefore never has the name of `destination`. The temporary
    folder is removed at the end. Temporary folders of killed processes are removed at the start.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with held_folder(destination.parent, _work_prefix(destination)) as held:
        folder = held / destination.name
        folder.mkdir()
        yield folder


def remove_unfinished(destination: Path) -> None:
    """Remove temporary folders next to `destination` that killed processes left behind."""
    remove_left(destination.parent, _work_prefix(destination))


def _work_prefix(destination: Path) -> str:
    return f".{destination.name}."


def publish(folder: Path, destination: Path, manifest: Manifest) -> Manifest:
    """Add file digests to the manifest, and rename `folder` to `destination`.

    If `destination` exists and has no manifest, the files are moved into `destination`, and the
    manifest is moved last. Existing files in `destination` are kept. If a different process has
    prepared the same data in the meantime, the files of that process are kept.

    Returns:
        The manifest in `destination`.

    Raises:
        ValueError: `destination` contains different prepared data, or a file of the same name with
            different content.
    """
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    sizes = {name: (folder / name).stat().st_size for name in names}
    files: dict[str, dict[str, Any]] = {
        name: {"bytes": sizes[name], "sha256": sha256(folder / name)} for name in names
    }
    if sum(sizes.values()) > DIGESTED_BYTES:
        files = {
            name: {**entry, "blocks": block_digests(folder / name)} for name, entry in files.items()
        }
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
        raise ValueError(
            f"{destination} holds a different preparation. Set a different folder with --to, or"
            " remove this folder"
        )
    for name in names:
        existing = destination / name
        if os.path.lexists(existing) and (
            not existing.is_file() or sha256(existing) != files[name]["sha256"]
        ):
            raise ValueError(
                f"{existing} already exists with different content. Set a different folder with"
                " --to, or remove this file"
            )
    for name in [*names, NAME]:
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        os.replace(folder / name, destination / name)
    return complete
