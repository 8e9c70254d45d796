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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any

from workloads.common.data.archives import DAMAGED, why
from workloads.common.data.hidden import is_hidden_path
from workloads.common.data.lines import blocks, check_equal, chunks, count_lines, decode, read_lines, split_stream
from workloads.common.text.prepared import SIDES, DropReason, Processed, check_any_left, cores
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
    """Return where in the folder `source` each file lies: (file, "") or (archive, member). Hidden files are skipped.

    Raises ValueError naming a missing one, and what is `expected`.
    """
    wanted = set(names)
    places: dict[str, tuple[Path, str]] = {}
    for path in _visible(source, "*"):
        if path.name in wanted and path.is_file():
            places.setdefault(path.name, (path, ""))
    for archive in sorted(itertools.chain.from_iterable(_visible(source, pattern) for pattern in ARCHIVES)):
        if len(places) == len(wanted):
            break
        try:
            with open_stream(archive) as file, tarfile.open(fileobj=file) as tar:
                for member in tar:
                    name = Path(member.name).name
                    if member.size > BYTES_MAXIMUM:
                        raise OSError(f"{name} of {member.size:,} bytes is no file of WMT")
                    if member.isfile() and name in wanted and not is_hidden_path(member.name):
                        places.setdefault(name, (archive, member.name))
        except (OSError, *DAMAGED) as error:
            raise ValueError(f"{archive}: cannot be read ({why(error)}); download it again") from None
    missing = [name for name in names if name not in places]
    if missing:
        raise ValueError(f"{source}: no {missing[0]}, neither as a file nor in an archive; expected are {expected}")
    return places


def _visible(folder: Path, pattern: str) -> list[Path]:
    """Return the files and folders below `folder` that match a pattern and are not hidden, sorted."""
    return sorted(path for path in folder.rglob(pattern) if not is_hidden_path(path.relative_to(folder)))


def unpack_wmt(
    members: dict[str, tuple[Path, str]], languages: Sequence[str], folder: Path
) -> dict[tuple[str, str], str]:
    """Write {train,dev,test}.LANGUAGE below `folder`, plain text as it was published.

    Returns what each was made from, by (split, side), for messages. Raises ValueError naming the published file.
    """
    corpora = {language: [members[f"{corpus}.{language}"] for corpus in WMT_TRAIN] for language in languages}
    join_corpora([corpora[language] for language in languages], [folder / f"train.{code}" for code in languages])
    names = {}
    for side, language in zip(SIDES, languages, strict=True):
        names["train", side] = ", ".join(f"{corpus}.{language}" for corpus in WMT_TRAIN)
        kind = {"de": "src.de", "en": "ref.en"}[language]
        for test, splits in WMT_TESTS.items():
            sgm = f"{test}-deen-{kind}.sgm"
            with _opened(*members[sgm]) as file:
                lines = segments(decode(file.read(), sgm, 1))
            if "test" in splits and "" in lines:
                raise ValueError(f"{sgm}: segment {lines.index('') + 1} is empty; a sentence pair needs both sides")
            for split in splits:
                names[split, side] = ", ".join([*filter(None, [names.get((split, side))]), sgm])
                with (folder / f"{split}.{language}").open("a", encoding="utf-8") as out_text:
                    out_text.writelines(f"{line}\n" for line in lines)
    for split in ("dev", "test"):
        numbers = [count_lines(folder / f"{split}.{language}") for language in languages]
        check_equal(names[split, "source"], names[split, "target"], numbers)
    return names


def join_corpora(sides: Sequence[Sequence[tuple[Path, str]]], out: Sequence[Path], has_mark: bool = False) -> None:
    """Join the corpora of both languages, each in one file of `out`.

    Args:
        sides: Of each language the corpora, (file, "") or (archive, member), in equal order.
        has_mark: As in `append`.

    Raises:
        ValueError: A corpus is not UTF-8, or has other numbers of lines in its two languages; names the published file.
    """
    numbers = []
    for corpora, path in zip(sides, out, strict=True):
        with path.open("wb") as file:
            numbers.append([append(corpus, file, has_mark) for corpus in corpora])
    for source, target, *counts in zip(*sides, *numbers, strict=True):
        check_equal(member_name(source), member_name(target), counts)


def append(member: tuple[Path, str], out: IO[bytes], has_mark: bool = False) -> int:
    """Append a file of text, (file, "") or (archive, member), to another, and return the number of its lines.

    Its last line gets an end if it has none. Raises ValueError naming file and line if it is not UTF-8.

    Args:
        has_mark: Leave out a byte order mark. The references join the published training corpora as they are.
    """
    name, lines = member_name(member), 0
    with _opened(*member) as file:
        for data in split_stream(file, name, has_mark):
            decode(data, name, lines + 1)
            out.write(data if data.endswith(b"\n") else data + b"\n")
            lines += data.count(b"\n") + (not data.endswith(b"\n"))
    return lines


def member_name(member: tuple[Path, str]) -> str:
    """Return the name in messages of a file, (file, "") or (archive, member)."""
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


