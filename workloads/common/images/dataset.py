"""Common base of data sets of image files, which consist of an index and a manifest.

The images are not copied.
"""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from workloads.common import manifest as manifests
from workloads.common.data.published import COUNTS
from workloads.common.images import index
from workloads.common.manifest import Manifest

MAX_NAMED = 20
"""Maximum number of problems that a message lists. For further problems, the message contains only
their number.
"""
SPLITS = ("train", "val")

Content = TypeVar("Content")
"""Type of the content of a source folder, before any image is opened."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")


class ImageDataset(manifests.Prepared, Generic[Content]):
    """Data set of image files. Option attributes must be set before calling `prepare`."""

    kind: ClassVar[str] = ""
    """Registered name of the layout of user-provided folders. The string is empty for data sets
    with a fixed name.
    """
    content: ClassVar[str] = ""
    """Description of the content that is compared with the published data set."""
    things: ClassVar[str]
    """Plural noun for the problems in messages, such as `images or annotations`."""
    splits: ClassVar[tuple[str, ...]] = SPLITS
    """Splits that have an index."""
    prepare_options = ("subset", "skip_bad", "full")

    def __init__(self) -> None:
        self.subset: int | None = None
        """Number of evenly spaced training images to keep. The same fraction of the validation
        images is kept.
        """
        self.skip_bad = False
        """True to omit invalid images instead of rejecting the data set."""
        self.full = False
        """True to decode every image. With False, only headers and file ends are checked."""

    @abstractmethod
    def look(self, source: Path) -> Content:
        """Return the content of the folder `source`.

        The method raises ValueError if the folder is not a data set in this layout.
        """

    @abstractmethod
    def manifest(self, images: str, content: Content) -> Manifest:
        """Return the manifest before the images are checked.

        File names are relative to `images`.
        """

    @abstractmethod
    def write(
        self, source: Path, folder: Path, manifest: Manifest, content: Content
    ) -> tuple[Manifest, list[str]]:
        """Check the images, and write the prepared data to `folder`.

        The method returns the complete manifest and a line for each omitted image or annotation.
        The method raises ValueError if the data set cannot be used.
        """

    @abstractmethod
    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        """Return the lines to print after the data set is prepared."""

    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Index and check the folder `source`. See `workloads.api.Dataset`."""
        if self.subset is not None and self.subset < 1:
            raise ValueError(f"--subset {self.subset}: expected at least 1")
        source = source.resolve()
        content = self.look(source)
        manifest = self.manifest(str(source), content)
        if self.kind:
            manifest = replace(manifest, options={**manifest.options, "kind": self.kind})
        if present := self.already(destination, lambda: manifest):
            return present
        with manifests.workspace(destination) as folder:
            manifest, lines = self.write(source, folder, manifest, content)
            manifest = manifests.publish(folder, destination, manifest)
        return lines + self.lines(manifest, destination)

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """Return the notes that are shown with every result on this data set."""
        notes = []
        if self.subset is not None:
            notes.append(f"subset of {counts['train']:,} training images")
        if counts["left_out"]:
            notes.append(f"{counts['left_out']:,} {self.things} that cannot be used were left out")
        return notes

    def complete(
        self,
        manifest: Manifest,
        counts: Mapping[str, int],
        compared: str,
        further_notes: Sequence[str] = (),
    ) -> Manifest:
        """Return the manifest with counts and notes, and with `matches_published`.

        `matches_published` is True if the data set equals the published data set. `compared`
        describes the content that equals the published content. `further_notes` are added to the
        notes.
        """
        unlike = manifests.unlike(self.name, counts, compared, self.content)
        notes = [*self.notes(counts), *further_notes, *(unlike if self.subset is None else [])]
        matches = not unlike if self.name in COUNTS else None
        return replace(
            manifest, counts=counts, notes=notes, matches_published=matches, compared=compared
        )

    def verified(self, destination: Path, manifest: Manifest, files: list[str]) -> list[str]:
        """Check the file sizes of the images against the index."""
        root, lines = index.root(destination, manifest), []
        for split in self._indexed(manifest):
            images = index.read(destination, split, root, manifest.counts[split])
            self.verify_split(destination, split, len(images))
            for number in range(len(images)):
                _same_bytes(images.path(number), int(images.bytes[number]))
            lines.append(f"{split}: {len(images):,} images, bytes as recorded")
        return lines

    def files(self, destination: Path) -> Iterator[str]:
        """Yield the paths of images outside of the prepared folder, then the prepared files.

        The method implements `workloads.api.Dataset`.
        """
        manifest = manifests.read(destination)
        if manifest is None:
            raise ValueError(f"no prepared data in {destination}. Run: {self.how()}")
        root = index.root(destination, manifest)
        # Generated images are inside of the prepared folder.
        if not root.resolve().is_relative_to(destination.resolve()):
            for split in self._indexed(manifest):
                images = index.read(destination, split, root, manifest.counts[split])
                yield from (images.path(number) for number in range(len(images)))
        yield from super().files(destination)

    def _indexed(self, manifest: Manifest) -> list[str]:
        """Return the splits that have an index.

        Data that earlier versions of the suite prepared may lack the index of some splits.
        """
        return [split for split in self.splits if f"{split}_names.npy" in manifest.files]

    def verify_split(self, destination: Path, split: str, count: int) -> None:
        """Check the files of a split except its index. Raise ValueError for invalid files."""

    def how(self) -> str:
        """Return the command that prepares this data set."""
        return (
            f"suite data prepare {f'{self.kind} --name {self.name}' if self.kind else self.name}"
            " --from FOLDER"
        )

    def with_name(self, name: str) -> ImageDataset[Content]:
        """Return this data set with a user-defined name. See `workloads.api.Dataset`."""
        if not self.kind:
            super().with_name(name)
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"--name {name}: allowed are letters, digits, `-`, `_` and `.`. Set for example"
                f" --name my-{self.kind}"
            )
        self.name = name  # type: ignore[misc]  # of this instance alone
        return self

    def named(self, bad: Sequence[str]) -> list[str]:
        """Return lines for the first problems, and a line with the number of further problems."""
        return [
            *bad[:MAX_NAMED],
            *([f"… and {len(bad) - MAX_NAMED:,} more"] if len(bad) > MAX_NAMED else []),
        ]

    def refusal(self, bad: Sequence[str]) -> str:
        """Return an error message: one line for a single problem, or a list of problems."""
        if len(bad) == 1:
            return f"{bad[0]}. Repair it, or set --skip-bad to leave it out"
        hint = "Repair them, or set --skip-bad to leave them out"
        return "\n".join([f"{len(bad):,} {self.things} cannot be used. {hint}", *self.named(bad)])


def fill(archive_bytes: int, sizes: Iterable[int]) -> bool:
    """Return whether the total size of the files is within 3 % of an archive's size.

    tar adds 0.5 to 2.5 KB to each file, which is 1 to 2 % for ImageNet. zip reduces the size of a
    JPEG by about 1 %.
    """
    return abs(sum(sizes) / archive_bytes - 1) < 0.03


def _same_bytes(path: str, expected: int) -> None:
    try:
        size = os.stat(path).st_size
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}. Prepare the data again") from None
    if size != expected:
        raise ValueError(f"{path}: {size:,} bytes instead of {expected:,}. Prepare the data again")
