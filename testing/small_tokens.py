"""A small prepared data set of generated tokens for Llama 3.1 8B."""

from __future__ import annotations

from pathlib import Path

from workloads.common import manifest as manifests
from workloads.llama31_8b import grammar, token_files
from workloads.llama31_8b.dataset import LlamaText

TOKENS = {"train": 256 * 128 + 1, "validation": 128 * 128 + 1}
"""Fewest tokens of each split: 256 training and 128 validation sequences of the demo."""


def write(destination: Path) -> None:
    """Write the data set `llama-text` to a new folder."""
    dataset = LlamaText()
    with manifests.workspace(destination) as folder:
        for split, tokens in TOKENS.items():
            token_files.write(folder, split, grammar.documents(1, split, tokens))
        source = {"name": "generated", "bytes": 0, "sha256": ""}
        manifests.publish(folder, destination, dataset.describe(folder, source))
