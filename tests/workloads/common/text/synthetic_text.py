"""Files of a small processed corpus and of a small plain corpus."""

import io
import tarfile
from pathlib import Path

import numpy as np

from workloads.common.text.dataset import WMT16_FILES, WMT16_REFERENCES, WMT16_VOCABULARY

SUBWORDS = [f"w{number}" for number in range(40)] + ["ei@@", "ner"]


def sentences(seed, count, longest=20):
    """Return lines of 1 to `longest` random subwords."""
    generator = np.random.default_rng(seed)
    return [
        " ".join(generator.choice(SUBWORDS, generator.integers(1, longest + 1)))
        for _ in range(count)
    ]


def write_lines(path: Path, lines) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_tar(path: Path, contents: dict[str, bytes]) -> None:
    """Write a gzipped tar archive of files by name."""
    with tarfile.open(path, "w:gz") as tar:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def write_processed(folder: Path, train=60, longest=20) -> None:
    """Write small versions of the files that WMT16's script writes."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = {"train": train, "dev": 7, "test": 9}
    for number, ((split, _), name) in enumerate(WMT16_FILES.items()):
        write_lines(folder / name, sentences(number, counts[split], longest))
    write_lines(folder / WMT16_VOCABULARY, SUBWORDS)
    write_lines(folder / WMT16_REFERENCES, [f"Referenz {number}." for number in range(9)])


def write_plain(folder: Path) -> None:
    """Write six files of plain text."""
    folder.mkdir(parents=True, exist_ok=True)
    english = ["The dog, it barks.", "A cat sleeps & dreams.", "The dog sleeps."]
    german = ["Der Hund, er bellt.", "Eine Katze schläft & träumt.", "Der Hund schläft."]
    for split, times in (("train", 20), ("dev", 1), ("test", 1)):
        write_lines(folder / f"{split}.en", english * times)
        write_lines(folder / f"{split}.de", german * times)


SUBTOKENS = [
    ", _",
    "._",
    "the_",
    "the",
    "at_",
    "Der_",
    "wa",
    "_",
    *"\\u;0123456789abcdehlnorstwDTH.,ßä ",
]
"""Small vocabulary, without padding and EOS."""


def write_subtokens(path: Path) -> None:
    """Write the small vocabulary to a file."""
    write_lines(path, [f"'{subtoken}'" for subtoken in ("<pad>_", "<EOS>_", *SUBTOKENS)])
