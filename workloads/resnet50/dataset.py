"""ImageNet's folders to the index that ResNet-50 runs read. The images themselves are neither copied nor changed.

Prepared form: the index of `workloads.common.images.index` for `train` and `val`, and `classes.txt`, the WordNet ids in the
order of their numbers. The fingerprint is over these files, so over names, bytes, sizes in pixels and labels of all
images, not over their content.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from workloads.api import Dataset
from workloads.common import manifest as manifests
from workloads.common.images import index
from workloads.common.manifest import Manifest
from workloads.resnet50.facts import PUBLISHED
from workloads.resnet50.folders import Listing, classes_of, list_folders, list_validation

MOST_NAMED = 20
"""Problems that are named one by one; the others are counted."""


class ImageFolders(Dataset):
    """A data set in ImageNet's layout; the attributes may be set before `prepare`."""

    published: ClassVar[dict[str, int] | None] = None
    """Counts of the published data set."""

    def __init__(self) -> None:
        self.subset: int | None = None
        """Keep so many training images, spread evenly, and the same share of the validation images."""
        self.skip_bad = False
        """Leave out what cannot be used, instead of refusing the data set."""
        self.full = False
        """Decode every image, instead of looking at headers and ends."""

    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Index and check the folder `source`; see `workloads.api.Dataset`."""
        if self.subset is not None and self.subset < 1:
            raise ValueError(f"--subset {self.subset}: at least one image is needed")
        source = source.resolve()
        present = manifests.read(destination)
        classes, listings = self.listed(source)
        manifest = self.manifest(str(source), classes, listings)
        if present is not None:
            if not present.same_origin(manifest):
                raise ValueError(
                    f"{destination} holds {present.dataset} prepared from {present.source.get('name')} with other content "
                    f"or options; name another folder with --to, or remove it"
                )
            return [f"{self.name}: already prepared in {destination}"]
        with manifests.workspace(destination) as folder:
            manifest, lines = self.write(source, folder, manifest, classes, listings)
            manifest = manifests.publish(folder, destination, manifest)
        return lines + self.lines(manifest, destination)

    def listed(self, source: Path) -> tuple[list[str], dict[str, Listing]]:
        """Classes and images of both splits, `subset` applied. Raises ValueError."""
        classes = classes_of(source)
        train = list_folders(source, "train", classes)
        listings = {"train": train, "val": list_validation(source, classes)}
        for split, listing in listings.items():
            if not listing.names:
                raise ValueError(f"{source / split}: {_first(listing) or 'no images'}")
        if self.subset is not None and self.subset < len(train.names):
            share = self.subset / len(train.names)
            listings["train"] = _spread(train, self.subset)
            listings["val"] = _spread(listings["val"], max(1, round(share * len(listings["val"].names))))
        return classes, listings

    def manifest(self, images: str, classes: Sequence[str], listings: dict[str, Listing]) -> Manifest:
        """The manifest before the images were checked; `images` is the folder that the names start from."""
        digest, total = hashlib.sha256(), 0
        for split, listing in listings.items():
            for name, size, label in zip(listing.names, listing.sizes, listing.labels, strict=True):
                digest.update(f"{split} {size} {label} {name}\n".encode("utf-8", "surrogateescape"))
                total += size
        return Manifest(
            dataset=self.name,
            source={"name": images, "bytes": total, "sha256": digest.hexdigest()},
            options={"images": images, "subset": self.subset},
            counts={"classes": len(classes)},
        )

    def write(
        self, source: Path, folder: Path, manifest: Manifest, classes: Sequence[str], listings: dict[str, Listing]
    ) -> tuple[Manifest, list[str]]:
        """Check the images and write the index below `folder`; the complete manifest and lines about what was left out."""
        from workloads.common.images.check import check_files

        counts, special, bad = dict(manifest.counts), {"cmyk": 0, "png": 0, "grey": 0}, []
        for split, listing in listings.items():
            headers = check_files([source / name for name in listing.names], self.full)
            good = [i for i, header in enumerate(headers) if not isinstance(header, str)]
            bad += listing.problems
            bad += [(listing.names[i], header) for i, header in enumerate(headers) if isinstance(header, str)]
            kept, sound = listing.take(good), [header for header in headers if not isinstance(header, str)]
            for header in sound:
                kinds = {header.kind, header.colours}
                for kind in special:
                    special[kind] += kind in kinds
            widths, heights = [header.width for header in sound], [header.height for header in sound]
            index.write(folder, split, kept.names, kept.labels, widths, heights, kept.sizes)
            counts[split] = len(good)
        if bad and not self.skip_bad:
            raise ValueError(_refusal(source, bad))
        for split in listings:
            if not counts[split]:
                raise ValueError(
                    f"{source / split}: none of the images can be used; the first is {bad[0][0]}: {bad[0][1]}"
                )
        (folder / "classes.txt").write_text("".join(f"{name}\n" for name in classes), encoding="utf-8")
        counts |= {**special, "left_out": len(bad)}
        notes = self.notes(counts, listings)
        complete = replace(manifest, counts=counts, notes=notes, matches_published=self.matches(counts))
        return complete, [f"left out: {line}" for line in _named(source, bad)]

    def notes(self, counts: dict[str, int], listings: dict[str, Listing]) -> list[str]:
        """What a reader of a result must know."""
        found = []
        if self.subset is not None:
            found.append(f"subset of {counts['train']:,} training images")
        if counts["left_out"]:
            found.append(f"{counts['left_out']:,} files or folders that cannot be used were left out")
        missing = counts["classes"] - len(set(listings["val"].labels))
        if missing and self.subset is None:
            found.append(f"{missing:,} of {counts['classes']:,} classes have no validation image")
        if self.published is not None and self.subset is None:
            wrong = [f"{counts[key]:,} {key} instead of {n:,}" for key, n in self.published.items() if counts[key] != n]
            if wrong:
                found.append(f"counts differ from the published {self.name}: {', '.join(wrong)}")
        return found

    def matches(self, counts: dict[str, int]) -> bool | None:
        """Whether the counts are the published ones; None if there are none."""
        if self.published is None:
            return None
        return all(counts[key] == number for key, number in self.published.items())

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        """What to tell after a preparation."""
        counts = manifest.counts
        looked = "decoded" if self.full else "headers and ends checked"
        lines = [
            f"{self.name}: {counts['train']:,} training and {counts['val']:,} validation images of {counts['classes']:,} "
            f"classes, {looked}, indexed in {destination}; the images stay in {manifest.source['name']}"
        ]
        odd = [
            f"{counts[kind]:,} {kind.upper() if kind != 'grey' else kind}"
            for kind in ("cmyk", "png", "grey")
            if counts[kind]
        ]
        if odd:
            lines.append(f"converted to RGB while they are read: {', '.join(odd)}")
        return lines + [f"notice: {note}" for note in manifest.notes]

    def verify(self, destination: Path) -> list[str]:
        """Compare the index with the manifest by content, and the images with the index by size in bytes."""
        manifest = manifests.read(destination)
        if manifest is None:
            raise ValueError(f"no prepared data in {destination}; type: {self.how()}")
        if manifest.dataset != self.name:
            raise ValueError(f"{destination} holds {manifest.dataset}, not {self.name}")
        manifests.verify(destination, manifest)
        root, lines = index.root(destination, manifest), []
        for split in ("train", "val"):
            images = index.read(destination, split, root, manifest.counts[split])
            for number in range(len(images)):
                _same_bytes(images.path(number), int(images.bytes[number]))
            lines.append(f"{split}: {len(images):,} images, bytes as recorded")
        lines.append(f"{self.name}: sound, fingerprint {manifest.fingerprint}")
        return lines + [f"notice: {note}" for note in manifest.notes]

    def how(self) -> str:
        """The command that prepares this data set."""
        return f"suite data prepare {self.name} --from FOLDER"


class ImageNet(ImageFolders):
    """ILSVRC2012: what ResNet-50's targets are about."""

    name = "imagenet"
    published: ClassVar = PUBLISHED


