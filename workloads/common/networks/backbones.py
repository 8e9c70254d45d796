"""Pretrained backbones: verify and convert the weight file of `backbone.weights=`.

The converted weights are a small prepared data set in DATA/backbones/WORKLOAD-DIGEST/, with
`weights.npz` and a manifest. The manifest is written last. The settings of a run contain the name
and digest of the weight file. Worker processes use the digest to find the folder of the converted
weights, which is next to the data set. Workers read only the converted arrays and never the
original weight file.
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
"""Maximum size of a weight file in bytes. For comparison, the weight file of ResNet-152 has 240
MB.
"""

# The alias is needed because a field named `bytes` hides the built-in type in a class of this
# module.
_Bytes = bytes
Shapes = Mapping[str, tuple[int, ...]]
"""Shape of every array that a workload needs. The key is the array's name in torchvision."""
Decode = Callable[[bytes], Mapping[str, Array]]
"""Function that converts the content of a weight file to arrays by torchvision name.

The function raises ValueError for an invalid file. The error message is one line and does not
contain the file name.
"""


@dataclass(frozen=True, kw_only=True)
class BackboneOptions:
    """Options of every workload that starts from a pretrained backbone."""

    backbone_weights: str | None = option(
        None,
        "published file of weights (docs of the workload). Only for profile=reference",
        key="backbone.weights",
    )
    backbone_allow_other: bool = option(
        False,
        "accept different weights of the same network, which makes the division open",
        key="backbone.allow_other",
    )
    backbone: Mapping[str, str] | None = field(default=None, metadata={"internal": True})
    """File name and digest of the backbone weights. `resolve` sets this option."""


@dataclass(frozen=True)
class Resaved:
    """File that contains the weights of a published file in a different format.

    According to the publisher, both files contain equal weights.
    """

    file: str
    url: str
    sha256: str


@dataclass(frozen=True)
class Published:
    """Pretrained weights that a reference run starts from.

    Either `sha256` or `md5` is set. The digest comes from the publisher or from the MLPerf rules.
    """

    file: str
    url: str
    bytes: int | None = None
    """Size of the file in bytes, or None if the publisher does not state the size."""
    sha256: str = ""
    resaved: Resaved | None = None
    """Alternative file that a run may use in place of the published file. The MLPerf rules name
    only the published file. A run with the alternative file is in the open division until
    both files have been converted on this machine and the converted arrays are equal.
    """
    md5: str = ""
    network: str = "torchvision's ImageNet backbone"

    def is_content(self, data: _Bytes) -> bool:
        """Return whether `data` has the digest of the published file."""
        if self.sha256:
            return hashlib.sha256(data).hexdigest() == self.sha256
        return hashlib.md5(data, usedforsecurity=False).hexdigest() == self.md5

    @property
    def described(self) -> str:
        """Return file name, size, and digest: `resnet34-333f7ec4.pth (87,306,240 bytes, …)`."""
        digest = f"{self.sha256[:8]}…" if self.sha256 else f"MD5 {self.md5[:8]}…"
        return (
            f"{self.file} ({digest})"
            if self.bytes is None
            else f"{self.file} ({self.bytes:,} bytes, {digest})"
        )


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
"""The only pretrained weights that the SSD rules allow (reference
download_resnet34_backbone.sh). The file name contains the first characters of the SHA-256
digest.

`resaved` is the file from pytorch/vision pull request 3620 ("weights are unchanged"). The
digest of `resaved` is taken from public scripts that verify the download. The first
characters of the digest of `resaved` are part of its file name.
"""


def resolve(
    settings: Settings, published: Published, shapes: Shapes, decode: Decode = torch_files.decode
) -> Settings:
    """Convert the backbone's weights, and return settings with their file name and digest.

    profile=reference requires a weight file. In all other profiles, the weights are random by
    default. For the alternative file `published.resaved`, the setting `weights_of` names the
    published file if both files contain equal weights. To detect equal weights, both files must
    have been converted on this machine for the same workload. The converted arrays of both files
    must have the same digest.

    Args:
        settings: Settings of the run.
        published: Weights that a reference run starts from.
        shapes: Names and shapes of the arrays to convert.
        decode: Function that reads the arrays of the weight file.

    Raises:
        ValueError: The file is missing, damaged, or not the published file. The error message is
            one line.
    """
    weights, allow_other = (
        settings.options.get(f"backbone_{name}") for name in ("weights", "allow_other")
    )
    if settings.profile != "reference":
        if weights or allow_other:
            raise ValueError(
                f"backbone.weights: profile={settings.profile} starts from random weights. Leave"
                " it out"
            )
        return settings
    if not weights:
        raise ValueError(
            f"workload={settings.workload} profile=reference starts from {published.network}"
            f" {published.file}. Download {published.url} and set backbone.weights=PATH."
            " profile=demo and profile=synthetic do not need it"
        )
    path = Path(os.path.expanduser(str(weights))).absolute()
    try:
        data = _read(path, published)
        digest = hashlib.sha256(data).hexdigest()
        resaved = published.resaved is not None and digest == published.resaved.sha256
        is_published = published.is_content(data)
        if not is_published and not resaved and not allow_other:
            raise ValueError(
                f"expected the published {published.described}, got {len(data):,} bytes with"
                f" SHA-256 {digest[:8]}…. Download {published.url}, or set"
                " backbone.allow_other=true (open division)"
            )
        arrays = _convert(data, digest, _folder(settings, digest), shapes, decode)
        backbone = {"file": path.name, "sha256": digest}
        if is_published and published.md5:
            backbone["md5"] = published.md5
        if resaved and arrays == _converted(_folder(settings, published.sha256), published.sha256):
            backbone["weights_of"] = published.sha256
    except ValueError as error:
        raise ValueError(f"backbone.weights={weights}: {error}") from None
    return replace(
        settings, options={**settings.options, "backbone": backbone, "backbone_weights": str(path)}
    )


