"""`suite data`: prepare, verify, generate, and list data sets, and learn vocabularies."""

from __future__ import annotations

import argparse
from pathlib import Path

from suite.commands.arguments import add, add_machines
from suite.common.paths import data_root, in_utf8
from suite.common.registry import DATASETS, GENERATED, dataset_names, load_dataset, names
from suite.common.terminal import clean_lines
from workloads.api import Dataset

OPTIONS = ("min_ratings", "subset", "skip_bad", "full", "merges", "vocabulary")
"""Options of `suite data prepare` that only some data sets support."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and options of `suite data`."""
    subcommands = parser.add_subparsers(
        dest="subcommand", metavar="prepare|verify|make-demo|make-vocabulary|list", required=True
    )
    prepare = subcommands.add_parser(
        "prepare", help="convert a downloaded data set to the files that runs read"
    )
    verify = subcommands.add_parser(
        "verify", help="compare prepared files with the checksums in their manifest"
    )
    make_demo = subcommands.add_parser("make-demo", help="generate and prepare a demo data set")
    make_vocabulary = subcommands.add_parser(
        "make-vocabulary", help="learn a vocabulary from text (open division)"
    )
    add_machines(verify)
    subcommands.add_parser("list", help="list the data sets, and whether they are prepared")
    for subcommand_parser in (prepare, verify, make_demo, make_vocabulary):
        add(subcommand_parser, "name NAME", "name of the data set (see: suite data list)")
    for subcommand_parser in (prepare, verify, make_demo):
        add(
            subcommand_parser,
            "--to DIR",
            "folder of the prepared files (default: NAME in the data folder)",
            type=Path,
        )
    add(
        prepare, "--from PATH", "downloaded file or folder", dest="source", type=Path, required=True
    )
    add(
        prepare,
        "--name MINE",
        "images, coco: name of your data set (open division)",
        dest="user_name",
    )
    add(
        prepare,
        "--min-ratings N",
        "MovieLens: drop users with fewer ratings (default: 20)",
        type=int,
    )
    add(prepare, "--subset N", "images: keep N training images, spread over the classes", type=int)
    add(prepare, "--skip-bad", "images: skip images that cannot be used", default=None)
    add(
        prepare,
        "--full",
        "images: decode all images instead of checking their headers",
        default=None,
    )
    add(
        prepare, "--merges N", "text: number of merges of the byte pair encoding to learn", type=int
    )
    add(
        prepare,
        "--vocabulary FILE",
        "text: your vocabulary, from suite data make-vocabulary (open division)",
        type=Path,
    )
    text = "text files with a sentence per line, or the downloaded folder"
    add(make_vocabulary, "--from PATH", text, dest="sources", type=Path, nargs="+", required=True)
    add(make_vocabulary, "--to FILE", "file to write the vocabulary to", type=Path, required=True)
    add(
        make_vocabulary, "--size N", "number of subwords to learn (default: as published)", type=int
    )


def run(args: argparse.Namespace) -> int:
    """Run a subcommand of `suite data` and return 0.

    Raises ValueError with a single-line message for a user error.
    """
    if args.subcommand == "list":
        print(clean_lines(_table()))
        return 0
    dataset = load_dataset(args.name)
    user_name = getattr(args, "user_name", None)
    if user_name is not None:
        _check_user_name(user_name, args.name)
        dataset = dataset.with_name(user_name)
    destination: Path = (
        data_root() / (user_name or args.name) if args.to is None else in_utf8(args.to, "--to ")
    )
    try:
        lines = _run_on(dataset, destination, args)
    except OSError as error:
        raise ValueError(f"{error.filename or destination}: {error.strerror or error}") from error
    print(clean_lines("\n".join(lines)))
    return 0


def _check_user_name(user_name: str, dataset_name: str) -> None:
    """Raise ValueError if the data set name from `--name` is reserved."""
    remedy = f"Set a different name, for example --name my-{dataset_name}"
    if user_name in names(DATASETS):
        raise ValueError(
            f"--name {user_name}: this name is reserved for a data set of the suite. {remedy}"
        )
    if user_name.endswith(GENERATED):
        raise ValueError(
            f"--name {user_name}: names that end in {GENERATED} are reserved for generated data."
            f" {remedy}"
        )


def _run_on(dataset: Dataset, destination: Path, args: argparse.Namespace) -> list[str]:
    """Run the subcommand of `suite data` for a data set, and return the lines to print."""
    if args.subcommand == "verify":
        return dataset.verify(destination)
    if args.subcommand == "make-demo":
        return dataset.make_demo(destination)
    if args.subcommand == "make-vocabulary":
        return dataset.make_vocabulary(args.sources, destination, args.size)
    options = {name: vars(args)[name] for name in OPTIONS if vars(args)[name] is not None}
    return dataset.with_options(options).prepare(args.source, destination)


def _table() -> str:
    """Return a table with the name, status, and folder of each data set."""
    rows = []
    for name in dataset_names():
        folder = data_root() / name
        state = "prepared" if load_dataset(name).is_prepared(folder) else "not prepared"
        rows.append((name, state, str(folder)))
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return "\n".join(
        f"{name:<{widths[0]}}  {state:<{widths[1]}}  {folder}" for name, state, folder in rows
    )
