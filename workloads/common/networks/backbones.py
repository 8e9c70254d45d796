"""Pretrained backbones (`backbone.weights=`): the published file, held against its digest, then converted once.

The conversion is a small prepared data set: DATA/backbones/WORKLOAD-DIGEST/ with `weights.npz` and, last, a manifest.
Settings carry the file's name and digest; workers find the folder by the digest, beside the data set, and read arrays only.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from workloads.api import Array, Settings, option
from workloads.common import manifest as manifests
from workloads.common.networks import torch_files
from workloads.files import read_bytes

WEIGHTS = "weights.npz"
BYTES_MAXIMUM = 1 << 30
"""Files above are not opened: ResNet-152 has 240 MB."""

_Bytes = bytes  # a class below has a field of this name
Shapes = Mapping[str, tuple[int, ...]]
"""Canonical name, which is torchvision's, to the shape of every array that a workload takes."""
Decode = Callable[[bytes], Mapping[str, Array]]
"""A file's content to its arrays by canonical name; raises ValueError, in one line without a file name, for a bad one."""


@dataclass(frozen=True, kw_only=True)
class BackboneOptions:
    """Options of every workload that starts from a pretrained backbone."""

    backbone_weights: str | None = option(
        None,
        "the published file of weights (docs of the workload); only under profile=reference",
        key="backbone.weights",
    )
    backbone_allow_other: bool = option(
        False, "take other weights of the same network; makes the division open", key="backbone.allow_other"
    )
    backbone: Mapping[str, str] | None = field(default=None, metadata={"internal": True})
    """File name and digest of the weights, once `resolve` has read them."""


@dataclass(frozen=True)
class Resaved:
    """A file that its publisher says to hold the weights of another one, saved in another form."""

    file: str
    url: str
    sha256: str


@dataclass(frozen=True)
class Published:
    """The file that a reference run starts from. One of the digests is known: the one that its publisher, or the rules,
    give."""

    file: str
    url: str
    bytes: int | None = None
    """None: not published."""
    sha256: str = ""
    resaved: Resaved | None = None
    """Taken as well. The rules allow the weights of the other one: until both conversions are the same, such a run is
    open."""
    md5: str = ""
    network: str = "torchvision's ImageNet backbone"

    def is_content(self, data: _Bytes) -> bool:
        """Whether `data` are what was published."""
        if self.sha256:
            return hashlib.sha256(data).hexdigest() == self.sha256
        return hashlib.md5(data, usedforsecurity=False).hexdigest() == self.md5

    @property
    def described(self) -> str:
        """`resnet34-333f7ec4.pth (87,306,240 bytes, 333f7ec4…)`"""
        digest = f"{self.sha256[:8]}…" if self.sha256 else f"MD5 {self.md5[:8]}…"
        return f"{self.file} ({digest})" if self.bytes is None else f"{self.file} ({self.bytes:,} bytes, {digest})"


RESNET34 = Published(
    file="resnet34-333f7ec4.pth",
    url="https://download.pytorch.org/models/resnet34-333f7ec4.pth",
    bytes=87_306_240,
    sha256="333f7ec4c6338da2cbed37f1fc0445f9624f1355633fa1d7eab79a91084c6cef",
    resaved=Resaved(
        file="resnet34-b627a593.pth",
        url="https://download.pytorch.org/models/resnet34-b627a593.pth",
        sha256="b627a593bcbe140c234610266fe4f8ae95ea42fc881d091c9b6052e6b1d0590f",
    ),
)
"""The only pretraining that the rules allow (reference download_resnet34_backbone.sh); the name carries the digest's start.

`resaved`: pytorch/vision pull request 3620, "weights are unchanged". Its digest is that of public scripts which check the
download; its start stands in the name.
"""


def resolve(settings: Settings, published: Published, shapes: Shapes, decode: Decode = torch_files.decode) -> Settings:
    """Settings that name the backbone by file and digest, with its weights converted: `shapes` of what `decode` reads.

    Of a file saved again, `weights_of` says whose weights it was shown to hold: those of the published one, if that was
    converted on this machine too, for the same workload, and the arrays have the same digest.

    profile=reference needs one; the others start from random weights. Raises ValueError, in one line, for a file that is
    missing, another one or damaged.
    """
    given, allow_other = (settings.options.get(f"backbone_{name}") for name in ("weights", "allow_other"))
    if settings.profile != "reference":
        if given or allow_other:
            raise ValueError(f"backbone.weights: profile={settings.profile} starts from random weights; leave it out")
        return settings
    if not given:
        raise ValueError(
            f"workload={settings.workload} profile=reference starts from {published.network} {published.file}: "
            f"download {published.url} and type backbone.weights=PATH (profile=demo and profile=synthetic need none)"
        )
    path = Path(os.path.expanduser(str(given))).absolute()
    try:
        data = _read(path, published)
        digest = hashlib.sha256(data).hexdigest()
        resaved = published.resaved is not None and digest == published.resaved.sha256
        is_published = published.is_content(data)
        if not is_published and not resaved and not allow_other:
            raise ValueError(
                f"{len(data):,} bytes with SHA-256 {digest[:8]}…, not the published {published.described}; download "
                f"{published.url}, or type backbone.allow_other=true (division open)"
            )
        arrays = _convert(data, digest, _folder(settings, digest), shapes, decode)
        backbone = {"file": path.name, "sha256": digest}
        if is_published and published.md5:
            backbone["md5"] = published.md5
        if resaved and arrays == _converted(_folder(settings, published.sha256), published.sha256):
            backbone["weights_of"] = published.sha256
    except ValueError as error:
        raise ValueError(f"backbone.weights={given}: {error}") from None
    return replace(settings, options={**settings.options, "backbone": backbone, "backbone_weights": str(path)})