def process(
    source: Path,
    languages: Sequence[str],
    merges: int,
    folder: Path,
    names: Mapping[tuple[str, str], str] | None = None,
) -> tuple[Processed, dict[str, int]]:
    """Write lines of subwords below `folder`, made from the plain text in `source`; count the pairs that were dropped.

    Args:
        names: Names of the plain files in messages, by (split, side); default: their paths.

    Raises:
        ValueError: Sides with unequal numbers of lines, text that is not UTF-8, or a split of which no pair is left.
    """
    plain = plain_files(source, languages)
    names = {key: str(path) for key, path in plain.items()} if names is None else names
    single_lines = _check_line_counts(plain, names)
    tokenised = {}
    for (split, side), path in plain.items():
        language = languages[SIDES.index(side)]
        tokenised[split, side] = folder / f"{split}.tok.{language}"
        _map_lines(path, tokenised[split, side], tokenise_lines, language, names[split, side], has_mark=True)
    dropped, reasons_by_split = {}, {}
    for split in ("train", "dev"):
        sides = [tokenised[split, side] for side in SIDES]
        cleaned = [folder / f"{split}.tok.clean.{language}" for language in languages]
        pairs, reasons = clean(sides, cleaned)
        hint = _CR_HINT if split in single_lines else ""
        check_any_left(split, [names[split, side] for side in SIDES], pairs - reasons.total(), reasons, hint)
        not_latin1 = reasons[DropReason.NOT_LATIN1]
        dropped[f"{split}_not_clean"], dropped[f"{split}_not_latin1"] = reasons.total() - not_latin1, not_latin1
        reasons_by_split[split] = reasons
        tokenised.update({(split, side): path for side, path in zip(SIDES, cleaned, strict=True)})
    if single_lines:
        raise ValueError(f"{names[single_lines[0], SIDES[0]]}: {_CR_HINT}")
    codes = folder / "codes.bpe"
    # The reference learns from the German side first: ties of frequency are broken by the order of appearance.
    if not learn_bpe([tokenised["train", "target"], tokenised["train", "source"]], merges, codes):
        raise ValueError(
            f"{names['train', 'source']} and {names['train', 'target']}: no two neighboring characters occur twice, so no "
            f"merge can be learned; give more text"
        )
    files = {}
    for (split, side), path in tokenised.items():
        files[split, side] = folder / f"{split}.bpe.{languages[SIDES.index(side)]}"
        _map_lines(path, files[split, side], apply_bpe_lines, str(codes))
    write_vocabulary([files["train", "source"], files["train", "target"]], folder / "vocabulary.bpe")
    processed = Processed(
        files,
        folder / "vocabulary.bpe",
        plain["test", "target"],
        names={**{path: names[key] for key, path in files.items()}, plain["test", "target"]: names["test", "target"]},
        dropped=reasons_by_split,
    )
    return processed, dropped


_CR_HINT = "line ends are CR alone, so the whole file is a single line; convert them: tr '\\r' '\\n' <OLD >NEW"


def _check_line_counts(plain: Mapping[tuple[str, str], Path], names: Mapping[tuple[str, str], str]) -> list[str]:
    """Return the splits whose files are a single line with CRs in it.

    Raises ValueError, naming the file, for an empty file, and for sides with unequal numbers of lines.
    """
    single_lines = []
    for split in ("train", "dev", "test"):
        keys = [(split, side) for side in SIDES]
        numbers = [count_lines(plain[key]) for key in keys]
        is_single = [number == 1 and _has_inner_cr(plain[key]) for key, number in zip(keys, numbers, strict=True)]
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
    """Moses' tokens, as tokenizer.perl -q -l LANGUAGE separates them by spaces, special characters escaped."""
    tokenise = tokeniser(language)
    return [tokenise(line) for line in lines]


@cache
def tokeniser(language: str) -> Tokenise:
    """One line to its tokens."""
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(lang=language)
    return lambda line: str(moses.tokenize(line, return_str=True))


def clean(sides: Sequence[Path], out: Sequence[Path]) -> tuple[int, Counter[DropReason]]:
    """Copy the pairs of lines that stay; return the number of all pairs, and how many were dropped for which reason."""
    pairs, dropped = 0, Counter[DropReason]()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("w", encoding="utf-8")) for path in out]
        for pair in zip(*(_lines(path) for path in sides), strict=True):
            pairs += 1
            words = [line.split() for line in pair]
            reason = _drop_reason(pair, [len(each) for each in words])
            if reason is not None:
                dropped[reason] += 1
                continue
            for file, each in zip(files, words, strict=True):
                file.write(" ".join(each) + "\n")
    return pairs, dropped


def _drop_reason(pair: Sequence[str], word_counts: Sequence[int]) -> DropReason | None:
    """Return why a pair of lines with these numbers of words is dropped; None: it stays."""
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
    """Write the merges that shorten the texts most, without a progress bar; return whether there is any."""
    from subword_nmt.learn_bpe import learn_bpe as learn

    if all(len(word) == 1 for line in _lines(*texts) for word in line.split()):  # subword-nmt fails
        return False
    with codes.open("w", encoding="utf-8") as out, contextlib.redirect_stderr(io.StringIO()):
        learn(_lines(*texts), out, merges)
    return len(read_lines(codes)) > 1


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
    """Yield the lines of files that the suite wrote, one file after the other, without their ends."""
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
    """Write what `function` makes of the lines of `path`, on all cores where there are many.

    Raises ValueError with `name` and line for text that is not UTF-8; `has_mark`: as in `chunks`.
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
                if len(waiting) > 4 * cores():  # bounds the memory of what was read ahead
                    file.writelines(f"{line}\n" for line in waiting.pop(0).result())
            for result in waiting:
                file.writelines(f"{line}\n" for line in result.result())
