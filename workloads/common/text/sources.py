"""Convert downloaded archives or plain text to lines of subwords.

The steps are the same as in the reference (download_dataset.sh). Each language is tokenized with
Moses. Pairs with an empty or long sentence, or with sentences of very different lengths, are
removed (clean-corpus-n.perl). Pairs with characters that latin-1 cannot encode are also removed. A
byte pair encoding is learned from the text of both languages. sacremoses and subword-nmt replace
the Perl and Python scripts of the reference. If the output of these packages differs from the
reference's output, the MD5 digests of the files differ.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

from workloads.common.data.archives import DAMAGED, why
from workloads.common.data.hidden import is_hidden_path
from workloads.common.data.lines import (
    blocks,
    check_equal,
    chunks,
    count_lines,
    decode,
    read_lines,
    split_stream,
)
from workloads.common.text.prepared import SIDES, DropReason, Processed, check_any_left, cores
from workloads.common.text.vocabulary import Vocabulary
from workloads.files import open_stream

CLEAN_WORDS, CLEAN_RATIO = (1, 80), 9
"""Limits of a sentence pair: range of the number of words per sentence, and maximum ratio of the
lengths of the two sentences.

The limits are from the reference script and the default of Moses.
"""
TOO_LONG_WORD = re.compile(r"[^\s|]{1001}")
"""Pattern of a word with more than 1,000 characters.