def _read(path: Path, published: Published) -> bytes:
    """The content of a plain file of a sensible size; a pipe or a device is not opened."""
    try:
        return read_bytes(path, BYTES_MAXIMUM)
    except OSError as error:
        raise ValueError(f"{error.strerror}; {published.file} comes from {published.url}") from None


def folder(settings: Settings) -> Path:
    """Where the converted weights of the settings' backbone are: below the folder that holds the data sets."""
    return _folder(settings, str(settings.options["backbone"]["sha256"]))


def _folder(settings: Settings, digest: str) -> Path:
    return Path(settings.data_dir).parent / "backbones" / f"{settings.workload}-{digest[:16]}"


def _convert(data: bytes, digest: str, destination: Path, shapes: Shapes, decode: Decode) -> str:
    """Write `shapes` of the file that holds `data`, unless that is done already; the digest of the arrays."""
    present = _converted(destination, digest)
    if present is not None:
        return present
    arrays = check(decode(data), shapes)
    manifest = manifests.Manifest(
        "backbone", {"bytes": len(data), "sha256": digest}, {}, {"arrays": len(arrays)}, matches_published=None
    )
    try:
        with manifests.workspace(destination) as place:
            _write(place / WEIGHTS, arrays)
            published = manifests.publish(place, destination, manifest)
    except OSError as error:
        raise ValueError(
            f"{destination} cannot be written ({error.strerror}); point SUITE_DATA_DIR elsewhere"
        ) from None
    return str(published.files[WEIGHTS]["sha256"])


def _converted(place: Path, digest: str) -> str | None:
    """The digest of the arrays that were converted from the file with a digest; None if it was not converted.

    Raises ValueError if `place` holds something else, or a conversion that is damaged.
    """
    if manifests.read(place) is None:
        return None
    return str(_check(place, digest).files[WEIGHTS]["sha256"])


def _write(path: Path, arrays: Mapping[str, Array]) -> None:
    """An .npz of the same bytes for the same arrays, without a time of writing: two processes may convert at once."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in arrays.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, value, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), entry.getvalue())


def check(arrays: Mapping[str, Array], shapes: Shapes) -> dict[str, Array]:
    """The arrays that `shapes` name, in its order; others (layer4, fc) are dropped.

    Raises ValueError unless each is there with its shape, float32 and finite, and no variance is negative.
    """
    for name, shape in shapes.items():
        if name not in arrays:
            raise ValueError(f"{name} is missing: weights of another network")
        value = arrays[name]
        if value.shape != shape or value.dtype != np.float32:
            raise ValueError(f"{name} is {value.dtype} {value.shape}, not float32 {shape}: weights of another network")
        if not np.isfinite(value).all() or (name.endswith("running_var") and value.min() < 0):
            raise ValueError(f"{name} holds a number that is not finite, or a negative variance: the file is damaged")
    return {name: arrays[name] for name in shapes}


def _check(place: Path, digest: str) -> manifests.Manifest:
    """The manifest of the conversion of the file with this digest. Raises ValueError unless `place` holds it undamaged."""
    manifest = manifests.read(place)
    if manifest is None or manifest.source.get("sha256") != digest or WEIGHTS not in manifest.files:
        raise ValueError(f"{place} does not hold the converted weights; remove it and start again")
    manifests.verify(place, manifest)
    return manifest


def load(settings: Settings, shapes: Shapes) -> dict[str, Array]:
    """The converted arrays by name; none where the run starts from random weights.

    Raises ValueError if they are gone, or are not those that the settings name.
    """
    if not settings.options.get("backbone"):
        return {}
    place = folder(settings)
    _check(place, str(settings.options["backbone"]["sha256"]))
    with np.load(place / WEIGHTS, allow_pickle=False) as arrays:
        return check(dict(arrays), shapes)


def initial_weights(
    settings: Settings, shapes: Shapes, drawn: Iterable[tuple[str, Array]]
) -> Iterator[tuple[str, Array]]:
    """`drawn`, but for the arrays of `load`, which also come where nothing is drawn (statistics). Raises as `load`."""
    pretrained = load(settings, shapes)
    for name, value in drawn:
        yield name, pretrained.pop(name, value)
    yield from pretrained.items()


def described(settings: Settings) -> str:
    """What the log says: file and digest, or `random`."""
    chosen = settings.options.get("backbone")
    return f"{chosen['file']} sha256:{chosen['sha256']}" if chosen else "random"


def notes(settings: Settings, published: Published) -> tuple[str, ...]:
    """A note for a run that starts from other weights than the published ones, or may do so: a label, and a deviation."""
    chosen = settings.options.get("backbone")
    if not chosen or published.sha256 in (chosen["sha256"], chosen.get("weights_of")):
        return ()
    if published.md5 and chosen.get("md5") == published.md5:
        return ()
    if published.resaved is not None and chosen["sha256"] == published.resaved.sha256:
        return (f"backbone {published.resaved.file}, not shown to hold the weights of {published.file}",)
    return (f"backbone {chosen['sha256'][:8]} instead of {published.file}",)
