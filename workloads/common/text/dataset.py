"""Data sets of sentence pairs: from a download, or from plain text, to what translation runs read (`prepared.py`)."""

from __future__ import annotations

import hashlib
import tempfile
from abc import abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

from workloads.api import Dataset, Json
from workloads.common import manifest as manifests
from workloads.common.manifest import Manifest
from workloads.common.text import prepared, sources
from workloads.common.text.prepared import SIDES, SPLITS, Processed
from workloads.common.text.vocabulary import Vocabulary

TOOLS = ("sacremoses", "subword-nmt")
"""What plain text is processed with."""


class TextDataset(Dataset):
    """A data set of sentence pairs; subclasses say what they are made from."""

    languages: ClassVar[tuple[str, str]] = ("en", "de")
    """Of source and target, as Moses calls them."""
    merges: int
    """Of the byte pair encoding that both languages share."""

    @abstractmethod
    def inputs(self, source: Path) -> dict[str, Path]:
        """Name to path of every file below `source` that is going to be read. Raises ValueError for a missing one."""

    @abstractmethod
    def process(self, source: Path, folder: Path) -> tuple[Processed, dict[str, int]]:
        """Lines of subwords, written below `folder` unless the source holds them, and counts of pairs that were dropped."""

    def notes(self, processed: Processed) -> list[str]:
        """What a reader of a result must know; makes its division open."""
        return []

    def matches(self, processed: Processed) -> bool | None:
        """Whether these are the published data; None: there are none."""
        return None

    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Process, encode and check; see `workloads.api.Dataset`."""
        if not source.is_dir():
            raise ValueError(f"{source}: no such folder; {self.name} is prepared from a folder of files")
        if self.merges < 1:
            raise ValueError(f"--merges {self.merges}: at least 1 is needed")
        source = source.resolve()
        present = manifests.read(destination)
        manifest = self.manifest(str(source), self.inputs(source))
        if present is not None:
            if not present.same_origin(manifest):
                raise ValueError(
                    f"{destination} holds {present.dataset} prepared from {present.source.get('name')} with other content "
                    f"or options; name another folder with --to, or remove it"
                )
            return [f"{self.name}: already prepared in {destination}"]
        with manifests.workspace(destination) as folder:
            manifest = manifests.publish(folder, destination, self.write(source, folder, manifest))
        return self.lines(manifest, destination)

    def manifest(self, name: str, inputs: Mapping[str, Path]) -> Manifest:
        """The manifest before anything was processed."""
        with ThreadPoolExecutor(prepared.cores()) as pool:
            digests = list(pool.map(manifests.sha256, inputs.values()))
        total = hashlib.sha256("".join(f"{n} {d}\n" for n, d in zip(inputs, digests, strict=True)).encode())
        size = sum(path.stat().st_size for path in inputs.values())
        return Manifest(
            dataset=self.name,
            source={"name": name, "bytes": size, "sha256": total.hexdigest()},
            options=self.options(),
            counts={},
        )

    def options(self) -> dict[str, Json]:
        """What else decides the prepared form."""
        return {"languages": list(self.languages), "merges": self.merges}

    def write(self, source: Path, folder: Path, manifest: Manifest) -> Manifest:
        """Write the prepared form of `source` below `folder`; the complete manifest. Raises ValueError in one line."""
        with tempfile.TemporaryDirectory(prefix=".text.", dir=folder.parent) as work:
            processed, dropped = self.process(source, Path(work))
            counts = {**prepared.write(processed, folder), **dropped}
            notes, matches = self.notes(processed), self.matches(processed)
        return Manifest(manifest.dataset, manifest.source, manifest.options, counts, notes, matches)

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        """What to tell after a preparation."""
        counts = manifest.counts
        subwords = [counts[f"train_{side}_subwords"] / counts["train"] for side in SIDES]
        lines = [
            f"{self.name}: {counts['train']:,} training pairs ({subwords[0]:.1f} and {subwords[1]:.1f} subwords in the mean), "
            f"{counts['dev']:,} for the validation loss, {counts['test']:,} for BLEU, {counts['vocabulary']:,} ids, "
            f"in {destination}"
        ]
        reasons = {
            "train_not_clean": f"empty, over {sources.CLEAN_WORDS[1]} words or lopsided",
            "train_not_latin1": "not in latin-1",
            "train_too_long": f"over {prepared.LONGEST} subwords",
        }
        dropped = [f"{counts[name]:,} {text}" for name, text in reasons.items() if counts.get(name)]
        lines += [f"notice: dropped training pairs: {', '.join(dropped)}"] if dropped else []
        lines += [f"notice: {counts['train_unknown']:,} unknown subwords"] if counts["train_unknown"] else []
        return lines + [f"notice: {note}" for note in manifest.notes]

    def verify(self, destination: Path) -> list[str]:
        """Compare the prepared files with the manifest; see `workloads.api.Dataset`."""
        manifest = manifests.read(destination)
        if manifest is None:
            raise ValueError(f"no prepared data in {destination}; type: {self.how()}")
        if manifest.dataset != self.name:
            raise ValueError(f"{destination} holds {manifest.dataset}, not {self.name}")
        lines = manifests.verify(destination, manifest)
        for split in SPLITS:
            prepared.read(destination, split, manifest.counts[split])
        Vocabulary.read(destination / prepared.VOCABULARY)
        prepared.read_references(destination, manifest.counts["test"])
        lines.append(f"{self.name}: sound, fingerprint {manifest.fingerprint}")
        return lines + [f"notice: {note}" for note in manifest.notes]

    def how(self) -> str:
        """The command that prepares this data set."""
        return f"suite data prepare {self.name} --from FOLDER"


class PlainText(TextDataset):
    """Plain text in {train,dev,test}.{en,de}, a sentence a line: one's own corpus."""

    name = "parallel-text"

    def __init__(self) -> None:
        self.merges = 8_000

    def inputs(self, source: Path) -> dict[str, Path]:
        """The six files."""
        return {path.name: path for path in sources.plain_files(source, self.languages).values()}

    def process(self, source: Path, folder: Path) -> tuple[Processed, dict[str, int]]:
        """Tokenise, clean, learn and apply byte pair encoding."""
        return sources.process(source, self.languages, self.merges, folder)


