"""`suite data`: prepare, verify, generate and list data sets; learn a vocabulary for one."""

from __future__ import annotations

import argparse
from pathlib import Path

from suite.commands.arguments import add, add_machines
from suite.common.paths import data_root, in_utf8
from suite.common.registry import DATASETS, GENERATED, dataset_names, load_dataset, names
from suite.common.terminal import clean_lines
from workloads.api import Dataset

OPTIONS = ("min_ratings", "subset", "skip_bad", "full", "merges", "vocabulary")
"""Options of `prepare` of all data sets."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands and options of `suite data`."""
    subcommands = parser.add_subparsers(
        dest="subcommand", metavar="prepare|verify|make-demo|make-vocabulary|list", required=True
    )
    prepare = subcommands.add_parser("prepare", help="turn a downloaded data set into what runs read")
    verify = subcommands.add_parser("verify", help="compare prepared files with the digests in their manifest")
    make_demo = subcommands.add_parser("make-demo", help="generate a demo data set and prepare it")
    make_vocabulary = subcommands.add_parser("make-vocabulary", help="learn a vocabulary from text, for open runs")
    add_machines(verify)
    subcommands.add_parser("list", help="every data set and whether it is prepared")
    for subcommand_parser in (prepare, verify, make_demo, make_vocabulary):
        add(subcommand_parser, "name NAME", "name of the data set (see: suite data list)")
    for subcommand_parser in (prepare, verify, make_demo):
        add(subcommand_parser, "--to DIR", "folder of the prepared form (default: DATA/NAME)", type=Path)
    add(prepare, "--from PATH", "the download", dest="source", type=Path, required=True)
    add(prepare, "--name MINE", "images, coco: what yours are called (open runs)", dest="own_name")
    add(prepare, "--min-ratings N", "MovieLens: drop users with fewer (default: 20)", type=int)
    add(prepare, "--subset N", "images: keep N for training, spread over the classes", type=int)
    add(prepare, "--skip-bad", "images: leave out what cannot be used", default=None)
    add(prepare, "--full", "images: decode all instead of checking headers", default=None)
    add(prepare, "--merges N", "text: merges of the byte pair encoding to learn", type=int)
    add(prepare, "--vocabulary FILE", "text: a vocabulary of your own (suite data make-vocabulary): open", type=Path)
    text = "text files, a sentence a line; or the folder of the download"
    add(make_vocabulary, "--from PATH", text, dest="sources", type=Path, nargs="+", required=True)
    add(make_vocabulary, "--to FILE", "the vocabulary to write", type=Path, required=True)
    add(make_vocabulary, "--size N", "subwords to learn (default: as published)", type=int)


def run(args: argparse.Namespace) -> int:
    """Run a subcommand. Raises ValueError for a user's mistake."""
    if args.subcommand == "list":
        print(clean_lines(_table()))
        return 0
    dataset = load_dataset(args.name)
    own_name = getattr(args, "own_name", None)
    if own_name is not None:
        if own_name in names(DATASETS):
            raise ValueError(
                f"--name {own_name}: the suite has a data set of this name; set a different name, for example my-{args.name}"
            )
        if own_name.endswith(GENERATED):
            raise ValueError(
                f"--name {own_name}: {GENERATED} is reserved for generated data; set a name such as my-{args.name}"
            )
        dataset = dataset.called(own_name)
    destination: Path = data_root() / (own_name or args.name) if args.to is None else in_utf8(args.to, "--to ")
    try:
        lines = _carry_out(args, dataset, destination)
    except OSError as error:
        raise ValueError(f"{error.filename or destination}: {error.strerror or error}") from error
    print(clean_lines("\n".join(lines)))
    return 0


def _carry_out(args: argparse.Namespace, dataset: Dataset, destination: Path) -> list[str]:
    """Run the subcommand on a data set, and return the lines to print."""
    if args.subcommand == "verify":
        return dataset.verify(destination)
    if args.subcommand == "make-demo":
        return dataset.make_demo(destination)
    if args.subcommand == "make-vocabulary":
        return dataset.make_vocabulary(args.sources, destination, args.size)
    given = {name: vars(args)[name] for name in OPTIONS if vars(args)[name] is not None}
    return dataset.with_options(given).prepare(args.source, destination)


def _table() -> str:
    """Return a line for each data set: name, state, folder."""
    rows = []
    for name in dataset_names():
        folder = data_root() / name
        state = "prepared" if load_dataset(name).is_prepared(folder) else "not prepared"
        rows.append((name, state, str(folder)))
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return "\n".join(f"{name:<{widths[0]}}  {state:<{widths[1]}}  {folder}" for name, state, folder in rows)
