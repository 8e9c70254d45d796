"""Data sets of sentence pairs, prepared from downloads or plain text (`prepared.py`)."""

from __future__ import annotations

import hashlib
import tempfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar

from workloads.api import Json
from workloads.common import manifest as manifests
from workloads.common.data.lines import chunks
from workloads.common.manifest import Manifest
from workloads.common.text import prepared, sources, subtoken_learning
from workloads.common.text.prepared import SIDES, SPLITS, Processed
from workloads.common.text.subtokens import Subtokeniser
from workloads.held_folder import held_folder

TOOLS = ("sacremoses", "subword-nmt")
"""Python packages that process plain text."""


class TextDataset(manifests.Prepared):
    """A data set of sentence pairs.

    Subclasses define the input files and how they are processed.
    """

    languages: ClassVar[tuple[str, str]] = ("en", "de")
    """Language codes of source and target, in the form that Moses expects."""
    published: ClassVar[bool] = True
    """Whether the data set is public.

    If the manifest of a public data set has no `notes`, the prepared data matches the published
    data.
    """
    merges: int
    """Number of merges of the byte pair encoding. Both languages share the encoding."""
    longest: ClassVar[int] = prepared.LONGEST
    """Maximum number of subwords in a training sentence.

    Pairs that contain a longer sentence are dropped.
    """

    @abstractmethod
    def inputs(self, source: Path) -> dict[str, Path]:
        """Return the name and path of every file below `source` to read.

        The method raises ValueError if a file is missing.
        """

    @abstractmethod
    def process(self, source: Path, folder: Path) -> tuple[Processed, dict[str, int]]:
        """Return the text files to encode, and the numbers of dropped pairs.

        Processed files that `source` does not contain are written to `folder`.
        """

    def notes(self, processed: Processed) -> list[str]:
        """Return descriptions of differences from the public data set.

        If there are differences, every run on this data is in the open division.
        """
        return []

    def prepare(self, source: Path, destination: Path) -> list[str]:
        """Process, encode and check the files in `source`. See `workloads.api.Dataset`."""
        if not source.is_dir():
            raise ValueError(
                f"{source}: no such folder; {self.name} is prepared from a folder of files"
            )
        if "merges" in self.prepare_options and self.merges < 1:
            raise ValueError(f"--merges {self.merges}: expected at least 1")
        source = source.resolve()
        manifest = self.manifest(str(source), self.inputs(source))
        if messages := self.already(destination, lambda: manifest):
            return messages
        with manifests.workspace(destination) as folder:
            manifest = manifests.publish(folder, destination, self.write(source, folder, manifest))
        return self.lines(manifest, destination)

    def manifest(self, name: str, inputs: Mapping[str, Path]) -> Manifest:
        """Return a manifest with the input files and options, but without counts."""
        with ThreadPoolExecutor(prepared.cores()) as pool:
            digests = list(pool.map(manifests.sha256, inputs.values()))
        total = hashlib.sha256(
            "".join(f"{n} {d}\n" for n, d in zip(inputs, digests, strict=True)).encode()
        )
        size = sum(path.stat().st_size for path in inputs.values())
        return Manifest(
            dataset=self.name,
            source={"name": name, "bytes": size, "sha256": total.hexdigest()},
            options=self.options(),
            counts={},
        )

    def options(self) -> dict[str, Json]:
        """Return the options that affect the prepared data.

        Input files are not options.
        """
        return {"languages": list(self.languages), "merges": self.merges}

    def write(self, source: Path, folder: Path, manifest: Manifest) -> Manifest:
        """Write the prepared data of `source` to `folder`, and return the complete manifest.

        The method raises ValueError if the data is invalid. The error message is one line.
        """
        with tempfile.TemporaryDirectory(prefix=".text.", dir=folder.parent) as work:
            processed, dropped = self.process(source, Path(work))
            counts = {**prepared.write(processed, folder), **dropped}
            notes = self.notes(processed)
        matches = not notes if self.published else None
        return Manifest(manifest.dataset, manifest.source, manifest.options, counts, notes, matches)

    def lines(self, manifest: Manifest, destination: Path) -> list[str]:
        """Return the summary lines that the user sees after the data set is prepared."""
        counts = manifest.counts
        subwords = [counts[f"train_{side}_subwords"] / counts["train"] for side in SIDES]
        lines = [
            f"{self.name}: {counts['train']:,} training pairs ({subwords[0]:.1f} and"
            f" {subwords[1]:.1f} subwords in the mean), {counts['dev']:,} for the validation loss,"
            f" {counts['test']:,} for BLEU, {counts['vocabulary']:,} ids, in {destination}"
        ]
        reasons = {
            "train_not_clean": (
                f"empty, over {sources.CLEAN_WORDS[1]} words, lopsided or with a word of over 1,000"
                " characters"
            ),
            "train_not_latin1": "not in latin-1",
            "train_too_long": f"over {self.longest} subwords",
        }
        dropped = [f"{counts[name]:,} {text}" for name, text in reasons.items() if counts.get(name)]
        lines += [f"notice: dropped training pairs: {', '.join(dropped)}"] if dropped else []
        lines += (
            [f"notice: {counts['train_unknown']:,} unknown subwords"]
            if counts["train_unknown"]
            else []
        )
        return lines + manifest.notices

    def verified(self, destination: Path, manifest: Manifest, files: list[str]) -> list[str]:
        """Check that arrays, vocabulary, and references are readable, and return `files`."""
        for split in SPLITS:
            prepared.read(destination, split, manifest.counts[split])
        prepared.vocabulary_of(destination, manifest.options)
        prepared.read_references(destination, manifest.counts["test"])
        return files

    def how(self) -> str:
        """Return the command line that prepares this data set."""
        return f"suite data prepare {self.name} --from FOLDER"