Moses drops pairs with such a word ($max_word_length of clean-corpus-n.perl).
"""
WMT_TRAIN = ("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v11.de-en")
"""Training corpora in the order of their concatenation. Each corpus has one file per language."""
WMT_TESTS = {"newstest2014": ("test",), "newstest2015": ("dev",), "newstest2016": ("dev",)}
"""Splits that use each WMT test set. The SGM files for German to English are used."""
BYTES_MAXIMUM = 1 << 32
"""Maximum size of a file in an archive, in bytes. The largest files of WMT16 have 0.3 GB."""
ARCHIVES = ("*.tgz", "*.tar.gz", "*.tar")
POOLED_BYTES = 1 << 24
"""Minimum size in bytes of a text that several processes process in parallel."""
_SEGMENT = re.compile(r"<seg[^>]*>\s*(.*?)\s*</seg>", re.DOTALL | re.IGNORECASE)

Tokenise = Callable[[str], str]


# -- WMT's archives
# --------------------------------------------------------------------------------------------------


def wmt_members(languages: Sequence[str]) -> list[str]:
    """Return the names of the required files in the WMT16 archives."""
    train = [f"{corpus}.{language}" for corpus in WMT_TRAIN for language in languages]
    return train + [
        f"{test}-deen-{kind}.sgm" for test in WMT_TESTS for kind in ("src.de", "ref.en")
    ]


def find_members(source: Path, names: Sequence[str], expected: str) -> dict[str, tuple[Path, str]]:
    """Return the location of each file below `source`: (file, "") or (archive, member).

    Hidden files are skipped.

    Args:
        source: Folder, file, or archive.
        names: Names of the files to find.
        expected: Description of the expected input, for the error message.

    Raises:
        ValueError: A file is missing, or an archive cannot be read.
    """
    wanted = set(names)
    places: dict[str, tuple[Path, str]] = {}
    for path in _visible(source, "*"):
        if path.name in wanted and path.is_file():
            places.setdefault(path.name, (path, ""))
    for archive in sorted(
        itertools.chain.from_iterable(_visible(source, pattern) for pattern in ARCHIVES)
    ):
        if len(places) == len(wanted):
            break
        try:
            with open_stream(archive) as file, tarfile.open(fileobj=file) as tar:
                for member in tar:
                    name = Path(member.name).name
                    if member.size > BYTES_MAXIMUM:
                        raise OSError(f"{name} has {member.size:,} bytes, too many for a WMT file")
                    if member.isfile() and name in wanted and not is_hidden_path(member.name):
                        places.setdefault(name, (archive, member.name))
        except (OSError, *DAMAGED) as error:
            raise ValueError(
                f"{archive}: cannot be read ({why(error)}). Download it again"
            ) from None
    missing = [name for name in names if name not in places]
    if missing:
        raise ValueError(
            f"{source}: no {missing[0]}, neither as a file nor in an archive. Expected: {expected}"
        )
    return places


def _visible(folder: Path, pattern: str) -> list[Path]:
    """Return the files and folders below `folder` that match `pattern` and are not hidden.

    The result is sorted.
    """
    return sorted(
        path for path in folder.rglob(pattern) if not is_hidden_path(path.relative_to(folder))
    )


def unpack_wmt(
    members: dict[str, tuple[Path, str]], languages: Sequence[str], folder: Path
) -> dict[tuple[str, str], str]:
    """Write the published text without changes to {train,dev,test}.LANGUAGE in `folder`.

    The function returns the names of the source files by (split, side), for messages. The function
    raises ValueError if a published file is invalid. The error message contains the name of the
    published file.
    """
    corpora = {
        language: [members[f"{corpus}.{language}"] for corpus in WMT_TRAIN]
        for language in languages
    }
    join_corpora(
        [corpora[language] for language in languages],
        [folder / f"train.{code}" for code in languages],
    )
    names = {}
    for side, language in zip(SIDES, languages, strict=True):
        names["train", side] = ", ".join(f"{corpus}.{language}" for corpus in WMT_TRAIN)
        kind = {"de": "src.de", "en": "ref.en"}[language]
        for test, splits in WMT_TESTS.items():
            sgm = f"{test}-deen-{kind}.sgm"
            with _opened(*members[sgm]) as file:
                lines = segments(decode(file.read(), sgm, 1))
            if "test" in splits and "" in lines:
                raise ValueError(
                    f"{sgm}: segment {lines.index('') + 1} is empty. A sentence pair needs both"
                    " sides"
                )
            for split in splits:
                names[split, side] = ", ".join([*filter(None, [names.get((split, side))]), sgm])
                with (folder / f"{split}.{language}").open("a", encoding="utf-8") as out_text:
                    out_text.writelines(f"{line}\n" for line in lines)
    for split in ("dev", "test"):
        numbers = [count_lines(folder / f"{split}.{language}") for language in languages]
        check_equal(names[split, "source"], names[split, "target"], numbers)
    return names


def join_corpora(
    sides: Sequence[Sequence[tuple[Path, str]]], out: Sequence[Path], has_mark: bool = False
) -> None:
    """Concatenate the corpora of each language into one file per language.

    Args:
        sides: Corpora of each language, as (file, "") or (archive, member), in the same order for
            both languages.
        out: Output file of each language.
        has_mark: Whether to skip a byte order mark, as in `append`.

    Raises:
        ValueError: A corpus is not UTF-8, or has different numbers of lines in its two languages.
            The error message contains the name of the published file.
    """
    numbers = []
    for corpora, path in zip(sides, out, strict=True):
        with path.open("wb") as file:
            numbers.append([append(corpus, file, has_mark) for corpus in corpora])
    for source, target, *counts in zip(*sides, *numbers, strict=True):
        check_equal(member_name(source), member_name(target), counts)


def append(member: tuple[Path, str], out: IO[bytes], has_mark: bool = False) -> int:
    """Append a text file to an open file, and return the number of lines.

    The text file is given as (file, "") or (archive, member). A missing line end is added to the
    last line.

    Args:
        member: The text file.
        out: The open file.
        has_mark: Whether to skip a byte order mark. The references do not skip byte order marks
            when they concatenate the published training corpora.

    Raises:
        ValueError: The text is not UTF-8. The error message contains the file name and the line
            number.
    """
    name, lines = member_name(member), 0
    with _opened(*member) as file:
        for data in split_stream(file, name, has_mark):
            decode(data, name, lines + 1)
            out.write(data if data.endswith(b"\n") else data + b"\n")
            lines += data.count(b"\n") + (not data.endswith(b"\n"))
    return lines


def member_name(member: tuple[Path, str]) -> str:
    """Return the name of a file, given as (file, "") or (archive, member), for messages."""
    path, inner = member
    return f"{path}:{inner}" if inner else str(path)


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
        raise ValueError(
            f"{path}: {member} cannot be read ({why(error)}). Download the archive again"
        ) from None


def segments(sgm: str) -> list[str]:
    """Return the sentences of an SGM file.

    Each run of white space becomes a single space.
    """
    return [" ".join(text.split()) for text in _SEGMENT.findall(sgm)]


# -- plain text to subwords
# -------------------------------------------------------------------------------------------


def plain_files(source: Path, languages: Sequence[str]) -> dict[tuple[str, str], Path]:
    """Return the files {train,dev,test}.LANGUAGE in `source` by (split, side).

    The function raises ValueError if a file is missing.
    """
    files = {
        (s, side): source / f"{s}.{code}"
        for s in ("train", "dev", "test")
        for side, code in zip(SIDES, languages, strict=True)
    }
    for path in files.values():
        if not path.is_file():
            names = ", ".join(
                f"{split}.{code}" for split in ("train", "dev", "test") for code in languages
            )
            raise ValueError(f"{path}: no such file. Expected: {names}, with one sentence per line")
    return files


def process(
    source: Path,
    languages: Sequence[str],
    merges: int,
    folder: Path,
    names: Mapping[tuple[str, str], str] | None = None,
) -> tuple[Processed, dict[str, int]]:
    """Convert the plain text in `source` to lines of subwords in `folder`.

    Args:
        source: Folder with the plain text.
        languages: Source and target language.
        merges: Number of merges of the byte pair encoding.
        folder: Output folder.
        names: Names of the plain text files for messages, by (split, side). By default, messages
            show the paths of the files.

    Returns:
        The processed files, and the numbers of dropped pairs.

    Raises:
        ValueError: The source and the target file have different numbers of lines, the text is not
            UTF-8, or no pair of a split is left.
    """
    plain = plain_files(source, languages)
    names = {key: str(path) for key, path in plain.items()} if names is None else names
    single_lines = _check_line_counts(plain, names)
    tokenised = {}
    for (split, side), path in plain.items():
        language = languages[SIDES.index(side)]
        tokenised[split, side] = folder / f"{split}.tok.{language}"
        _map_lines(
            path,
            tokenised[split, side],
            tokenise_lines,
            language,
            names[split, side],
            has_mark=True,
        )
    dropped, reasons_by_split = {}, {}
    for split in ("train", "dev"):
        sides = [tokenised[split, side] for side in SIDES]
        cleaned = [folder / f"{split}.tok.clean.{language}" for language in languages]
        pairs, reasons = clean(sides, cleaned)
        hint = _CR_HINT if split in single_lines else ""
        check_any_left(
            split, [names[split, side] for side in SIDES], pairs - reasons.total(), reasons, hint
        )
        not_latin1 = reasons[DropReason.NOT_LATIN1]
        dropped[f"{split}_not_clean"], dropped[f"{split}_not_latin1"] = (
            reasons.total() - not_latin1,
            not_latin1,
        )
        reasons_by_split[split] = reasons
        tokenised.update({(split, side): path for side, path in zip(SIDES, cleaned, strict=True)})
    if single_lines:
        raise ValueError(f"{names[single_lines[0], SIDES[0]]}: {_CR_HINT}")
    codes = folder / "codes.bpe"
    # The reference reads the German text before the English text when it learns the merges. The
    # order matters, because pairs of equal frequency are merged in the order of their first
    # occurrence.
    if not learn_bpe([tokenised["train", "target"], tokenised["train", "source"]], merges, codes):
        raise ValueError(
            f"{names['train', 'source']} and {names['train', 'target']}: no two neighboring"
            " characters occur twice, so no merge can be learned. Add more text"
        )
    files = {}
    for (split, side), path in tokenised.items():
        files[split, side] = folder / f"{split}.bpe.{languages[SIDES.index(side)]}"
        _map_lines(path, files[split, side], apply_bpe_lines, str(codes))
    write_vocabulary(
        [files["train", "source"], files["train", "target"]], folder / "vocabulary.bpe"
    )
    processed = Processed(
        files,
        folder / "vocabulary.bpe",
        plain["test", "target"],
        names={
            **{path: names[key] for key, path in files.items()},
            plain["test", "target"]: names["test", "target"],
        },
        dropped=reasons_by_split,
    )
    return processed, dropped


_CR_HINT = (
    "line ends are CR alone, so the whole file is a single line. To convert them, run: tr '\\r'"
    " '\\n' <OLD >NEW"
)


def _check_line_counts(
    plain: Mapping[tuple[str, str], Path], names: Mapping[tuple[str, str], str]
) -> list[str]:
    """Return the splits whose files consist of a single line with CR characters.

    The function raises ValueError if a file is empty, or if the source and the target file have
    different numbers of lines. The error message contains the file name.
    """
    single_lines = []
    for split in ("train", "dev", "test"):
        keys = [(split, side) for side in SIDES]
        numbers = [count_lines(plain[key]) for key in keys]
        is_single = [
            number == 1 and _has_inner_cr(plain[key])
            for key, number in zip(keys, numbers, strict=True)
        ]
        for key, number, single in zip(keys, numbers, is_single, strict=True):
            if not number:
                raise ValueError(f"{names[key]}: no line of text")
            if single and not all(is_single):
                raise ValueError(f"{names[key]}: {_CR_HINT}")
        check_equal(names[keys[0]], names[keys[1]], numbers)
        if any(is_single):
            single_lines.append(split)
    return single_lines


def _has_inner_cr(path: Path) -> bool:
    return b"\r" in b"".join(chunks(path)).rstrip(b"\r\n")


def tokenise_lines(lines: list[str], language: str) -> list[str]:
    """Split lines into Moses tokens separated by spaces, with special characters escaped.

    The tokens are the same as in the output of tokenizer.perl -q -l LANGUAGE.
    """
    tokenise = tokeniser(language)
    return [tokenise(line) for line in lines]


@cache
def tokeniser(language: str) -> Tokenise:
    """Return a function that splits a line into Moses tokens separated by spaces."""
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(lang=language)
    return lambda line: str(moses.tokenize(line, return_str=True))


def clean(sides: Sequence[Path], out: Sequence[Path]) -> tuple[int, Counter[DropReason]]:
    """Copy the sentence pairs that pass all cleaning rules.

    The function returns the number of all pairs, and the number of dropped pairs for each reason.
    """
    pairs, dropped = 0, Counter[DropReason]()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("w", encoding="utf-8")) for path in out]
        for pair in zip(*(_lines(path) for path in sides), strict=True):
            pairs += 1
            words = [line.split() for line in pair]
            reason = _drop_reason(pair, [len(side) for side in words])
            if reason is not None:
                dropped[reason] += 1
                continue
            for file, side in zip(files, words, strict=True):
                file.write(" ".join(side) + "\n")
    return pairs, dropped


def _drop_reason(pair: Sequence[str], word_counts: Sequence[int]) -> DropReason | None:
    """Return the reason for dropping a pair of lines, or None to keep the pair."""
    fewest, most = min(word_counts), max(word_counts)
    if fewest < CLEAN_WORDS[0]:
        return DropReason.EMPTY
    if most > CLEAN_WORDS[1]:
        return DropReason.MANY_WORDS
    if most > CLEAN_RATIO * fewest:
        return DropReason.LOPSIDED
    if any(map(TOO_LONG_WORD.search, pair)):
        return DropReason.LONG_WORD
    if max("".join(pair)) > "\xff":
        return DropReason.NOT_LATIN1
    return None


def learn_bpe(texts: Sequence[Path], merges: int, codes: Path) -> bool:
    """Learn a byte pair encoding and write its merges to `codes`.

    The function shows no progress bar. The function returns False if no merge was found.
    """
    from subword_nmt.learn_bpe import learn_bpe as learn

    # subword-nmt fails if all words have only one character.
    if all(len(word) == 1 for line in _lines(*texts) for word in line.split()):
        return False
    with codes.open("w", encoding="utf-8") as out, contextlib.redirect_stderr(io.StringIO()):
        learn(_lines(*texts), out, merges)
    return len(read_lines(codes)) > 1


def apply_bpe_lines(lines: list[str], codes: str) -> list[str]:
    """Split the words of lines into subwords."""
    merges = _merges(codes)
    return [merges.process_line(line) for line in lines]


@cache
def _merges(codes: str) -> Any:
    from subword_nmt.apply_bpe import BPE

    with open(codes, encoding="utf-8") as file:
        return BPE(file)


def write_vocabulary(texts: Sequence[Path], out: Path) -> None:
    """Write the subwords to `out`, sorted by frequency.

    Subwords of equal frequency are in the order of their first occurrence (get_vocab.py).
    """
    counts = Counter(subword for line in _lines(*texts) for subword in line.split())
    Vocabulary([subword for subword, _ in counts.most_common()]).write(out)


def _lines(*paths: Path) -> Iterator[str]:
    """Yield the lines of several files without their line ends.

    The function reads only files that the suite created.
    """
    for path in paths:
        for _, lines in blocks(path, has_mark=False):
            yield from lines


def _batches(lines: Iterable[str], size: int = 5_000) -> Iterator[list[str]]:
    iterator = iter(lines)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


def _map_lines(
    path: Path,
    out: Path,
    function: Callable[[list[str], str], list[str]],
    argument: str,
    name: str = "",
    has_mark: bool = False,
) -> None:
    """Apply `function` to the lines of `path` and write the result to `out`.

    Files of at least `POOLED_BYTES` are processed on all CPU cores.

    Args:
        path: File to read.
        out: File to write.
        function: Function that converts a list of lines.
        argument: Second argument of `function`.
        name: Name of the file in messages. Default: the path of the file.
        has_mark: Whether to skip a byte order mark, as in `chunks`.

    Raises:
        ValueError: The text is not UTF-8. The error message contains the name and the line number.
    """
    lines = (line for _, some in blocks(path, name or path, has_mark) for line in some)
    with out.open("w", encoding="utf-8") as file:
        if path.stat().st_size < POOLED_BYTES or cores() == 1:
            for batch in _batches(lines):
                file.writelines(f"{line}\n" for line in function(batch, argument))
            return
        with ProcessPoolExecutor(cores(), mp_context=get_context("forkserver")) as pool:
            waiting: list[Any] = []
            for batch in _batches(lines):
                waiting.append(pool.submit(function, batch, argument))
                # The limit bounds the memory for lines that are read in advance.
                if len(waiting) > 4 * cores():
                    file.writelines(f"{line}\n" for line in waiting.pop(0).result())
            for result in waiting:
                file.writelines(f"{line}\n" for line in result.result())
