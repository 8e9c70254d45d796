"""Preparation of images in ImageNet's folders as an index.

The preparation neither copies nor changes the images.

The prepared data set consists of the index (`workloads.common.images.index`) of `train` and `val`,
and of `classes.txt`, which lists the WordNet ids in the order of the class numbers. The fingerprint
of the data set depends on the names, numbers of bytes, sizes in pixels, and labels of all images.
The fingerprint does not depend on the pixels of the images.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from workloads.common.images import index
from workloads.common.images.dataset import ImageDataset, fill
from workloads.common.manifest import Manifest
from workloads.resnet50.folders import Listing, classes_of, list_folders, list_validation

Content = tuple[list[str], dict[str, Listing]]
"""Pair (names of the classes, images of each split)."""


class ImageFolders(ImageDataset[Content]):
    """Data set with the folder layout of ImageNet."""

    things = "files or folders"
    archives: ClassVar[Mapping[str, int]] = {}
    """Size in bytes of the published archive, by split."""

    def look(self, source: Path) -> Content:
        """Return the classes and images of both splits, limited to `subset` images.

        Raises:
            ValueError: A split has no images.
        """
        classes = classes_of(source)
        train = list_folders(source, "train", classes)
        listings = {"train": train, "val": list_validation(source, classes)}
        for split, listing in listings.items():
            if not listing.names:
                raise ValueError(f"{source / split}: {_first(listing) or 'no images'}")
        if self.subset is not None and self.subset < len(train.names):
            share = self.subset / len(train.names)
            listings["train"] = _spread(train, self.subset)
            listings["val"] = _spread(
                listings["val"], max(1, round(share * len(listings["val"].names)))
            )
        return classes, listings

    def manifest(self, images: str, content: Content) -> Manifest:
        classes, listings = content
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
        self, source: Path, folder: Path, manifest: Manifest, content: Content
    ) -> tuple[Manifest, list[str]]:
        """Check the images and write the index to `folder`.

        Returns:
            The complete manifest, and a line for each skipped image.

        Raises:
            ValueError: An image is invalid and `skip_bad` is not set, or a split has no valid
                image.
        """
        from workloads.common.images.check import check_files

        classes, listings = content
        counts, special = dict(manifest.counts), {"cmyk": 0, "png": 0, "grey": 0}
        bad: list[str] = []
        for split, listing in listings.items():
            headers = check_files([source / name for name in listing.names], self.full)
            good = [i for i, header in enumerate(headers) if not isinstance(header, str)]
            refused = [
                (listing.names[i], header)
                for i, header in enumerate(headers)
                if isinstance(header, str)
            ]
            bad += [f"{source / name}: {what}" for name, what in [*listing.problems, *refused]]
            kept, sound = (
                listing.take(good),
                [header for header in headers if not isinstance(header, str)],
            )
            for header in sound:
                kinds = {header.kind, header.colours}
                for kind in special:
                    special[kind] += kind in kinds
            widths, heights = (
                [header.width for header in sound],
                [header.height for header in sound],
            )
            index.write(folder, split, kept.names, kept.labels, widths, heights, kept.sizes)
            counts[split] = len(good)
        if bad and not self.skip_bad:
            raise ValueError(self.refusal(bad))
        for split in listings:
            if not counts[split]:
                raise ValueError(f"{source / split}: no image is valid. First error: {bad[0]}")
        (folder / "classes.txt").write_text(
            "".join(f"{name}\n" for name in classes), encoding="utf-8"
        )
        counts |= {**special, "left_out": len(bad)}
        same = self.archives and all(
            fill(size, listings[split].sizes) for split, size in self.archives.items()
        )
        missing = self._missing(counts, listings)
        complete = self.complete(manifest, counts, self.content if same else "", missing)
        return complete, [f"left out: {line}" for line in self.named(bad)]

    def _missing(self, counts: dict[str, int], listings: dict[str, Listing]) -> list[str]:
        """Return a note if some classes have no validation image.

        With `subset`, classes without a validation image are not reported.
        """
        missing = counts["classes"] - len(set(listings["val"].labels))
        if not missing or self.subset is not None:
            return []
        return [f"{missing:,} of {counts['classes']:,} classes have no validation image"]

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        counts = manifest.counts
        looked = "decoded" if self.full else "headers and ends checked"
        lines = [
            f"{self.name}: {counts['train']:,} training and {counts['val']:,} validation images of"
            f" {counts['classes']:,} classes, {looked}, indexed in {destination}, and the images"
            f" stay in {manifest.source['name']}"
        ]
        odd = [
            f"{counts[kind]:,} {kind.upper() if kind != 'grey' else kind}"
            for kind in ("cmyk", "png", "grey")
            if counts[kind]
        ]
        if odd:
            lines.append(f"converted to RGB while they are read: {', '.join(odd)}")
        return lines + manifest.notices


class ImageNet(ImageFolders):
    """ILSVRC2012, for which the rules define the targets of ResNet-50.

    No digests of individual images are published.
    """

    name = "imagenet"
    archives: ClassVar = {"train": 147_897_477_120, "val": 6_744_924_160}
    """Sizes of ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar in bytes."""
    content = "bytes of all images against ILSVRC2012_img_train.tar and _val.tar"


def _spread(listing: Listing, count: int) -> Listing:
    """Return `count` evenly spaced images of the list, which thus include all classes."""
    total = len(listing.names)
    return listing.take([number * total // count for number in range(min(count, total))])


def _first(listing: Listing) -> str:
    """Return the description of the first invalid image, or an empty string."""
    return ": ".join(listing.problems[0]) if listing.problems else ""


class UserImages(ImageFolders):
    """User-provided data set with the folders train/CLASS/ and val/CLASS/."""

    name = kind = "images"
