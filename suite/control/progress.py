"""What the console shows while a run goes on: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.status import Status as Spinner

from suite.common.runspec import RunSpec
from suite.worker.heartbeat import Beat

QUIET_SECONDS = 60.0
"""Without a terminal: the longest time without a line."""


class Progress:
    """Follows one run: heartbeats for the live line, `metrics.jsonl` for one line per evaluation block."""

    def __init__(self, run: RunSpec, title: str, console: Console) -> None:
        self.run_spec = run
        self.title = title
        self.console = console
        self._metrics = Path(run.folder) / "metrics.jsonl"
        self._offset = 0
        self._latest = ""
        self._begin = self._last_line = time.monotonic()
        self._samples = self._last_samples = 0
        self._spinner: Spinner | None = None

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self._spinner = self.console.status(escape(self.title), refresh_per_second=4)
            self._spinner.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._new_blocks()
        if self._spinner is not None:
            self._spinner.__exit__(kind, error, at)
            self._spinner = None

    def update(self, beats: Sequence[Beat | None]) -> None:
        beat = beats[0]
        self._samples = beat.samples if beat is not None else self._samples
        self._new_blocks()
        if self._spinner is not None and beat is not None:
            seconds = time.monotonic() - self._begin
            state = f"{beat.phase}, step {beat.step:,}" if beat.step else beat.phase
            self._spinner.update(escape(f"{self.title}  {seconds:.0f} s  {state}{self._latest}"))
        elif beat is not None and time.monotonic() - self._last_line >= QUIET_SECONDS:
            self._line_of_a_minute(beat)

    def _line_of_a_minute(self, beat: Beat) -> None:
        """One line in the midst of an epoch, a long evaluation or a long setup."""
        now = time.monotonic()
        parts = [f"  {beat.phase}"]
        if beat.step:
            rate = (beat.samples - self._last_samples) / (now - self._last_line)
            parts += [
                f"step {beat.step:,}",
                f"{rate:,.0f} {self.run_spec.identity['sample_unit']}/s since the last line",
            ]
        self._print(f"{'  '.join(parts)}  {now - self._begin:.0f} s since launch")

    def _print(self, line: str) -> None:
        self.console.print(escape(line), highlight=False, soft_wrap=True)
        self._last_line, self._last_samples = time.monotonic(), self._samples

    def _new_blocks(self) -> None:
        for block in self._read_blocks():
            unit = self.run_spec.identity["sample_unit"]
            rates = {unit: block["samples_per_second"], **block.get("rates", {})}
            speed = "  ".join(f"{rate:,.0f} {name}/s" for name, rate in rates.items())
            quality = self._quality(block["quality"])
            self._latest = f"  {speed}{quality}"
            seconds = time.monotonic() - self._begin
            wait = 100 * block["data_wait_seconds"] / max(block["train_seconds"], 1e-9)
            line = f"  epoch {block['first_epoch'] + block['epochs'] - 1}  {speed}{quality}  data wait {wait:.0f} %"
            self._print(f"{line}  {seconds:.1f} s since launch")

    def _quality(self, quality: dict[str, float]) -> str:
        targets = self.run_spec.settings.targets
        aims = {name: f" of {target:g}" for name, target in targets.items()}
        return "".join(f"  {name} {value:.4f}{aims.get(name, '')}" for name, value in quality.items())

    def _read_blocks(self) -> list[dict[str, Any]]:
        """Whole new lines of metrics.jsonl."""
        try:
            with open(self._metrics, "rb") as stream:
                stream.seek(self._offset)
                text = stream.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [json.loads(line) for line in whole.splitlines()]