class PlainText(TextDataset):
    """User-provided plain text in {train,dev,test}.{en,de}, one sentence per line."""

    name = "parallel-text"
    published = False
    prepare_options = ("merges",)

    def __init__(self) -> None:
        self.merges = 8_000

    def inputs(self, source: Path) -> dict[str, Path]:
        """Return the six text files of the corpus by name."""
        return {path.name: path for path in sources.plain_files(source, self.languages).values()}

    def process(self, source: Path, folder: Path) -> tuple[Processed, dict[str, int]]:
        """Tokenize and clean the text, then learn and apply a byte pair encoding."""
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
NEWSTEST2014_MD5 = {
    "en": "dabf51a9c02b2235632f3cee75c72d49",
    "de": "f6c3818b477e4a25cad68b61cc883c17",
}
"""MD5 of newstest2014 in each language (verify_dataset.sh of the reference)."""
WMT16_EXPECTED = (
    f"the processed files ({WMT16_FILES['train', 'source']}, …) or the archives of Europarl v7,"
    " Common Crawl, News Commentary v11, dev and test"
)


class WMT16EnDe(TextDataset):
    """WMT16 English-German, the data set of the GNMT reference.

    The input is either the output of the reference's preparation script or the published archives.
    """

    name = "wmt16-en-de"
    prepare_options = ("merges",)

    def __init__(self) -> None:
        self.merges = 32_000
        self._members: dict[str, tuple[Path, str]] = {}
        """Location (file, archive member) of each original corpus. `inputs` sets the locations."""

    def _is_processed(self, source: Path) -> bool:
        return any((source / name).is_file() for name in WMT16_FILES.values())

    def inputs(self, source: Path) -> dict[str, Path]:
        """Return the processed files if any exist, else the files of the original corpora."""
        if not self._is_processed(source):
            self._members = sources.find_members(
                source, sources.wmt_members(self.languages), WMT16_EXPECTED
            )
            return {str(path.relative_to(source)): path for path, _ in self._members.values()}
        names = [*WMT16_FILES.values(), WMT16_REFERENCES, WMT16_VOCABULARY]
        for name in names:
            if not (source / name).is_file():
                raise ValueError(
                    f"{source / name}: no such file. It is needed in addition to"
                    f" {WMT16_FILES['train', 'source']}"
                )
        return {name: source / name for name in names}

    def process(self, source: Path, folder: Path) -> tuple[Processed, dict[str, int]]:
        """Return the processed files, or create the files like the reference's script.

        Processed files are created only if `source` does not contain any.
        """
        if self._is_processed(source):
            files = {key: source / name for key, name in WMT16_FILES.items()}
            return Processed(files, source / WMT16_VOCABULARY, source / WMT16_REFERENCES), {}
        plain = folder / "plain"
        plain.mkdir()
        names = sources.unpack_wmt(self._members, self.languages, plain)
        return sources.process(plain, self.languages, self.merges, folder, names)

    def notes(self, processed: Processed) -> list[str]:
        """Return a note that lists the files whose MD5 differs from the reference's MD5.

        If the suite processed the files, the note includes the versions of the packages in `TOOLS`.
        """
        paths = {WMT16_FILES[key]: (processed.files[key], md5) for key, md5 in WMT16_MD5.items()}
        paths[WMT16_REFERENCES] = (processed.references, NEWSTEST2014_MD5["de"])
        with ThreadPoolExecutor(prepared.cores()) as pool:
            digests = pool.map(lambda entry: manifests.sha256(entry[0], "md5"), paths.values())
            wrong = [
                name
                for (name, (_, md5)), digest in zip(paths.items(), digests, strict=True)
                if digest != md5
            ]
        if not wrong:
            return []
        is_processed_here = processed.vocabulary.name != WMT16_VOCABULARY
        tools = (
            f"; made by {' and '.join(f'{tool} {version(tool)}' for tool in TOOLS)}"
            if is_processed_here
            else ""
        )
        return [f"md5 differs from the reference's: {', '.join(wrong)}{tools}"]