BPE = "bpe.32000"
WMT16_FILES = {
    ("train", "source"): f"train.tok.clean.{BPE}.en",
    ("train", "target"): f"train.tok.clean.{BPE}.de",
    ("dev", "source"): f"newstest_dev.tok.clean.{BPE}.en",
    ("dev", "target"): f"newstest_dev.tok.clean.{BPE}.de",
    ("test", "source"): f"newstest2014.tok.{BPE}.en",
    ("test", "target"): f"newstest2014.tok.{BPE}.de",
}
WMT16_REFERENCES, WMT16_VOCABULARY = "newstest2014.de", f"vocab.{BPE}"
WMT16_MD5 = {
    ("train", "source"): "b7482095b787264a310d4933d197a134",
    ("train", "target"): "409064aedaef5b7c458ff19a7beda462",
    ("dev", "source"): "704c4ba8c8b63df1f6678d32b91438b5",
    ("dev", "target"): "d27f5a64c839e20c5caa8b9d60075dde",
    ("test", "source"): "cb014e2509f86cd81d5a87c240c07464",
    ("test", "target"): "d616740f6026dc493e66efdf9ac1cb04",
}
WMT16_REFERENCES_MD5 = "f6c3818b477e4a25cad68b61cc883c17"
"""Of the reference's files (verify_dataset.sh)."""


class WMT16EnDe(TextDataset):
    """WMT16 English-German, the data of GNMT's reference: processed as its script leaves it, or the archives."""

    name = "wmt16-en-de"

    def __init__(self) -> None:
        self.merges = 32_000
        self._wrong: list[str] | None = None
        """Files whose md5 is not the published one, once that was looked at."""
        self._members: dict[str, tuple[Path, str]] = {}
        """Where the original corpora lie, once that was looked for."""

    def _is_processed(self, source: Path) -> bool:
        return any((source / name).is_file() for name in WMT16_FILES.values())

    def inputs(self, source: Path) -> dict[str, Path]:
        """The processed files if one of them is there, else archives and files of the original corpora."""
        if not self._is_processed(source):
            self._members = sources.find_members(source, sources.wmt_members(self.languages))
            return {str(path.relative_to(source)): path for path, _ in self._members.values()}
        names = [*WMT16_FILES.values(), WMT16_REFERENCES, WMT16_VOCABULARY]
        for name in names:
            if not (source / name).is_file():
                raise ValueError(f"{source / name}: no such file; beside {WMT16_FILES['train', 'source']} it is needed")
        return {name: source / name for name in names}

    def process(self, source: Path, folder: Path) -> tuple[Processed, dict[str, int]]:
        """The processed files as they are, or made of the archives as the reference's script makes them."""
        if self._is_processed(source):
            files = {key: source / name for key, name in WMT16_FILES.items()}
            return Processed(files, source / WMT16_VOCABULARY, source / WMT16_REFERENCES), {}
        plain = folder / "plain"
        plain.mkdir()
        sources.unpack_wmt(self._members, self.languages, plain)
        return sources.process(plain, self.languages, self.merges, folder)

    def notes(self, processed: Processed) -> list[str]:
        """Files that are not the reference's, and what made them where they were made here."""
        wrong = self._differing(processed)
        if not wrong:
            return []
        made = processed.vocabulary.name != WMT16_VOCABULARY
        tools = f"; made by {' and '.join(f'{tool} {version(tool)}' for tool in TOOLS)}" if made else ""
        return [f"md5 differs from the reference's: {', '.join(wrong)}{tools}"]

    def matches(self, processed: Processed) -> bool | None:
        """Whether every file is the reference's, byte for byte."""
        return not self._differing(processed)

    def _differing(self, processed: Processed) -> list[str]:
        if self._wrong is None:
            paths = {WMT16_FILES[key]: (processed.files[key], md5) for key, md5 in WMT16_MD5.items()}
            paths[WMT16_REFERENCES] = (processed.references, WMT16_REFERENCES_MD5)
            with ThreadPoolExecutor(prepared.cores()) as pool:
                found = list(pool.map(_md5, (path for path, _ in paths.values())))
            self._wrong = [name for (name, (_, md5)), is_ in zip(paths.items(), found, strict=True) if md5 != is_]
        return self._wrong


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
