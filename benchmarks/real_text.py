"""Train translation on real text: English-German messages from Debian packages.

    python -m benchmarks.real_text corpus --to DIR [--debs DIR] [PACKAGE …]
    suite data prepare parallel-text --from DIR/text --merges 4000 --to DIR/parallel-text
    python -m benchmarks.real_text baselines --corpus DIR
    python -m benchmarks.real_text train --corpus DIR --to RUNS [--runs gnmt-pytorch-demo,…]
        [--minutes 20] [--cores 2]

The output is JSON. The benchmark is only a plausibility check: messages of programs are short and
similar, and no published score is comparable. The messages have many licenses, so the repository
does not contain any of them.

`corpus` downloads the packages on the command line with apt-get, or reads the files in --debs. By
default, the packages are those in real_text_packages.txt. `corpus` extracts the German message
catalogs and writes {train,dev,test}.{en,de} with a sentence per line. The corpus contains no two
English sentences that differ only in letter case or digits. A hash of the text selects the sentence
pairs for dev and test.

`train` ends a run that takes longer than --minutes. The BLEU scores of such a run are those of the
evaluations before the run was ended. Concurrent load on the machine affects the wall-clock time,
but not the CPU minutes. If two commands run at the same time with --cores 1, pin the commands to
different cores (taskset -c 0, taskset -c 1).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from benchmarks.measuring import PROJECT, parser_with, show
from workloads.common.text import bleu, sources

PACKAGES = PROJECT / "benchmarks" / "real_text_packages.txt"
"""List of Debian 12 packages with German message catalogs. The total size of the packages is 300
MB.
"""
CATALOGUE = re.compile(r"(^|/)de(_DE)?/LC_MESSAGES/[^/]+\.mo$|/[^/]*de_DE\.mo$")
HELD_OUT = {"test": 500, "dev": 500}
WORDS = (4, 50)
"""Minimum and maximum number of words in a sentence."""
RATIO = 2.5
"""Maximum ratio between the numbers of words in a source sentence and its translation."""
ITERATIONS = 8
"""Number of expectation-maximization iterations for the word-by-word lexicon."""
MEDIUM_GNMT = ("workload.hidden=256", "workload.layers=3")
MEDIUM_TRANSFORMER = (
    "workload.hidden=256",
    "workload.feed_forward=1024",
    "workload.layers=3",
    "workload.heads=4",
)
RUNS: dict[str, tuple[int, tuple[str, ...]]] = {
    "gnmt-pytorch-demo": (4, ()),
    "gnmt-mxnet-demo": (4, ()),
    "transformer-pytorch-demo": (6, ()),
    "gnmt-pytorch-medium": (4, (*MEDIUM_GNMT, "workload.learning_rate=0.002")),
    "transformer-pytorch-medium": (6, (*MEDIUM_TRANSFORMER, "workload.learning_rate=0.0015")),
}
"""Maps the name of a run (workload, framework, size) to the pair (number of epochs, overrides of
the demo's settings).
"""

Floats = npt.NDArray[np.float64]
_ODD = re.compile(r"[<>%{}\\|=_&$@#~`*\[\]/^\0]|--|\.\w|:$")
"""Pattern of markup, placeholders, options, and paths. Messages that match the pattern are not
sentences.
"""
_MNEMONIC = re.compile(r"[_&](?=\w)")
_PLAIN = str.maketrans(
    {
        "„": '"',
        "“": '"',
        "”": '"',
        "«": '"',
        "»": '"',
        "‚": "'",
        "‘": "'",
        "’": "'",
        "–": "-",
        "…": "...",
    }
)
_BOUNDARY = re.compile(r"(?<=[.!?]) +(?=[A-ZÄÖÜ])")


# -- corpus --


def catalogues(deb: Path) -> Iterator[bytes]:
    """Yield the German message catalogs in a package."""
    command = ["dpkg-deb", "--fsys-tarfile", str(deb)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as tar,
    ):
        for member in tar:
            file = (
                tar.extractfile(member)
                if member.isfile() and CATALOGUE.search(member.name)
                else None
            )
            if file is not None:
                yield file.read()


def messages(catalogue: bytes) -> Iterator[tuple[str, str]]:
    """Yield the original and the translation of each message in a .mo file.

    The format is described in the GNU gettext manual, "The Format of GNU MO Files".
    """
    order = "<" if catalogue[:4] == b"\xde\x12\x04\x95" else ">"
    count, originals, translations = struct.unpack_from(f"{order}3I", catalogue, 8)
    for number in range(count):
        texts = []
        for table in (originals, translations):
            length, start = struct.unpack_from(f"{order}2I", catalogue, table + 8 * number)
            # Use only the first plural form of a message.
            texts.append(catalogue[start : start + length].split(b"\0")[0])
        try:
            yield texts[0].decode().split("\4")[-1], texts[1].decode()
        except UnicodeDecodeError:
            continue


def sentences(original: str, translation: str) -> Iterable[tuple[str, str]]:
    """Yield the sentence pairs of a message.

    If original and translation have different numbers of sentences, the whole message becomes one
    pair.
    """
    sides = [
        " ".join(_MNEMONIC.sub("", text.translate(_PLAIN)).split())
        for text in (original, translation)
    ]
    found = [_BOUNDARY.split(side) for side in sides]
    return zip(*found, strict=True) if len(found[0]) == len(found[1]) else [(sides[0], sides[1])]


def is_kept(pair: tuple[str, str]) -> bool:
    """Check whether a pair of strings looks like a sentence and its translation."""
    if pair[0] == pair[1] or any(_ODD.search(side) for side in pair):
        return False
    counts = sorted(len(side.split()) for side in pair)
    if not (WORDS[0] <= counts[0] and counts[1] <= min(WORDS[1], RATIO * counts[0])):
        return False
    return all(ord(c) < 0x100 for side in pair for c in side)


def write_corpus(debs: Iterable[Path], folder: Path) -> dict[str, int]:
    """Write {train,dev,test}.{en,de} to `folder`, and return the numbers of sentences."""
    pairs: dict[str, tuple[str, str]] = {}
    counts = Counter[str]()
    for deb in debs:
        for catalogue in catalogues(deb):
            counts["catalogues"] += 1
            for message in messages(catalogue):
                counts["messages"] += 1
                for pair in filter(is_kept, sentences(*message)):
                    pairs.setdefault(re.sub(r"[\W\d_]+", " ", pair[0].lower()), pair)
    order = sorted(pairs.values(), key=lambda pair: hashlib.sha256(pair[0].encode()).digest())
    folder.mkdir(parents=True)
    first = 0
    for split, count in {**HELD_OUT, "train": len(order) - sum(HELD_OUT.values())}.items():
        for side, language in enumerate(("en", "de")):
            lines = [f"{pair[side]}\n" for pair in order[first : first + count]]
            (folder / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
        counts[split] = count
        first += count
    counts["english_words"] = sum(len(pair[0].split()) for pair in order)
    return dict(counts)


def corpus(arguments: argparse.Namespace) -> dict[str, Any]:
    """Download missing packages, and write the sentence pairs."""
    text = arguments.to / "text"
    if text.exists():
        sys.exit(f"{text} exists; pass another folder with --to, or remove it")
    if arguments.debs:
        return write_corpus(sorted(arguments.debs.glob("*.deb")), text)
    with tempfile.TemporaryDirectory() as temporary:
        command = [
            "apt-get",
            "-qq",
            "download",
            *(arguments.packages or PACKAGES.read_text().split()),
        ]
        subprocess.run(command, cwd=temporary, check=True)
        return write_corpus(sorted(Path(temporary).glob("*.deb")), text)


# -- baselines --


def read(folder: Path, split: str, language: str) -> list[str]:
    """Return the lines of a split (train, dev, or test) in a language."""
    return (folder / "text" / f"{split}.{language}").read_text(encoding="utf-8").splitlines()


def tokens(lines: list[str], language: str) -> list[list[str]]:
    """Split lines into Moses tokens, as in translation runs."""
    return [line.split() for line in sources.tokenise_lines(lines, language)]


def lexicon(source: list[list[str]], target: list[list[str]]) -> dict[str, str]:
    """Return the most probable translation of each source word.

    The probabilities are estimated from the sentence pairs with IBM model 1.
    """
    names: list[list[str]] = []
    ids = []
    for side in (source, target):
        place = {
            word: number
            for number, word in enumerate(dict.fromkeys(word for line in side for word in line))
        }
        names.append(list(place))
        ids.append([np.array([place[word] for word in line]) for line in side])
    pairs = list(zip(*ids, strict=True))
    keys = np.concatenate([(s[:, None] * len(names[1]) + t).ravel() for s, t in pairs])
    of_target = np.cumsum([0, *(len(t) for _, t in pairs)])
    places = np.concatenate(
        [
            np.tile(o + np.arange(len(t)), len(s))
            for o, (s, t) in zip(of_target[:-1], pairs, strict=True)
        ]
    )
    distinct, cells = np.unique(keys, return_inverse=True)
    word = distinct // len(names[1])
    share: Floats = np.ones(len(distinct))
    for _ in range(ITERATIONS):
        weight = share[cells]
        weight /= np.bincount(places, weight)[places]
        share = np.bincount(cells, weight).astype(np.float64)
        share /= np.bincount(word, share)[word]
    order = np.lexsort((share, word))
    last = np.append(np.flatnonzero(np.diff(word[order])), len(order) - 1)
    return {names[0][word[row]]: names[1][distinct[row] % len(names[1])] for row in order[last]}


def suggestion(train: list[list[str]], test: list[list[str]]) -> list[int]:
    """Return the index of the most similar training sentence for each test sentence.

    The similarity is the cosine similarity of words, weighted by rarity.
    """
    found = defaultdict(list)
    for number, line in enumerate(train):
        for word in set(line):
            found[word].append(number)
    weight = {word: np.log(len(train) / len(rows)) ** 2 for word, rows in found.items()}
    norm = np.sqrt([sum(weight[word] for word in set(line)) + 1e-9 for line in train])
    best = []
    for line in test:
        score = np.zeros(len(train))
        for word in set(line) & set(found):
            score[found[word]] += weight[word]
        best.append(int(np.argmax(score / norm)))
    return best


def baselines(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return BLEU on the test sentences for baseline translations without a model."""
    folder = arguments.corpus
    english, german = (
        tokens(read(folder, "train", language), language) for language in ("en", "de")
    )
    test, references = tokens(read(folder, "test", "en"), "en"), read(folder, "test", "de")
    lower = [[[word.lower() for word in line] for line in side] for side in (english, german, test)]
    words, write = lexicon(lower[0], lower[1]), bleu.detokeniser("de")
    word_by_word = [write(" ".join(words.get(word, word) for word in line)) for line in lower[2]]
    like = [write(" ".join(german[number])) for number in suggestion(lower[0], lower[2])]
    translations = {
        "copy_source": read(folder, "test", "en"),
        "word_by_word": word_by_word,
        "nearest_training_sentence": like,
    }
    scores = {name: round(bleu.score(lines, references), 2) for name, lines in translations.items()}
    return {
        "bleu": scores,
        "metric_signatures": bleu.signature(),
        "training_pairs": len(english),
        "test_pairs": len(test),
    }


# -- runs --


def seconds_of(process: psutil.Process, seen: dict[int, float]) -> float:
    """Return the CPU seconds that a process and its descendants have used.

    If a descendant has ended, its CPU seconds are those of the last measurement before its end.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                seen[each.pid] = times.user + times.system
    return sum(seen.values())


def train_run(name: str, arguments: argparse.Namespace, output: Path) -> dict[str, Any]:
    """Train once, and return BLEU after each epoch.

    Each BLEU score is returned with the minutes and the CPU minutes since the start of the command.
    """
    workload, framework, _ = name.split("-")
    epochs, sizes = RUNS[name]
    epochs = arguments.epochs or epochs
    words = [
        f"workload={workload}",
        f"framework={framework}",
        "profile=demo",
        "workload.dataset=parallel-text",
        *sizes,
    ]
    words += [
        f"workload.max_epochs={epochs}",
        f"stop=epochs:{epochs}",
        "gpus=1",
        "device=cpu",
        "seed=1",
    ]
    words += [f"cpu.cores_per_device={arguments.cores}", f"output={output}"]
    variables = {**os.environ, "SUITE_DATA_DIR": str(arguments.corpus.resolve())}
    start, seen, rows = time.monotonic(), dict[int, float](), list[dict[str, Any]]()
    output.parent.mkdir(parents=True, exist_ok=True)
    with (output.parent / f"{output.name}.txt").open("w") as log:
        command = [sys.executable, str(PROJECT / "run_suite.py"), *words]
        process = psutil.Popen(
            command, cwd=PROJECT, env=variables, stdout=log, stderr=subprocess.STDOUT
        )
        stopped, ended = False, False
        while not ended:
            time.sleep(2)
            ended = process.poll() is not None
            used = seconds_of(process, seen) / 60
            minutes = (time.monotonic() - start) / 60
            spent = {"minutes": round(minutes, 1), "cpu_minutes": round(used, 1)}
            rows += [{**row, **spent} for row in evaluations(output)[len(rows) :]]
            if minutes > arguments.minutes and not stopped:
                process.terminate()
                stopped = True
    load = round(os.getloadavg()[0], 1)
    return {
        "settings": words[:-1],
        "ended_by_time": stopped,
        "evaluations": rows,
        "load_1_minute": load,
    }


def evaluations(output: Path) -> list[dict[str, Any]]:
    """Return BLEU in points (0 to 100) and the validation loss after each completed epoch."""
    found = list(output.glob("*/run_0/metrics.jsonl"))
    text = found[0].read_text() if found else ""
    blocks = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    scores = [(block["block"], block["quality"]) for block in blocks]
    return [
        {
            "epoch": epoch,
            "bleu": round(100 * score["bleu"], 2),
            "validation_loss": round(score["validation_loss"], 3),
        }
        for epoch, score in scores
    ]


def train(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train all runs in sequence, and return their results."""
    results = {}
    for name in arguments.runs.split(","):
        results[name] = train_run(name, arguments, arguments.to / name)
        print(json.dumps({name: results[name]}), file=sys.stderr, flush=True)
    return {"runs": results, "cores_of_a_run": arguments.cores}


def main() -> None:
    """Run a subcommand, and print its results with the machine and the software versions."""
    parser = parser_with(__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    of_corpus, of_baselines, of_train = (
        parts.add_parser(name) for name in ("corpus", "baselines", "train")
    )
    of_corpus.add_argument("packages", nargs="*", metavar="PACKAGE")
    of_corpus.add_argument("--to", type=Path, required=True, metavar="DIR")
    of_corpus.add_argument("--debs", type=Path, metavar="DIR", help="packages that are at hand")
    for part in (of_baselines, of_train):
        part.add_argument("--corpus", type=Path, required=True, metavar="DIR")
    of_train.add_argument(
        "--to", type=Path, required=True, metavar="DIR", help="folder of the runs"
    )
    of_train.add_argument("--runs", default=",".join(RUNS))
    of_train.add_argument("--epochs", type=int, help="of each run (default: its own)")
    of_train.add_argument("--minutes", type=float, default=20.0)
    of_train.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    parts_of = {"corpus": corpus, "baselines": baselines, "train": train}
    versions = {name: version(name) for name in ("sacrebleu", "sacremoses", "subword-nmt")}
    show(f"real_text {arguments.part}", versions=versions, **parts_of[arguments.part](arguments))


if __name__ == "__main__":
    main()
