"""From downloaded archives or plain text to lines of subwords, in the steps of the reference (download_dataset.sh).

Moses tokenisation per language, removal of pairs that are empty, long or lopsided (clean-corpus-n.perl), removal of pairs that
latin-1 cannot express, and byte pair encoding learned on both languages together. sacremoses and subword-nmt stand in for
the Perl and Python scripts; where their output differs, files differ from the reference's, which their md5 shows.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

from workloads.common.data.archives import DAMAGED, why
from workloads.common.data.lines import blocks, check_equal, chunks, decode
from workloads.common.text.prepared import SIDES, Processed, cores
from workloads.common.text.vocabulary import Vocabulary
from workloads.files import open_stream

CLEAN_WORDS, CLEAN_RATIO = (1, 80), 9
"""Words of a side, and words of one side over those of the other (reference script; Moses' default)."""
TOO_LONG_WORD = re.compile(r"[^\s|]{1001}")
"""Moses drops pairs with a longer word than 1,000 characters ($max_word_length of clean-corpus-n.perl)."""
WMT_TRAIN = ("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v11.de-en")
"""Corpora in the order in which they are joined; a file for each language."""
WMT_TESTS = {"newstest2014": ("test",), "newstest2015": ("dev",), "newstest2016": ("dev",)}
"""Their SGM files, German to English, to the split that they are part of."""
BYTES_MAXIMUM = 1 << 32
"""Of a file in an archive; the largest of WMT16's have 0.3 GB."""
ARCHIVES = ("*.tgz", "*.tar.gz", "*.tar")
POOLED_BYTES = 1 << 24
"""Texts below this are processed without starting processes."""
_SEGMENT = re.compile(r"<seg[^>]*>\s*(.*?)\s*</seg>", re.DOTALL | re.IGNORECASE)

Tokenise = Callable[[str], str]


# -- WMT's archives ----------------------------------------------------------------------------------------------------


def wmt_members(languages: Sequence[str]) -> list[str]:
    """Names of the files that are needed of WMT16's archives."""
    train = [f"{corpus}.{language}" for corpus in WMT_TRAIN for language in languages]
    return train + [f"{test}-deen-{kind}.sgm" for test in WMT_TESTS for kind in ("src.de", "ref.en")]


def find_members(source: Path, names: Sequence[str], expected: str) -> dict[str, tuple[Path, str]]:
    """Where in the folder `source` each file lies: (file, "") or (archive, member).

    Raises ValueError naming a missing one, and what is `expected`.
    """
    wanted = set(names)
    places: dict[str, tuple[Path, str]] = {}
    for path in sorted(source.rglob("*")):
        if path.name in wanted and path.is_file():
            places.setdefault(path.name, (path, ""))
    for archive in sorted(itertools.chain.from_iterable(source.rglob(pattern) for pattern in ARCHIVES)):
        if len(places) == len(wanted):
            break
        try:
            with open_stream(archive) as file, tarfile.open(fileobj=file) as tar:
                for member in tar:
                    name = Path(member.name).name
                    if member.size > BYTES_MAXIMUM:
                        raise OSError(f"{name} of {member.size:,} bytes is no file of WMT")
                    if member.isfile() and name in wanted:
                        places.setdefault(name, (archive, member.name))
        except (OSError, *DAMAGED) as error:
            raise ValueError(f"{archive}: cannot be read ({why(error)}); download it again") from None
    missing = [name for name in names if name not in places]
    if missing:
        raise ValueError(f"{source}: no {missing[0]}, neither as a file nor in an archive; expected are {expected}")
    return places


def unpack_wmt(members: dict[str, tuple[Path, str]], languages: Sequence[str], folder: Path) -> None:
    """Write {train,dev,test}.LANGUAGE below `folder`, plain text as it was published."""
    for language in languages:
        with (folder / f"train.{language}").open("wb") as out:
            for corpus in WMT_TRAIN:
                append(members[f"{corpus}.{language}"], out)
        kind = {"de": "src.de", "en": "ref.en"}[language]
        for test, splits in WMT_TESTS.items():
            with _opened(*members[f"{test}-deen-{kind}.sgm"]) as file:
                lines = segments(decode(file.read(), f"{test}-deen-{kind}.sgm", 1))
            for split in splits:
                with (folder / f"{split}.{language}").open("a", encoding="utf-8") as out_text:
                    out_text.writelines(f"{line}\n" for line in lines)


def append(member: tuple[Path, str], out: IO[bytes]) -> None:
    """Append a file, (file, "") or (archive, member), to another; its last line gets an end if it has none."""
    last = b"\n"
    with _opened(*member) as file:
        while block := file.read(1 << 20):
            out.write(block)
            last = block[-1:]
    if last != b"\n":
        out.write(b"\n")


@contextlib.contextmanager
def _opened(path: Path, member: str) -> Iterator[IO[bytes]]:
    if not member:
        with open_stream(path) as file:
            yield file
        return
    try:
        with open_stream(path) as file, tarfile.open(fileobj=file) as tar:
            inner = tar.extractfile(member)
            assert inner is not None, (path, member)
            yield inner
    except DAMAGED as error:
        raise ValueError(f"{path}: {member} cannot be read ({why(error)}); download it again") from None


def segments(sgm: str) -> list[str]:
    """The sentences of an SGM file, each on one line."""
    return [" ".join(text.split()) for text in _SEGMENT.findall(sgm)]


# -- plain text to subwords -------------------------------------------------------------------------------------------


def plain_files(source: Path, languages: Sequence[str]) -> dict[tuple[str, str], Path]:
    """(split, side) to {train,dev,test}.LANGUAGE in `source`. Raises ValueError for a missing one."""
    files = {
        (s, side): source / f"{s}.{code}"
        for s in ("train", "dev", "test")
        for side, code in zip(SIDES, languages, strict=True)
    }
    for path in files.values():
        if not path.is_file():
            names = ", ".join(f"{split}.{code}" for split in ("train", "dev", "test") for code in languages)
            raise ValueError(f"{path}: no such file; expected are {names}, with a sentence a line")
    return files


def process(source: Path, languages: Sequence[str], merges: int, folder: Path) -> tuple[Processed, dict[str, int]]:
    """Lines of subwords below `folder` from the plain text in `source`; counts of pairs that were dropped.

    Raises ValueError in one line: sides with unequal numbers of lines, text that is not UTF-8.
    """
    plain = plain_files(source, languages)
    for split in ("train", "dev", "test"):
        pair = plain[split, "source"], plain[split, "target"]
        numbers = [sum(data.count(b"\n") + (not data.endswith(b"\n")) for data in chunks(path)) for path in pair]
        check_equal(*pair, numbers)
    tokenised = {}
    for (split, side), path in plain.items():
        language = languages[SIDES.index(side)]
        tokenised[split, side] = folder / f"{split}.tok.{language}"
        _map_lines(path, tokenised[split, side], tokenise_lines, language)
    dropped = {}
    for split in ("train", "dev"):
        sides = [tokenised[split, side] for side in SIDES]
        cleaned = [folder / f"{split}.tok.clean.{language}" for language in languages]
        dropped[f"{split}_not_clean"], dropped[f"{split}_not_latin1"] = clean(sides, cleaned)
        tokenised.update({(split, side): path for side, path in zip(SIDES, cleaned, strict=True)})
    codes = folder / "codes.bpe"
    # The reference learns from the German side first: ties of frequency are broken by the order of appearance.
    learn_bpe([tokenised["train", "target"], tokenised["train", "source"]], merges, codes)
    files = {}
    for (split, side), path in tokenised.items():
        files[split, side] = folder / f"{split}.bpe.{languages[SIDES.index(side)]}"
        _map_lines(path, files[split, side], apply_bpe_lines, str(codes))
    write_vocabulary([files["train", "source"], files["train", "target"]], folder / "vocabulary.bpe")
    return Processed(files, folder / "vocabulary.bpe", plain["test", "target"]), dropped


def tokenise_lines(lines: list[str], language: str) -> list[str]:
    """Moses' tokens, as tokenizer.perl -q -l LANGUAGE separates them by spaces, special characters escaped."""
    tokenise = tokeniser(language)
    return [tokenise(line) for line in lines]


@cache
def tokeniser(language: str) -> Tokenise:
    """One line to its tokens."""
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(lang=language)
    return lambda line: str(moses.tokenize(line, return_str=True))


def clean(sides: Sequence[Path], out: Sequence[Path]) -> tuple[int, int]:
    """Copy the pairs that stay; how many were dropped for their words, and for what latin-1 lacks."""
    not_clean = not_latin1 = 0
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("w", encoding="utf-8")) for path in out]
        for pair in zip(*(_lines(path) for path in sides), strict=True):
            words = [line.split() for line in pair]
            counts = sorted(len(each) for each in words)
            fits = CLEAN_WORDS[0] <= counts[0] and counts[1] <= min(CLEAN_WORDS[1], CLEAN_RATIO * counts[0])
            if not fits or any(map(TOO_LONG_WORD.search, pair)):
                not_clean += 1
            elif max("".join(pair)) > "\xff":
                not_latin1 += 1
            else:
                for file, each in zip(files, words, strict=True):
                    file.write(" ".join(each) + "\n")
    return not_clean, not_latin1