WMT17_TRAIN = ("news-commentary-v12.de-en", "commoncrawl.de-en", "europarl-v7.de-en")
"""Training corpora in the order of concatenation (reference process_data.py)."""
WMT17_SPLITS = {"train": WMT17_TRAIN, "dev": ("newstest2013",), "test": ("newstest2014",)}
WMT17_PAIRS = 4_590_101
"""Number of lines in the training corpora. NVIDIA's logs of v0.6 and v0.7 contain this number."""
WMT17_VOCABULARY = "vocab.translate_ende_wmt32k.32768.subwords"
WMT17_VOCABULARY_MD5 = "0067c33184fa284ef6dc422dffcf8088"
WMT17_EXPECTED = (
    "the archives of News Commentary v12, Common Crawl, Europarl v7 and dev, newstest2014.en and"
    f" .de, and {WMT17_VOCABULARY}. mlcommons/training, retired_benchmarks/transformer, contains"
    " the vocabulary in tensorflow/transformer/vocab and scripts that download the corpora."
    " Without this vocabulary, suite data make-vocabulary learns a vocabulary for open runs"
    " (--vocabulary FILE)"
)


class WMT17EnDe(TextDataset):
    """WMT17 English-German, the data set of the Transformer reference.

    The text of the corpora is not changed. The vocabulary is the published vocabulary of subtokens.
    """

    name = "wmt17-en-de"
    prepare_options = ("vocabulary",)
    longest = 255
    """Maximum sentence length in subtokens without EOS. With EOS, the maximum is 256 (reference
    model_params.py).
    """

    def __init__(self) -> None:
        self._members: dict[str, tuple[Path, str]] = {}
        """Location (file, archive member) of each input file. `inputs` sets the locations."""
        self.vocabulary: Path | None = None
        """Path of a user-defined vocabulary.

        None selects the published vocabulary, which is stored next to the corpora.
        """

    def inputs(self, source: Path) -> dict[str, Path]:
        """Return the path of each input file by name.

        An input file is a corpus, the vocabulary, or an archive that contains a corpus or the
        vocabulary.
        """
        corpora = [
            f"{name}.{code}"
            for names in WMT17_SPLITS.values()
            for name in names
            for code in self.languages
        ]
        vocabulary = self.vocabulary
        if vocabulary is not None and not vocabulary.is_file():
            how = f"suite data make-vocabulary {self.name} --from FILE … --to FILE"
            raise ValueError(
                f"--vocabulary {vocabulary}: no such file; to learn a vocabulary, run: {how}"
            )
        wanted = corpora if vocabulary else [WMT17_VOCABULARY, *corpora]
        self._members = sources.find_members(source, wanted, WMT17_EXPECTED)
        files = {str(path.relative_to(source)): path for path, _ in self._members.values()}
        if vocabulary is not None:
            self._members[WMT17_VOCABULARY] = (vocabulary, "")
            files[WMT17_VOCABULARY] = vocabulary
        return files

    def options(self) -> dict[str, Json]:
        """Return the languages and the subword method.

        This data set does not learn a byte pair encoding.
        """
        return {"languages": list(self.languages), "subwords": prepared.SUBTOKENS}

    def process(self, source: Path, folder: Path) -> tuple[Processed, dict[str, int]]:
        """Concatenate the corpora of each split as plain text."""
        files, names = {}, {}
        for split, corpora in WMT17_SPLITS.items():
            out = [folder / f"{split}.{language}" for language in self.languages]
            sides = [
                [self._members[f"{name}.{language}"] for name in corpora]
                for language in self.languages
            ]
            sources.join_corpora(sides, out, has_mark=split != "train")
            for side, path, members in zip(SIDES, out, sides, strict=True):
                files[split, side] = path
                names[path] = ", ".join(map(sources.member_name, members))
        vocabulary, member = self._members[WMT17_VOCABULARY]
        if member:
            names[folder / WMT17_VOCABULARY] = sources.member_name((vocabulary, member))
            with (folder / WMT17_VOCABULARY).open("wb") as out_file:
                sources.append((vocabulary, member), out_file)
            vocabulary = folder / WMT17_VOCABULARY
        processed = Processed(
            files,
            vocabulary,
            files["test", "target"],
            subtokens=True,
            longest=self.longest,
            names=names,
        )
        return processed, {}

    def notes(self, processed: Processed) -> list[str]:
        """Return notes on files whose MD5 or number of lines differs from the reference."""
        wanted = {WMT17_VOCABULARY: (processed.vocabulary, WMT17_VOCABULARY_MD5)}
        for side, language in zip(SIDES, self.languages, strict=True):
            wanted[f"newstest2014.{language}"] = (
                processed.files["test", side],
                NEWSTEST2014_MD5[language],
            )
        wrong = [
            name
            for name, (path, digest) in wanted.items()
            if manifests.sha256(path, "md5") != digest
        ]
        lines = sum(data.count(b"\n") for data in chunks(processed.files["train", "source"]))
        remarks = [f"md5 differs from the reference's: {', '.join(wrong)}"] if wrong else []
        return remarks + (
            [f"{lines:,} training pairs, not {WMT17_PAIRS:,}"] if lines != WMT17_PAIRS else []
        )

    def make_vocabulary(
        self, texts: Sequence[Path], destination: Path, size: int | None
    ) -> list[str]:
        """Learn a vocabulary from text files, or from the training corpora in folders.

        The base class `workloads.api.Dataset` documents the arguments.
        """
        if destination.exists():
            raise ValueError(
                f"{destination} already exists. Set a different file with --to, or remove this file"
            )
        if not destination.parent.is_dir():
            raise ValueError(
                f"{destination.parent}: no such folder. Create it, or set a different file with"
                " --to"
            )
        size = subtoken_learning.SIZE if size is None else size
        with held_folder(destination.parent, f".{destination.name}.") as work:
            files = [
                file
                for path in texts
                for file in (self._corpora(path, work) if path.is_dir() else [path])
            ]
            vocabulary = Subtokeniser(
                subtoken_learning.learn(subtoken_learning.count_tokens(files), size)
            )
            vocabulary.write(work / destination.name)
            (work / destination.name).rename(destination)
        return [
            f"{destination}: {len(vocabulary):,} subtokens",
            (
                "notice: this is not the reference's vocabulary, so runs with it are in the open"
                f" division. To use it, run: {self.how()} --vocabulary {destination}"
            ),
        ]

    def _corpora(self, source: Path, work: Path) -> list[Path]:
        """Copy the training corpora below `source` to files in `work`, and return their paths."""
        wanted = [f"{name}.{code}" for name in WMT17_TRAIN for code in self.languages]
        for name, member in sources.find_members(source, wanted, WMT17_EXPECTED).items():
            with (work / name).open("wb") as out:
                sources.append(member, out)
        return [work / name for name in wanted]