def _read(path: Path, published: Published) -> bytes:
    """Return the content of a regular file of at most `BYTES_MAXIMUM` bytes.

    Pipes and devices are rejected.
    """
    try:
        return read_bytes(path, BYTES_MAXIMUM)
    except OSError as error:
        raise ValueError(
            f"{error.strerror}. Download {published.file} from {published.url}"
        ) from None


def folder(settings: Settings) -> Path:
    """Return the folder of the converted backbone weights, which is next to the data set."""
    return _folder(settings, str(settings.options["backbone"]["sha256"]))


def _folder(settings: Settings, digest: str) -> Path:
    return Path(settings.data_dir).parent / "backbones" / f"{settings.workload}-{digest[:16]}"


def _convert(data: bytes, digest: str, destination: Path, shapes: Shapes, decode: Decode) -> str:
    """Convert the arrays named in `shapes` and return the digest of the converted file.

    An existing conversion is reused.

    Args:
        data: Content of the weight file.
        digest: SHA-256 of the weight file.
        destination: Folder of the converted weights.
        shapes: Names and shapes of the arrays to convert.
        decode: Function that reads the arrays of the weight file.
    """
    present = _converted(destination, digest)
    if present is not None:
        return present
    arrays = check(decode(data), shapes)
    manifest = manifests.Manifest(
        "backbone",
        {"bytes": len(data), "sha256": digest},
        {},
        {"arrays": len(arrays)},
        matches_published=None,
    )
    try:
        with manifests.workspace(destination) as place:
            _write(place / WEIGHTS, arrays)
            published = manifests.publish(place, destination, manifest)
    except OSError as error:
        raise ValueError(
            f"{destination} cannot be written ({error.strerror}). Set SUITE_DATA_DIR to a different"
            " folder"
        ) from None
    return str(published.files[WEIGHTS]["sha256"])


def _converted(place: Path, digest: str) -> str | None:
    """Return the digest of the arrays that were converted from the file with `digest`.

    The function returns None if the file has not been converted. The function raises ValueError if
    `place` contains different data or damaged converted weights.
    """
    if manifests.read(place) is None:
        return None
    return str(_check(place, digest).files[WEIGHTS]["sha256"])


def _write(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an .npz without time stamps, so that equal arrays give identical files.

    Because the files are identical, two processes may convert the same weights at the same time.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in arrays.items():
            entry = io.BytesIO()
            np.lib.format.write_array(entry, value, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), entry.getvalue())


def check(arrays: Mapping[str, Array], shapes: Shapes) -> dict[str, Array]:
    """Return the arrays named in `shapes`, in the order of `shapes`.

    Arrays that are not in `shapes` are dropped (layer4, fc). The function raises ValueError if an
    array is missing, has a different shape, is not float32, or contains a number that is not
    finite. The function also raises ValueError if a variance is negative.
    """
    for name, shape in shapes.items():
        if name not in arrays:
            raise ValueError(f"{name} is missing. The weights belong to a different network")
        value = arrays[name]
        if value.shape != shape or value.dtype != np.float32:
            raise ValueError(
                f"{name} is {value.dtype} {value.shape}, not float32 {shape}. The weights belong to"
                " a different network"
            )
        if not np.isfinite(value).all() or (name.endswith("running_var") and value.min() < 0):
            raise ValueError(
                f"{name} has a number that is not finite, or a negative variance. The file is"
                " damaged"
            )
    return {name: arrays[name] for name in shapes}


def _check(place: Path, digest: str) -> manifests.Manifest:
    """Return the manifest of the weights that were converted from the file with `digest`.

    The function raises ValueError if `place` does not contain these converted weights or if they
    are damaged.
    """
    manifest = manifests.read(place)
    if manifest is None or manifest.source.get("sha256") != digest or WEIGHTS not in manifest.files:
        raise ValueError(
            f"{place} does not contain the converted weights. Remove this folder and start again"
        )
    manifests.verify(place, manifest)
    return manifest


def load(settings: Settings, shapes: Shapes) -> dict[str, Array]:
    """Return the converted backbone arrays by name.

    The function returns an empty dictionary if the run starts from random weights.

    The function raises ValueError if the arrays are missing or do not match the settings.
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
    """Yield the weights in `drawn`, replacing random arrays by pretrained arrays.

    Pretrained arrays that are not in `drawn` follow at the end. These additional arrays are running
    statistics of batch norms. The function raises ValueError if the arrays are missing or do not
    match the settings.
    """
    pretrained = load(settings, shapes)
    for name, value in drawn:
        yield name, pretrained.pop(name, value)
    yield from pretrained.items()


def described(settings: Settings) -> str:
    """Return the log entry of the backbone: file name and digest, or `random`."""
    chosen = settings.options.get("backbone")
    return f"{chosen['file']} sha256:{chosen['sha256']}" if chosen else "random"


def notes(settings: Settings, published: Published) -> tuple[str, ...]:
    """Return a note if the run may start from weights other than the published weights.

    A run with this note is in the open division.
    """
    chosen = settings.options.get("backbone")
    if not chosen or published.sha256 in (chosen["sha256"], chosen.get("weights_of")):
        return ()
    if published.md5 and chosen.get("md5") == published.md5:
        return ()
    if published.resaved is not None and chosen["sha256"] == published.resaved.sha256:
        return (
            f"backbone {published.resaved.file}, not shown to hold the weights of {published.file}",
        )
    return (f"backbone {chosen['sha256'][:8]} instead of {published.file}",)