def learn_bpe(texts: Sequence[Path], merges: int, codes: Path) -> None:
    """Write the merges that shorten the texts most. subword-nmt's progress bar is not shown."""
    from subword_nmt.learn_bpe import learn_bpe as learn

    with codes.open("w", encoding="utf-8") as out, contextlib.redirect_stderr(io.StringIO()):
        learn(_lines(*texts), out, merges)


def apply_bpe_lines(lines: list[str], codes: str) -> list[str]:
    """Lines of words as lines of subwords."""
    merges = _merges(codes)
    return [merges.process_line(line) for line in lines]


@cache
def _merges(codes: str) -> Any:
    from subword_nmt.apply_bpe import BPE

    with open(codes, encoding="utf-8") as file:
        return BPE(file)


def write_vocabulary(texts: Sequence[Path], out: Path) -> None:
    """The subwords of the texts, the most frequent first, of equal ones the one seen first (get_vocab.py)."""
    counts = Counter(subword for line in _lines(*texts) for subword in line.split())
    Vocabulary([subword for subword, _ in counts.most_common()]).write(out)


def _lines(*paths: Path) -> Iterator[str]:
    """Lines of one file after the other, without their ends. Raises ValueError naming file and line."""
    for path in paths:
        for _, lines in blocks(path):
            yield from lines


def _batches(lines: Iterable[str], size: int = 5_000) -> Iterator[list[str]]:
    iterator = iter(lines)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


def _map_lines(path: Path, out: Path, function: Callable[[list[str], str], list[str]], argument: str) -> None:
    """Write what `function` makes of the lines of `path`, on all cores where there are many."""
    with out.open("w", encoding="utf-8") as file:
        if path.stat().st_size < POOLED_BYTES or cores() == 1:
            for batch in _batches(_lines(path)):
                file.writelines(f"{line}\n" for line in function(batch, argument))
            return
        with ProcessPoolExecutor(cores(), mp_context=get_context("forkserver")) as pool:
            waiting: list[Any] = []
            for batch in _batches(_lines(path)):
                waiting.append(pool.submit(function, batch, argument))
                if len(waiting) > 4 * cores():  # bounds the memory of what was read ahead
                    file.writelines(f"{line}\n" for line in waiting.pop(0).result())
            for result in waiting:
                file.writelines(f"{line}\n" for line in result.result())
