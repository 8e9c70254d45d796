"""What data sets of image files have in common: an index of images that stay where they are, beside a manifest."""

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
"""Problems that are named one by one; the others are counted."""
SPLITS = ("train", "val")

Content = TypeVar("Content")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")
"""What a look at a source finds, before any image is opened."""


class ImageDataset(manifests.Prepared, Generic[Content]):
    """A data set of image files; the attributes may be set before `prepare`."""

    kind: ClassVar[str] = ""
    """Of folders of the user's own the name under which they are registered; empty: a data set that has one name."""
    content: ClassVar[str] = ""
    """What of the content is compared with the published one's, in words."""
    things: ClassVar[str]
    """What problems are counted in."""
    splits: ClassVar[tuple[str, ...]] = SPLITS
    """Those that have an index."""
    prepare_options = ("subset", "skip_bad", "full")

    def __init__(self) -> None:
        self.subset: int | None = None
        """Keep so many training images, spread evenly, and the same share of the validation images."""
        self.skip_bad = False
        """Leave out what cannot be used, instead of refusing the data set."""
        self.full = False
        """Decode every image, instead of looking at headers and ends."""

    @abstractmethod
    def look(self, source: Path) -> Content:
        """What is in the folder `source`. Raises ValueError."""

    @abstractmethod
    def manifest(self, images: str, content: Content) -> Manifest:
        """The manifest before the images were checked; `images` is the folder that the names start from."""

    @abstractmethod
    def write(self, source: Path, folder: Path, manifest: Manifest, content: Content) -> tuple[Manifest, list[str]]:
        """Check the images and write the prepared form below `folder`; the complete manifest and lines about what was left out.

        Raises ValueError.
        """

    @abstractmethod
    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        """What to tell after a preparation."""

    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Index and check the folder `source`; see `workloads.api.Dataset`."""
        if self.subset is not None and self.subset < 1:
            raise ValueError(f"--subset {self.subset}: at least one image is needed")
        source = source.resolve()
        content = self.look(source)
        manifest = self.manifest(str(source), content)
        if self.kind:
            manifest = replace(manifest, options={**manifest.options, "kind": self.kind})
        if there := self.already(destination, lambda: manifest):
            return there
        with manifests.workspace(destination) as folder:
            manifest, lines = self.write(source, folder, manifest, content)
            manifest = manifests.publish(folder, destination, manifest)
        return lines + self.lines(manifest, destination)

    def notes(self, counts: Mapping[str, int]) -> list[str]:
        """What a reader of a result must know."""
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
        other: Sequence[str] = (),
    ) -> Manifest:
        """The manifest with counts, notes and whether this is the published data set.

        `compared`: what of the content is the published one's. `other`: further notes.
        """
        unlike = manifests.unlike(self.name, counts, compared, self.content)
        notes = [*self.notes(counts), *other, *(unlike if self.subset is None else [])]
        matches = not unlike if self.name in COUNTS else None
        return replace(manifest, counts=counts, notes=notes, matches_published=matches, compared=compared)

    def verified(self, destination: Path, manifest: Manifest, files: list[str]) -> list[str]:
        """The images against the index by size in bytes."""
        root, lines = index.root(destination, manifest), []
        for split in self._indexed(manifest):
            images = index.read(destination, split, root, manifest.counts[split])
            self.verify_split(destination, split, len(images))
            for number in range(len(images)):
                _same_bytes(images.path(number), int(images.bytes[number]))
            lines.append(f"{split}: {len(images):,} images, bytes as recorded")
        return lines

    def files(self, destination: Path) -> Iterator[str]:
        """The images, wherever they lie, then the prepared folder; see `workloads.api.Dataset`."""
        manifest = manifests.read(destination)
        if manifest is None:
            raise ValueError(f"no prepared data in {destination}; type: {self.how()}")
        root = index.root(destination, manifest)
        if not root.resolve().is_relative_to(destination.resolve()):  # those of generated data lie inside
            for split in self._indexed(manifest):
                images = index.read(destination, split, root, manifest.counts[split])
                yield from (images.path(number) for number in range(len(images)))
        yield from super().files(destination)

    def _indexed(self, manifest: Manifest) -> list[str]:
        """The splits whose index there is: not all, in what an earlier version prepared."""
        return [split for split in self.splits if f"{split}_names.npy" in manifest.files]

    def verify_split(self, destination: Path, split: str, count: int) -> None:
        """Look at what a split has beside its index. Raises ValueError."""

    def how(self) -> str:
        """The command that prepares this data set."""
        return f"suite data prepare {f'{self.kind} --name {self.name}' if self.kind else self.name} --from FOLDER"

    def with_name(self, name: str) -> ImageDataset[Content]:
        """See `workloads.api.Dataset`."""
        if not self.kind:
            super().with_name(name)
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"--name {name}: letters, digits, `-`, `_` and `.` make a name; type for example --name my-{self.kind}"
            )
        self.name = name  # type: ignore[misc]  # of this instance alone
        return self

    def named(self, bad: Sequence[str]) -> list[str]:
        """A line for each of the first problems, and one that counts the others."""
        return [*bad[:MAX_NAMED], *([f"… and {len(bad) - MAX_NAMED:,} more"] if len(bad) > MAX_NAMED else [])]

    def refusal(self, bad: Sequence[str]) -> str:
        """One line for one problem; several are listed."""
        if len(bad) == 1:
            return f"{bad[0]}; repair it, or type --skip-bad to leave it out"
        hint = "repair them, or type --skip-bad to leave them out"
        return "\n".join([f"{len(bad):,} {self.things} cannot be used; {hint}", *self.named(bad)])


def fill(archive_bytes: int, sizes: Iterable[int]) -> bool:
    """Whether files of these sizes may be the content of an archive: within 3 % of its bytes.

    tar adds 0.5 to 2.5 KB to each file, 1 to 2 % of ImageNet's; zip takes about 1 % off a JPEG.
    """
    return abs(sum(sizes) / archive_bytes - 1) < 0.03


def _same_bytes(path: str, expected: int) -> None:
    try:
        size = os.stat(path).st_size
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; prepare the data again") from None
    if size != expected:
        raise ValueError(f"{path}: {size:,} bytes instead of {expected:,}; prepare the data again")