def _spread(listing: Listing, count: int) -> Listing:
    """`count` of the images, evenly over the list and so over the classes."""
    total = len(listing.names)
    return listing.take([number * total // count for number in range(min(count, total))])


def _first(listing: Listing) -> str:
    """The first problem in words."""
    return ": ".join(listing.problems[0]) if listing.problems else ""


def _named(source: Path, bad: list[tuple[str, str]]) -> list[str]:
    """A line for each of the first problems, and one that counts the others."""
    lines = [f"{source / name}: {what}" for name, what in bad[:MOST_NAMED]]
    return lines + ([f"… and {len(bad) - MOST_NAMED:,} more"] if len(bad) > MOST_NAMED else [])


def _refusal(source: Path, bad: list[tuple[str, str]]) -> str:
    """One line for one problem; several are listed."""
    hint = "repair it, or type --skip-bad to leave it out"
    if len(bad) == 1:
        return f"{_named(source, bad)[0]}; {hint}"
    hint = "repair them, or type --skip-bad to leave them out"
    return "\n".join([f"{len(bad):,} files or folders cannot be used; {hint}", *_named(source, bad)])


def _same_bytes(path: str, expected: int) -> None:
    try:
        found = os.stat(path).st_size
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; prepare the data again") from None
    if found != expected:
        raise ValueError(f"{path}: {found:,} bytes instead of {expected:,}; prepare the data again")
