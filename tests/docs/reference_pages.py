"""Generated pages of docs/reference: `python -m tests.docs.reference_pages` writes them."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterable, Mapping
from dataclasses import Field
from typing import Any
from unittest import mock

from suite.cli import COMMANDS, main
from suite.common import registry
from suite.config.key_suggestions import GROUPS, choices, group_choices, suite_keys, workload_keys
from tests.helpers import PROJECT

REFERENCE = PROJECT / "docs" / "reference"
SUBCOMMANDS = {
    "env": ("create", "list", "check", "remove"),
    "data": ("prepare", "verify", "make-demo", "make-vocabulary", "list"),
    "published": ("list",),
    "export": ("tensorboard", "mlflow", "wandb"),
}
GENERATED = "*This page is generated from the code.*"


def command_line_page() -> str:
    """Return the page with the help texts of all commands."""
    lines = [
        "# Command line",
        "",
        f"This page lists the options of each `suite` command. {GENERATED}",
        "",
        "`suite run` is `python run_suite.py`. Its arguments are",
        "[configuration keys](configuration_keys.md). A command ends with exit status 0, or with 1",
        "if its result is negative or a run failed, or with 2 if an argument is invalid.",
        "[Run folder](run_folder.md) lists the statuses of a run.",
    ]
    for name, summary in COMMANDS.items():
        lines += ["", f"## suite {name}", ""]
        if name == "run":
            lines += [f"{summary[0].upper()}{summary[1:]}."]
            continue
        calls = [(name,), *((name, subcommand) for subcommand in SUBCOMMANDS.get(name, ()))]
        for call in calls:
            lines += ["```text", help_text(call), "```", ""]
        lines.pop()
    return "\n".join(lines) + "\n"


def help_text(call: Iterable[str]) -> str:
    """Return the output of a command with `--help`, wrapped at 100 columns."""
    output = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "100"}),
        contextlib.redirect_stdout(output),
        contextlib.suppress(SystemExit),
    ):
        main([*call, "--help"])
    return output.getvalue().replace(".venv/bin/", "").strip()


def configuration_keys_page() -> str:
    """Return the page with the tables of all configuration keys."""
    workloads = [
        name
        for name in registry.names(registry.WORKLOADS)
        if registry.module_of(registry.WORKLOADS, name).startswith("workloads.")
    ]
    lines = [
        "# Configuration keys",
        "",
        "This page lists all keys of `python run_suite.py KEY=VALUE …` with their default values.",
        f"{GENERATED} [Configure a run](../how-to/configure_a_run.md) explains how to set them.",
        "",
        "## Choices",
        "",
        "| key | allowed values |",
        "|---|---|",
    ]
    for group in GROUPS:
        lines.append(f"| `{group}` | {', '.join(group_choices(group))} |")
    lines += ["", "## Keys of all workloads", "", *key_table(suite_keys())]
    for name in workloads:
        lines += ["", f"## workload={name}", "", *key_table(workload_keys(name))]
    return "\n".join(lines) + "\n"


def key_table(keys: Mapping[str, Field[Any]]) -> list[str]:
    """Return the lines of a table with a row for each key."""
    lines = ["| key | default | allowed | meaning |", "|---|---|---|---|"]
    for key, field in keys.items():
        if key.endswith(".name"):
            continue
        allowed = ", ".join(choices(key, field))
        meaning = _escape(field.metadata.get("help", ""))
        default = "" if callable(field.default_factory) else field.default
        shown = "" if default in ("", None) else f"`{default}`"
        lines.append(f"| `{key}` | {shown} | {allowed} | {meaning} |")
    return lines


def _escape(text: str) -> str:
    """Return a text for a cell of a Markdown table."""
    for character in "|*_<>":
        text = text.replace(character, f"\\{character}")
    return text


PAGES = {
    REFERENCE / "command_line.md": command_line_page,
    REFERENCE / "configuration_keys.md": configuration_keys_page,
}

if __name__ == "__main__":
    for path, page in PAGES.items():
        path.write_text(page(), encoding="utf-8")
